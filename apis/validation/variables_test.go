package validation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
		"above a number":    {above(corev1.TolerationOpGt, "-5"), "", ""},
		"above a word":      {above(corev1.TolerationOpGt, "x"), "spec.additionalTolerations[0].value", "whole number"},
		"below an odd one":  {above(corev1.TolerationOpLt, "05"), "spec.additionalTolerations[0].value", "whole number"},
		"equal to any text": {above(corev1.TolerationOpEqual, "05"), "", ""},
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
