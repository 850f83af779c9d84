package validation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// Where variables come from, and tolerations that compare: what is wrong here
// could never be in a pod.
func TestWhatPodsDoNotTake(t *testing.T) {
	const at = "spec.packages[driver].env[0].valueFrom"
	from := func(source corev1.EnvVarSource) func(*v1alpha1.NodeWright) {
		return pkg(func(p *v1alpha1.Package) { p.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &source}} })
	}
	secret := func(name, key string) corev1.EnvVarSource {
		return corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}}
	}
	file := func(name, key string) corev1.EnvVarSource {
		return corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}}
	}
	two := secret("s", "k")
	two.FieldRef = &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}
	podField := func(path string) func(*v1alpha1.NodeWright) {
		return from(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}})
	}
	amount := func(name, divisor string) func(*v1alpha1.NodeWright) {
		r := &corev1.ResourceFieldSelector{Resource: name}
		if divisor != "" {
			r.Divisor = resource.MustParse(divisor)
		}
		return from(corev1.EnvVarSource{ResourceFieldRef: r})
	}
	beta := corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1beta1", FieldPath: "metadata.name"}}
	stable := corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}
	above := func(operator corev1.TolerationOperator, value string) func(*v1alpha1.NodeWright) {
		return tolerate(corev1.Toleration{Key: "a", Operator: operator, Value: value})
	}
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.NodeWright)
		// want is the field that is wrong, empty for none, and words its message.
		want, words string
	}{
		"from nowhere":      {from(corev1.EnvVarSource{}), at, "exactly one"},
		"from two":          {from(two), at, "2 are set"},
		"from the node":     {from(corev1.EnvVarSource{FieldRef: two.FieldRef}), "", ""},
		"from a limit":      {from(corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}), "", ""},
		"from a Secret":     {from(secret("s", "k")), "", ""},
		"from no Secret":    {from(secret("", "k")), at + ".secretKeyRef.name", ""},
		"from no key":       {from(secret("s", "")), at + ".secretKeyRef.key", ""},
		"from a ConfigMap":  {from(file("s", "a.b")), "", ""},
		"from an odd key":   {from(file("s", "a/b")), at + ".configMapKeyRef.key", ""},
		"from a volume":     {from(corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}), at + ".fileKeyRef", "volume"},
		"above a number":    {above(corev1.TolerationOpGt, "5"), "spec.additionalTolerations[0].operator", `"Equal", "Exists"`},
		"below a number":    {above(corev1.TolerationOpLt, "5"), "spec.additionalTolerations[0].operator", `"Equal", "Exists"`},
		"equal to a number": {above(corev1.TolerationOpEqual, "5"), "", ""},
		"equal to any text": {above(corev1.TolerationOpEqual, "05"), "", ""},

		"no field":                    {podField(""), at + ".fieldRef.fieldPath", "spec.nodeName"},
		"an unknown field":            {podField("foo"), at + ".fieldRef.fieldPath", `"metadata.name"`},
		"a field of volumes":          {podField("metadata.labels"), at + ".fieldRef.fieldPath", "metadata.labels['<key>']"},
		"a label":                     {podField("metadata.labels['example.com/Pool']"), "", ""},
		"a label without a name":      {podField("metadata.labels['']"), at + ".fieldRef.fieldPath", "key in brackets"},
		"a label that none is":        {podField("metadata.labels['a b']"), at + ".fieldRef.fieldPath", "key in brackets"},
		"a label, open":               {podField("metadata.labels['a'"), at + ".fieldRef.fieldPath", "supported values"},
		"an annotation":               {podField("metadata.annotations['Example.com/Pool']"), "", ""},
		"an annotation that none is":  {podField("metadata.annotations['a/b/c']"), at + ".fieldRef.fieldPath", "key in brackets"},
		"one of what is no map":       {podField("metadata.name['a']"), at + ".fieldRef.fieldPath", "supported values"},
		"a field of the node":         {podField("status.hostIPs"), "", ""},
		"a status that is not there":  {podField("status.phase"), at + ".fieldRef.fieldPath", `"status.podIP"`},
		"a version that none is":      {from(beta), at + ".fieldRef.apiVersion", `"v1"`},
		"the version of pods":         {from(stable), "", ""},
		"no resource":                 {amount("", ""), at + ".resourceFieldRef.resource", "limits.cpu"},
		"an unknown resource":         {amount("limits.gpu", ""), at + ".resourceFieldRef.resource", `"limits.cpu"`},
		"a resource without its kind": {amount("cpu", ""), at + ".resourceFieldRef.resource", `"requests.cpu"`},
		"huge pages":                  {amount("limits.hugepages-2Mi", "1Mi"), "", ""},
		"huge pages of nothing":       {amount("hugepages-2Mi", ""), at + ".resourceFieldRef.resource", "hugepages-<size>"},
		"thousandths of a CPU":        {amount("requests.cpu", "1m"), "", ""},
		"thousands of CPUs":           {amount("requests.cpu", "1k"), at + ".resourceFieldRef.divisor", `"1m"`},
		"memory in Gi":                {amount("limits.memory", "1Gi"), "", ""},
		"memory in pairs of Gi":       {amount("limits.memory", "2Gi"), at + ".resourceFieldRef.divisor", `"1Gi"`},
		"thousandths of a byte":       {amount("limits.memory", "1m"), at + ".resourceFieldRef.divisor", `"1Ki"`},
	} {
		t.Run(name, func(t *testing.T) {
			checkErrors(t, NodeWright(sound(tc.edit), Rules{}), tc.want, tc.words)
		})
	}
}

// checkErrors wants one error, at the field want, that says words; none if want is
// empty.
func checkErrors(t *testing.T, errs field.ErrorList, want, words string) {
	t.Helper()
	if want == "" {
		if len(errs) != 0 {
			t.Fatalf("errors %v", errs)
		}
		return
	}
	if len(errs) != 1 || errs[0].Field != want || !strings.Contains(errs[0].Error(), words) {
		t.Fatalf("errors %v, want one at %s that says %q", errs, want, words)
	}
}

// Everything that a variable may come from is what pods take, and said in full to
// who asks for something else.
func TestSourcesOfVariables(t *testing.T) {
	for _, path := range podFields {
		v := corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
		checkErrors(t, source(field.NewPath("valueFrom"), &v), "", "")
	}
	for _, name := range containerResources {
		v := corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: name}}
		checkErrors(t, source(field.NewPath("valueFrom"), &v), "", "")
		v.ResourceFieldRef.Resource += "s"
		checkErrors(t, source(field.NewPath("valueFrom"), &v), "valueFrom.resourceFieldRef.resource", name)
	}
}
