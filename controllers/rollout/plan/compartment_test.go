package plan

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// Percentages are rounded down but are at least one node.
func TestCeiling(t *testing.T) {
	percent := func(n int32) *v1alpha1.InterruptionBudget { return &v1alpha1.InterruptionBudget{Percent: ptr.To(n)} }
	number := func(n int32) *v1alpha1.InterruptionBudget { return &v1alpha1.InterruptionBudget{Count: ptr.To(n)} }
	reboot := &v1alpha1.Interrupt{Type: v1alpha1.InterruptReboot}
	tests := map[string]struct {
		budget *v1alpha1.InterruptionBudget
		pkg    v1alpha1.Package
		nodes  int
		want   int
	}{
		"1% of 3":                       {budget: percent(1), nodes: 3, want: 1},
		"1% of 288":                     {budget: percent(1), nodes: 288, want: 2},
		"33% of 2":                      {budget: percent(33), nodes: 2, want: 1},
		"33% of 10":                     {budget: percent(33), nodes: 10, want: 3},
		"100% of 0":                     {budget: percent(100), nodes: 0, want: 0},
		"100% of 7":                     {budget: percent(100), nodes: 7, want: 7},
		"0% of 7":                       {budget: percent(0), nodes: 7, want: 0},
		"100% of many":                  {budget: percent(100), nodes: 50_000_000, want: 50_000_000},
		"count":                         {budget: number(3), nodes: 7, want: 3},
		"count of 0":                    {budget: number(0), nodes: 7, want: 0},
		"count without nodes":           {budget: number(3), nodes: 0, want: 0},
		"count above the nodes":         {budget: number(9), nodes: 7, want: 9},
		"empty budget":                  {budget: &v1alpha1.InterruptionBudget{}, nodes: 7, want: 7},
		"no budget":                     {nodes: 7, want: 7},
		"no budget, interrupt":          {nodes: 7, pkg: v1alpha1.Package{Interrupt: reboot}, want: 1},
		"no budget, config interrupt":   {nodes: 7, pkg: v1alpha1.Package{ConfigInterrupts: map[string]v1alpha1.Interrupt{"a": *reboot}}, want: 1},
		"interrupt and count":           {nodes: 7, budget: number(3), pkg: v1alpha1.Package{Interrupt: reboot}, want: 3},
		"no budget, no nodes":           {nodes: 0, want: 0},
		"interrupt with no nodes left":  {nodes: 0, pkg: v1alpha1.Package{Interrupt: reboot}, want: 0},
		"empty budget with interrupt":   {budget: &v1alpha1.InterruptionBudget{}, nodes: 7, pkg: v1alpha1.Package{Interrupt: reboot}, want: 1},
		"negative count is not a grant": {budget: number(-1), nodes: 7, want: 0},
	}
	for name, tc := range tests {
		t.Run("RO-15/"+name, func(t *testing.T) {
			spec := v1alpha1.NodeWrightSpec{
				InterruptionBudget: tc.budget, Packages: map[string]v1alpha1.Package{"driver": tc.pkg},
			}
			if got := Ceiling(&spec, tc.nodes); got != tc.want {
				t.Errorf("Ceiling = %d, want %d", got, tc.want)
			}
		})
	}
}
