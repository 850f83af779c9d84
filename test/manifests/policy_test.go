package manifests

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// The policy knows the operator of the installation that it is part of, and is
// bound.
func TestPolicyComponent(t *testing.T) {
	const name = "node-state.nodewright.nvidia.com"
	i := render(t, renamed(t, "policy"), "gpu-ops", "east-nodewright-")
	policy := get[admissionregistrationv1.ValidatingAdmissionPolicy](t, i.objects, "ValidatingAdmissionPolicy", name)
	operator := ""
	for _, v := range policy.Spec.Variables {
		if v.Name == "operator" {
			operator = v.Expression
		}
	}
	want := "request.userInfo.username == 'system:serviceaccount:' + 'gpu-ops' + ':' + 'east-nodewright-manager'"
	if got := strings.Join(strings.Fields(operator), " "); got != want {
		t.Errorf("the operator is known by %s, want %s", got, want)
	}
	if account := i.manager.Spec.Template.Spec.ServiceAccountName; account != "east-nodewright-manager" {
		t.Errorf("the manager runs as %s", account)
	}
	binding := get[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, i.objects, "ValidatingAdmissionPolicyBinding", name)
	if binding.Spec.PolicyName != policy.Name {
		t.Errorf("the binding is of policy %q", binding.Spec.PolicyName)
	}
	if actions := binding.Spec.ValidationActions; len(actions) != 1 || actions[0] != admissionregistrationv1.Deny {
		t.Errorf("the binding does %v, want that it denies", actions)
	}
	// It guards what the webhook guards.
	for n := range i.validating.Webhooks {
		if w := &i.validating.Webhooks[n]; w.Name == "vnode.nodewright.nvidia.com" {
			if len(w.Rules) != len(policy.Spec.MatchConstraints.ResourceRules) {
				t.Fatalf("%d rules, the webhook has %d", len(policy.Spec.MatchConstraints.ResourceRules), len(w.Rules))
			}
			for k, rule := range w.Rules {
				guarded := policy.Spec.MatchConstraints.ResourceRules[k]
				if strings.Join(rule.Resources, " ") != strings.Join(guarded.Resources, " ") || rule.Operations[0] != guarded.Operations[0] {
					t.Errorf("rule %d is %v, the webhook's %v", k, guarded, rule)
				}
			}
		}
	}
}

// Without the component there is no policy.
func TestPolicyIsOptional(t *testing.T) {
	objects, err := Render(t.Context(), Default)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(objects.Kind("ValidatingAdmissionPolicy")) + len(objects.Kind("ValidatingAdmissionPolicyBinding")); n != 0 {
		t.Errorf("%d policies and bindings by default", n)
	}
}
