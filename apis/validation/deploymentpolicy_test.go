package validation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func soundPolicy() *v1alpha1.DeploymentPolicy {
	return &v1alpha1.DeploymentPolicy{Spec: v1alpha1.DeploymentPolicySpec{
		Default: v1alpha1.PolicyDefault{
			Budget:   v1alpha1.DeploymentBudget{Count: ptr.To[int32](1)},
			Strategy: &v1alpha1.DeploymentStrategy{Fixed: &v1alpha1.FixedStrategy{}},
		},
		Compartments: []v1alpha1.Compartment{{
			Name: "a", Budget: v1alpha1.DeploymentBudget{Percent: ptr.To[int32](10)},
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		}},
	}}
}

func TestDeploymentPolicy(t *testing.T) {
	type policy = v1alpha1.DeploymentPolicySpec
	fixed := func(edit func(*v1alpha1.FixedStrategy)) func(*policy) {
		return func(s *policy) { edit(s.Default.Strategy.Fixed) }
	}
	linear := func(delta int32) func(*policy) {
		return func(s *policy) {
			s.Compartments[0].Strategy = &v1alpha1.DeploymentStrategy{Linear: &v1alpha1.LinearStrategy{Delta: &delta}}
		}
	}
	exponential := func(factor int32) func(*policy) {
		return func(s *policy) {
			s.Compartments[0].Strategy = &v1alpha1.DeploymentStrategy{Exponential: &v1alpha1.ExponentialStrategy{GrowthFactor: &factor}}
		}
	}
	second := func(name string) func(*policy) {
		return func(s *policy) {
			s.Compartments = append(s.Compartments, s.Compartments[0])
			s.Compartments[1].Name = name
		}
	}
	const at = "spec.compartments[0]."
	tests := map[string]struct {
		edit func(*policy)
		want string
	}{
		"sound":                    {func(*policy) {}, ""},
		"no budget":                {func(s *policy) { s.Default.Budget = v1alpha1.DeploymentBudget{} }, "spec.default.budget"},
		"two budgets":              {func(s *policy) { s.Default.Budget.Percent = ptr.To[int32](1) }, "spec.default.budget"},
		"count 0":                  {func(s *policy) { s.Default.Budget.Count = ptr.To[int32](0) }, "spec.default.budget.count"},
		"percent 0":                {func(s *policy) { s.Compartments[0].Budget.Percent = ptr.To[int32](0) }, at + "budget.percent"},
		"percent 1":                {func(s *policy) { s.Compartments[0].Budget.Percent = ptr.To[int32](1) }, ""},
		"percent 100":              {func(s *policy) { s.Compartments[0].Budget.Percent = ptr.To[int32](100) }, ""},
		"percent 101":              {func(s *policy) { s.Compartments[0].Budget.Percent = ptr.To[int32](101) }, at + "budget.percent"},
		"no strategy":              {func(s *policy) { s.Default.Strategy = nil }, "spec.default.strategy"},
		"empty strategy":           {func(s *policy) { s.Default.Strategy.Fixed = nil }, "spec.default.strategy"},
		"two strategies":           {func(s *policy) { s.Default.Strategy.Linear = &v1alpha1.LinearStrategy{} }, "spec.default.strategy"},
		"other strategy":           {linear(1), ""},
		"CV-03 failureThreshold 0": {fixed(func(f *v1alpha1.FixedStrategy) { f.FailureThreshold = ptr.To[int32](0) }), "spec.default.strategy.fixed.failureThreshold"},
		"CV-03 failureThreshold 1": {fixed(func(f *v1alpha1.FixedStrategy) { f.FailureThreshold = ptr.To[int32](1) }), ""},
		"CV-10 initialBatch 0":     {fixed(func(f *v1alpha1.FixedStrategy) { f.InitialBatch = ptr.To[int32](0) }), "spec.default.strategy.fixed.initialBatch"},
		"CV-10 batchThreshold 0":   {fixed(func(f *v1alpha1.FixedStrategy) { f.BatchThreshold = ptr.To[int32](0) }), "spec.default.strategy.fixed.batchThreshold"},
		"CV-10 safetyLimit 101":    {fixed(func(f *v1alpha1.FixedStrategy) { f.SafetyLimit = ptr.To[int32](101) }), "spec.default.strategy.fixed.safetyLimit"},
		"CV-10 delta 0":            {linear(0), at + "strategy.linear.delta"},
		"CV-10 growthFactor 1":     {exponential(1), at + "strategy.exponential.growthFactor"},
		"CV-10 growthFactor 2":     {exponential(2), ""},
		"two compartments":         {second("b"), ""},
		"same name":                {second("a"), "spec.compartments[1].name"},
		"no name":                  {second(""), "spec.compartments[1].name"},
		"reserved name":            {second("__default__"), "spec.compartments[1].name"},
		"long name":                {second(strings.Repeat("a", 254)), "spec.compartments[1].name"},
		"longest name":             {second(strings.Repeat("a", 253)), ""},
		"selector": {func(s *policy) {
			s.Compartments[0].Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}}
		}, at + "selector.matchExpressions[0].values"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := soundPolicy()
			tc.edit(&p.Spec)
			errs := DeploymentPolicy(p)
			if tc.want == "" && len(errs) != 0 || tc.want != "" && (len(errs) != 1 || errs[0].Field != tc.want) {
				t.Errorf("errors %v, want one at %q", errs, tc.want)
			}
		})
	}
}

func TestDeploymentPolicyFindsAllAtOnce(t *testing.T) {
	p := soundPolicy()
	p.Spec.Default.Budget.Count = ptr.To[int32](0)
	p.Spec.Default.Strategy = nil
	p.Spec.Compartments[0].Name = ""
	want := []string{"spec.compartments[0].name", "spec.default.budget.count", "spec.default.strategy"}
	if diff := cmp.Diff(want, fields(DeploymentPolicy(p))); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestDeploymentPolicyDelete(t *testing.T) {
	if errs := DeploymentPolicyDelete("gradual", nil); len(errs) != 0 {
		t.Errorf("nobody names it: %v", errs)
	}
	var users []string
	for i := range 12 {
		users = append(users, fmt.Sprintf("nw%02d", 11-i))
	}
	errs := DeploymentPolicyDelete("gradual", users)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "gradual") || !strings.Contains(errs[0].Error(), "nw00, nw01") ||
		!strings.Contains(errs[0].Error(), "nw09 and 2 more") {
		t.Errorf("errors %v", errs)
	}
	if users[0] != "nw11" {
		t.Error("the list that was passed is sorted")
	}
}
