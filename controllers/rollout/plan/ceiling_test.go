package plan

import (
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func TestErroringNodesUseTheBudgetUp(t *testing.T) {
	w := newWorld(t, nodeWright(count(2)), names(6)...)
	w.pass()
	w.work("n01", "n02")
	w.end(nodestate.StatusErroring, "n01")
	wantGranted(t, w.pass())
	w.complete("n02")
	wantGranted(t, w.pass(), "n03")
	w.work("n03")
	w.end(nodestate.StatusErroring, "n03")
	p := w.pass()
	wantGranted(t, p)
	if c := condition(t, &p, v1alpha1.ConditionBlocked); c.Reason != v1alpha1.ReasonBudgetUsedUp {
		t.Errorf("blocked for %s, want %s", c.Reason, v1alpha1.ReasonBudgetUsedUp)
	}
	if p.Status.Status != nodestate.StatusErroring {
		t.Errorf("status %s, want %s", p.Status.Status, nodestate.StatusErroring)
	}
	// A repaired spec reaches the nodes that fail before any other.
	w.change(version("1.0.1"))
	wantGranted(t, w.pass(), "n01", "n03")
	w.complete("n01", "n03")
	wantGranted(t, w.pass(), "n02", "n04")
}

func TestCordonedNodeCounts(t *testing.T) {
	w := newWorld(t, nodeWright(count(1)), names(2)...)
	w.pass()
	w.complete("n01")
	w.nodes["n01"].Word, w.nodes["n01"].Cordoned = nodestate.StatusWaiting, true
	wantGranted(t, w.pass())
	w.nodes["n01"].Ignored = true
	wantGranted(t, w.pass(), "n02")
}

// More nodes may count than the ceiling allows once it is lowered; then no more
// than the ceiling are worked on at once.
func TestLoweredBudget(t *testing.T) {
	w := newWorld(t, nodeWright(count(4)), names(6)...)
	w.pass()
	w.work(names(4)...)
	w.end(nodestate.StatusErroring, names(4)...)
	w.change(count(2))
	w.change(version("1.0.1"))
	wantGranted(t, w.pass(), "n01", "n02")
}

// A node whose drain timed out keeps its cordon and counts. Once it asks for
// another slot, or the spec is repaired, it comes before any other.
func TestErroringNodeWithCordonIsFixed(t *testing.T) {
	w := newWorld(t, nodeWright(count(1)), names(3)...)
	w.pass()
	w.complete("n01")
	w.pass()
	w.work("n02")
	w.nodes["n02"].Cordoned = true
	w.end(nodestate.StatusErroring, "n02")
	p := w.pass()
	wantGranted(t, p)
	if c := condition(t, &p, v1alpha1.ConditionBlocked); c.Reason != v1alpha1.ReasonBudgetUsedUp {
		t.Errorf("blocked for %s, want %s", c.Reason, v1alpha1.ReasonBudgetUsedUp)
	}
	w.nodes["n02"].Slot.Reason = nodestate.SlotRetryWanted
	wantGranted(t, w.pass(), "n02")
	w.work("n02")
	w.end(nodestate.StatusErroring, "n02")
	w.change(version("2.0.0"))
	wantGranted(t, w.pass(), "n02")
	w.complete("n02")
	w.nodes["n02"].Cordoned = false
	wantGranted(t, w.pass(), "n01")
}

func TestBudgetOfZeroInterruptsNothing(t *testing.T) {
	w := newWorld(t, nodeWright(count(0)), names(2)...)
	wantGranted(t, w.pass())
}
