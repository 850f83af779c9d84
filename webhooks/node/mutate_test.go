package node

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/support"
)

// shelf is a cache with these NodeWrights.
type shelf struct {
	client.Reader
	items []v1alpha1.NodeWright
	err   error
	asked int
}

func (s *shelf) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.asked++
	list.(*v1alpha1.NodeWrightList).Items = s.items
	return s.err
}

var taint = corev1.Taint{Key: "nodewright.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}

// wants is a NodeWright that wants nodes of the pool gpu set up first.
func wants(edits ...func(*v1alpha1.NodeWright)) v1alpha1.NodeWright {
	nw := v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "tuning"}, Spec: v1alpha1.NodeWrightSpec{
		RuntimeRequired: true, AutoTaintNewNodes: true,
		NodeSelectors: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}},
		Packages:      map[string]v1alpha1.Package{"driver": {Version: "1.2.3", Image: "r/d"}},
	}}
	for _, edit := range edits {
		edit(&nw)
	}
	return nw
}

func none(*v1alpha1.NodeWright) string { return "" }

func TestMutator(t *testing.T) {
	type nodeWrights = []v1alpha1.NodeWright
	const gpu = `{"metadata":{"name":"n1","labels":{"pool":"gpu"}},"spec":{"podCIDR":"10.0.0.0/24"},"status":{"x":1.50}}`
	other := `{"effect":"NoExecute","key":"a"}`
	ours := `{"effect":"NoSchedule","key":"nodewright.nvidia.com","value":"runtime-required"}`
	tainted := strings.Replace(gpu, `"spec":{`, `"spec":{"taints":[`+ours+`],`, 1)
	with := func(object, taints string) string {
		return strings.Replace(object, `"spec":{`, `"spec":{"taints":`+taints+`,`, 1)
	}
	made := `{"metadata":{"name":"n1","annotations":{"` + stateKey + `":"x","` + noteKey + `":"mine"},"labels":{"` + statusKey + `":"complete","pool":"gpu"}}}`
	clean := `{"metadata":{"name":"n1","annotations":{"` + noteKey + `":"mine"},"labels":{"pool":"gpu"}}}`
	cases := map[string]struct {
		object   string
		user     string
		all      nodeWrights
		listErr  error
		askErr   error
		obstacle func(*v1alpha1.NodeWright) string
		noTaint  bool
		edit     func(*admission.Request)
		want     string
		says     string
	}{
		"wanted":           {object: gpu, all: nodeWrights{wants()}, want: tainted},
		"wanted by two":    {object: gpu, all: nodeWrights{wants(), wants()}, want: tainted},
		"nobody wants it":  {object: gpu, want: gpu},
		"not selected":     {object: strings.Replace(gpu, "gpu", "cpu", 1), all: nodeWrights{wants()}, want: strings.Replace(gpu, "gpu", "cpu", 1)},
		"not required":     {object: gpu, all: nodeWrights{wants(func(n *v1alpha1.NodeWright) { n.Spec.RuntimeRequired = false })}, want: gpu},
		"not automatic":    {object: gpu, all: nodeWrights{wants(func(n *v1alpha1.NodeWright) { n.Spec.AutoTaintNewNodes = false })}, want: gpu},
		"is being deleted": {object: gpu, all: nodeWrights{wants(func(n *v1alpha1.NodeWright) { n.DeletionTimestamp = &metav1.Time{} })}, want: gpu},
		// Nothing would ever take the taint off again.
		"is held":                      {object: gpu, all: nodeWrights{wants(func(n *v1alpha1.NodeWright) { n.Spec.DeploymentPolicy = "gradual" })}, obstacle: support.Obstacle, want: gpu},
		"the operator puts none":       {object: gpu, all: nodeWrights{wants()}, noTaint: true, want: gpu},
		"ignored":                      {object: strings.Replace(gpu, `"pool"`, `"`+v1alpha1.LabelIgnore+`":"true","pool"`, 1), all: nodeWrights{wants()}, want: strings.Replace(gpu, `"pool"`, `"`+v1alpha1.LabelIgnore+`":"true","pool"`, 1)},
		"has another taint":            {object: with(gpu, "["+other+"]"), all: nodeWrights{wants()}, want: with(gpu, "["+other+","+ours+"]")},
		"has the taint":                {object: with(gpu, "["+ours+","+other+"]"), all: nodeWrights{wants()}, want: with(gpu, "["+ours+","+other+"]")},
		"has it with another value":    {object: with(gpu, `[{"effect":"NoSchedule","key":"nodewright.nvidia.com"}]`), all: nodeWrights{wants()}, want: with(gpu, `[{"effect":"NoSchedule","key":"nodewright.nvidia.com"}]`)},
		"has it with another effect":   {object: with(gpu, `[{"effect":"NoExecute","key":"nodewright.nvidia.com"}]`), all: nodeWrights{wants()}, want: with(gpu, `[{"effect":"NoExecute","key":"nodewright.nvidia.com"},`+ours+`]`)},
		"taints are null":              {object: with(gpu, "null"), all: nodeWrights{wants()}, want: with(gpu, "["+ours+"]")},
		"taints are empty":             {object: with(gpu, "[]"), all: nodeWrights{wants()}, want: with(gpu, "["+ours+"]")},
		"no spec":                      {object: clean, all: nodeWrights{wants()}, want: strings.TrimSuffix(clean, "}") + `,"spec":{"taints":[` + ours + `]}}`},
		"the cache fails":              {object: gpu, listErr: errNobody, want: gpu, says: taint.ToString()},
		"WH-06 made-up keys":           {object: made, want: clean, says: stateKey},
		"WH-06 made-up keys and taint": {object: made, all: nodeWrights{wants()}, want: strings.TrimSuffix(clean, "}") + `,"spec":{"taints":[` + ours + `]}}`, says: "label " + statusKey},
		"made-up keys that were selected by": {object: made, want: clean, says: statusKey,
			all: nodeWrights{wants(func(n *v1alpha1.NodeWright) {
				n.Spec.NodeSelectors.MatchLabels = map[string]string{statusKey: "complete"}
			})}},
		"WH-06 made-up applies":           {object: claimed(ownerNode, "kubelet", ownerRoll), want: claimed("kubelet"), says: "managedFields of the operator"},
		"an update of ours":               {object: strings.ReplaceAll(claimed(ownerNode), "Apply", "Update"), want: strings.ReplaceAll(claimed(ownerNode), "Apply", "Update")},
		"an apply of the status":          {object: strings.Replace(claimed(ownerNode), `"operation"`, `"subresource":"status","operation"`, 1), want: strings.Replace(claimed(ownerNode), `"operation"`, `"subresource":"status","operation"`, 1)},
		"applies of others":               {object: claimed("kubelet", "gitops"), want: claimed("kubelet", "gitops")},
		"applies of who breaks the glass": {object: claimed(ownerNode), user: "bob", want: claimed(ownerNode)},
		"keys of the operator itself":     {object: made, user: operatorUser, want: clean, says: stateKey},
		"keys of who breaks the glass":    {object: made, user: "bob", want: made},
		"keys, and nobody can be asked":   {object: made, user: "bob", askErr: errNobody, want: clean, says: stateKey},
		"an update":                       {object: made, all: nodeWrights{wants()}, edit: func(r *admission.Request) { r.Operation = admissionv1.Update }, want: made},
		"an object that cannot be read":   {object: `{"metadata":[]}`, all: nodeWrights{wants()}, want: `{"metadata":[]}`},
		"taints that cannot be read":      {object: `{"spec":{"taints":"x"}}`, all: nodeWrights{wants()}, want: `{"spec":{"taints":"x"}}`},
		"a selector that cannot be read": {object: gpu, all: nodeWrights{wants(func(n *v1alpha1.NodeWright) {
			n.Spec.NodeSelectors.MatchExpressions = []metav1.LabelSelectorRequirement{{Operator: "x"}}
		})}, want: gpu},
		"a selector of all that cannot be carried out": {object: gpu, obstacle: func(*v1alpha1.NodeWright) string { return "held" }, all: nodeWrights{wants(func(n *v1alpha1.NodeWright) { n.Spec.NodeSelectors = metav1.LabelSelector{} })}, want: gpu},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := &mutator{
				operator: operatorUser, reviewer: &reviews{may: []string{"bob", operatorUser}, err: tc.askErr},
				reader: &shelf{items: tc.all, err: tc.listErr}, taint: &taint, obstacle: none,
			}
			if tc.askErr != nil {
				m.reviewer = &reviews{err: tc.askErr}
			}
			if tc.obstacle != nil {
				m.obstacle = tc.obstacle
			}
			if tc.noTaint {
				m.taint = nil
			}
			req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Name: nodeName, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(tc.object)},
			}}
			if req.UserInfo.Username = tc.user; tc.user == "" {
				req.UserInfo.Username = "system:node:n1"
			}
			if tc.edit != nil {
				tc.edit(&req)
			}
			got, warnings := mutate(t, m, req)
			if diff := cmp.Diff(parse(t, tc.want), parse(t, got), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the node (-want +got):\n%s", diff)
			}
			if text := strings.Join(warnings, "\n"); !strings.Contains(text, tc.says) || tc.says == "" && text != "" {
				t.Errorf("warnings %q, want %q", text, tc.says)
			}
			// The API server may ask again.
			req.Object.Raw = []byte(got)
			if again, _ := mutate(t, m, req); again != got {
				t.Errorf("asked again it makes\n%s of\n%s", again, got)
			}
		})
	}
}

// claimed is a node to which these managers are said to have applied.
func claimed(names ...string) string {
	var entries []string
	for _, name := range names {
		entries = append(entries, `{"manager":"`+name+`","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:taints":{}}}}`)
	}
	return `{"metadata":{"name":"n1","managedFields":[` + strings.Join(entries, ",") + `]}}`
}

// mutate gives the object as the API server has it after the answer.
func mutate(t *testing.T, m *mutator, req admission.Request) (string, []string) {
	t.Helper()
	response := m.Handle(context.Background(), req)
	if !response.Allowed {
		t.Fatalf("refused: %v", response.Result)
	}
	if err := response.Complete(req); err != nil {
		t.Fatal(err)
	}
	if len(response.Patch) == 0 {
		return string(req.Object.Raw), response.Warnings
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply(req.Object.Raw)
	if err != nil {
		t.Fatalf("%s: %v", response.Patch, err)
	}
	return string(out), response.Warnings
}

func parse(t *testing.T, text string) any {
	t.Helper()
	var out any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Labels that make somebody's key are escaped in patches.
func TestPointer(t *testing.T) {
	if got := pointer.Replace(nodestate.Prefix + "a~b"); got != "nodewright.nvidia.com~1a~0b" {
		t.Error(got)
	}
}
