package deploymentpolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/webhooks/answer"
)

// users are the NodeWrights of the cluster.
type users struct {
	items []v1alpha1.NodeWright
	err   error
}

func (u *users) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v1alpha1.NodeWrightList).Items = u.items
	return u.err
}

func ask(t testing.TB, u *users, operation admissionv1.Operation, object, old string) admission.Response {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Name: "gradual", Operation: operation}}
	req.Object.Raw, req.OldObject.Raw = []byte(object), []byte(old)
	return hook(scheme, &validator{live: u}).Handle(t.Context(), req)
}

func policy(count string) string {
	return `{"apiVersion":"nodewright.nvidia.com/v1alpha1","kind":"DeploymentPolicy","metadata":{"name":"gradual"},` +
		`"spec":{"default":{"budget":{"count":` + count + `},"strategy":{"fixed":{}}}}}`
}

func TestValidator(t *testing.T) {
	user := func(name, policy string, edit func(*v1alpha1.NodeWright)) v1alpha1.NodeWright {
		nw := v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeWrightSpec{DeploymentPolicy: policy}}
		if edit != nil {
			edit(&nw)
		}
		return nw
	}
	going := func(nw *v1alpha1.NodeWright) { nw.DeletionTimestamp = &metav1.Time{} }
	tests := map[string]struct {
		users       users
		operation   admissionv1.Operation
		object, old string
		want        string
	}{
		"create":                   {operation: admissionv1.Create, object: policy("1")},
		"create a wrong one":       {operation: admissionv1.Create, object: policy("0"), want: "spec.default.budget.count"},
		"update":                   {operation: admissionv1.Update, object: policy("2"), old: policy("1")},
		"update to a wrong one":    {operation: admissionv1.Update, object: policy("0"), old: policy("1"), want: "spec.default.budget.count"},
		"delete":                   {operation: admissionv1.Delete, old: policy("1")},
		"delete a wrong one":       {operation: admissionv1.Delete, old: policy("0")},
		"delete, others are named": {users: users{items: []v1alpha1.NodeWright{user("a", "other", nil), user("b", "", nil)}}, operation: admissionv1.Delete, old: policy("1")},
		"delete while it is named": {users: users{items: []v1alpha1.NodeWright{user("b", "gradual", nil), user("a", "gradual", nil)}}, operation: admissionv1.Delete, old: policy("1"), want: "NodeWright a, b"},
		"delete, its user goes":    {users: users{items: []v1alpha1.NodeWright{user("b", "gradual", going)}}, operation: admissionv1.Delete, old: policy("1")},
		// An earlier schema admitted it.
		"mend what cannot be read":       {operation: admissionv1.Update, object: policy("1"), old: policy("3000000000")},
		"mend it wrongly":                {operation: admissionv1.Update, object: policy("0"), old: policy("3000000000"), want: "spec.default.budget.count"},
		"go on with what cannot be read": {operation: admissionv1.Update, object: policy("3000000001"), old: policy("3000000000"), want: "correct the field"},
		"delete what cannot be read":     {operation: admissionv1.Delete, old: policy("3000000000")},
		"delete it while it is named":    {users: users{items: []v1alpha1.NodeWright{user("a", "gradual", nil)}}, operation: admissionv1.Delete, old: policy("3000000000"), want: "NodeWright a"},
		"delete, users unknown":          {users: users{err: errors.New("away")}, operation: admissionv1.Delete, old: policy("1"), want: "away"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			resp := ask(t, &tc.users, tc.operation, tc.object, tc.old)
			if resp.Allowed != (tc.want == "") || !strings.Contains(fmt.Sprint(resp.Result), tc.want) {
				t.Errorf("allowed %t, %v; want a refusal that says %q", resp.Allowed, resp.Result, tc.want)
			}
		})
	}
}

func TestDecisionsAreCounted(t *testing.T) {
	count := func(decision string) float64 {
		return testutil.ToFloat64(decisions.WithLabelValues("CREATE", decision))
	}
	refused, admitted := count(answer.Refused), count(answer.Admitted)
	ask(t, &users{}, admissionv1.Create, policy("0"), "")
	ask(t, &users{}, admissionv1.Create, policy("1"), "")
	if count(answer.Refused) != refused+1 || count(answer.Admitted) != admitted+1 {
		t.Error("a decision is not counted")
	}
}

func FuzzHandler(f *testing.F) {
	f.Add([]byte(policy("1")), []byte(policy("0")))
	f.Add([]byte(`{"spec":{"compartments":[{}]}}`), []byte(`null`))
	f.Add([]byte(`[`), []byte(``))
	f.Fuzz(func(t *testing.T, object, old []byte) {
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete} {
			resp := ask(t, &users{}, operation, string(object), string(old))
			if !resp.Allowed && (resp.Result == nil || resp.Result.Message == "") {
				t.Fatalf("%s of %q is refused without a word", operation, object)
			}
		}
	})
}
