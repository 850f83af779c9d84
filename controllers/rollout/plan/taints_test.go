package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const gate = "nodewright.nvidia.com=runtime-required:NoSchedule"

func required(nw *v1alpha1.NodeWright) { nw.Spec.RuntimeRequired = true }

// A node that runs no workloads yet needs no share of the budget.
func TestGatedNodesNeedNoShareOfTheBudget(t *testing.T) {
	tests := map[string]struct {
		budget func(*v1alpha1.NodeWright)
		change func(*world)
		want   []string
	}{
		"gated":                  {count(1), func(*world) {}, []string{"n01", "n02", "n03"}},
		"no budget for others":   {count(0), func(*world) {}, []string{"n01", "n02"}},
		"not required":           {count(1), func(w *world) { w.nw.Spec.RuntimeRequired = false }, []string{"n01"}},
		"was complete":           {count(1), func(w *world) { w.nodes["n01"].Word = nodestate.StatusComplete }, []string{"n01", "n02"}},
		"taint is gone":          {count(1), func(w *world) { w.nodes["n01"].Gated = "" }, []string{"n01", "n02"}},
		"erroring":               {count(1), func(w *world) { w.nodes["n01"].Word = nodestate.StatusErroring }, []string{"n01", "n02", "n03"}},
		"cordoned":               {count(1), func(w *world) { w.nodes["n01"].Cordoned = true }, []string{"n01", "n02", "n03"}},
		"ignored":                {count(1), func(w *world) { w.nodes["n01"].Ignored = true }, []string{"n02", "n03"}},
		"not selected":           {count(1), func(w *world) { w.nodes["n01"].Selected = false }, []string{"n02", "n03"}},
		"pods would be evicted":  {count(1), func(w *world) { w.nodes["n01"].Intolerable = "a:NoExecute" }, []string{"n02", "n03"}},
		"another uses it all up": {count(1), func(w *world) { w.nodes["n04"].Word = nodestate.StatusErroring }, []string{"n04", "n01", "n02"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nodeWright(required, tc.budget), names(4)...)
			w.nodes["n01"].Gated, w.nodes["n02"].Gated = gate, gate
			tc.change(w)
			p := w.pass()
			if diff := cmp.Diff(tc.want, granted(&p)); diff != "" {
				t.Errorf("grants (-want +got):\n%s", diff)
			}
		})
	}
}

// Slots of gated nodes leave the budget to others, also in later passes.
func TestSlotsOfGatedNodesLeaveTheBudget(t *testing.T) {
	w := newWorld(t, nodeWright(required, count(1)), names(4)...)
	w.nodes["n01"].Gated, w.nodes["n02"].Gated = gate, gate
	w.pass()
	w.work("n01", "n02", "n03")
	p := w.pass()
	if c := p.Status.Compartments[0]; c.InProgress != 1 || p.Status.NodesInProgress != 3 || len(p.Grants) != 0 {
		t.Fatalf("compartment %+v, %d in progress, grants %v", c, p.Status.NodesInProgress, granted(&p))
	}
	w.end(nodestate.StatusComplete, "n03")
	if p := w.pass(); cmp.Diff([]string{"n04"}, granted(&p)) != "" {
		t.Fatalf("grants %v, want n04", granted(&p))
	}
}

// DR-23: it is said which nodes are kept free, since when, why, and what to do.
func TestNodesGatedCondition_DR23(t *testing.T) {
	w := newWorld(t, nodeWright(required), names(3)...)
	for i, name := range []string{"n02", "n01"} {
		w.nodes[name].Gated, w.nodes[name].Created = gate, start.Add(time.Duration(i)*time.Minute)
	}
	w.nodes["n02"].Word = nodestate.StatusErroring
	w.nodes["n02"].Detail = Detail{Package: "driver", Reason: "Error"}
	w.nodes["n03"].Intolerable = "a=b:NoExecute"
	p := w.pass()
	// The API server takes each type once.
	seen := map[string]bool{}
	for _, problem := range p.Status.Problems {
		if seen[problem.Type] {
			t.Errorf("problem %s is there twice", problem.Type)
		}
		seen[problem.Type] = true
	}
	for _, c := range p.Status.Conditions {
		if seen["condition "+c.Type] {
			t.Errorf("condition %s is there twice", c.Type)
		}
		seen["condition "+c.Type] = true
	}
	c := condition(t, &p, v1alpha1.ConditionNodesGated)
	for _, part := range []string{"2 nodes", "n02 since 2024-05-01T12:00:00Z", "n02 (driver: Error)", "n01", "kubectl taint node <name> " + gate + "-"} {
		if !strings.Contains(c.Message, part) {
			t.Errorf("message does not say %q: %s", part, c.Message)
		}
	}
	w.nodes["n01"].Gated, w.nodes["n02"].Gated = "", ""
	p = w.pass()
	if c := condition(t, &p, v1alpha1.ConditionNodesGated); c.Status != "False" {
		t.Errorf("condition is %s", c.Status)
	}
}

func TestTaintNotTolerableCondition(t *testing.T) {
	w := newWorld(t, nodeWright(), names(2)...)
	w.nodes["n01"].Intolerable = "a=b:NoExecute"
	p := w.pass()
	if diff := cmp.Diff([]string{"n02"}, granted(&p)); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
	c := condition(t, &p, v1alpha1.ConditionTaintNotTolerable)
	if !strings.Contains(c.Message, "n01") || !strings.Contains(c.Message, "a=b:NoExecute") || c.Status != "True" {
		t.Errorf("condition %+v", c)
	}
	told := 0
	for range 2 {
		for _, e := range p.Events {
			if e.Reason == v1alpha1.ConditionTaintNotTolerable {
				told++
			}
		}
		p = w.pass()
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	w.nodes["n01"].Intolerable = ""
	p = w.pass()
	if c := condition(t, &p, v1alpha1.ConditionTaintNotTolerable); c.Status != "False" {
		t.Errorf("condition is %s", c.Status)
	}
}

func TestStatusShowsTheTaint(t *testing.T) {
	for want, nw := range map[string]*v1alpha1.NodeWright{"": nodeWright(), gate: nodeWright(required)} {
		in := newWorld(t, nw, names(1)...).input()
		in.RuntimeRequired = gate
		if p := Compute(in); p.Status.RuntimeRequiredTaint != want {
			t.Errorf("status says %q, want %q", p.Status.RuntimeRequiredTaint, want)
		}
	}
}
