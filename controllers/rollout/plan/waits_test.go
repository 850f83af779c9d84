package plan

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// A node on which a stage is tried again is at work, and named as the reason why
// the rollout takes long.
func TestStrugglingNodesAreNamed(t *testing.T) {
	for reason, detail := range map[string]Detail{
		nodestate.SlotBackOff:        {Package: "driver", Reason: "BackOff", Message: "next attempt at noon"},
		nodestate.SlotPodNotStarting: {},
	} {
		w := newWorld(t, nodeWright(), "n01", "n02")
		w.pass()
		n := w.nodes["n01"]
		n.Slot = &nodestate.Slot{ID: n.Batch.ID, NodeWright: w.nw.Name, State: nodestate.SlotWorking, Reason: reason}
		n.Word, n.Detail = nodestate.StatusInProgress, detail
		p := w.pass()
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgressing)
		if !strings.Contains(c.Message, "tried again, on n01 (") || !strings.Contains(c.Message, reason) || strings.Contains(c.Message, "n02") {
			t.Errorf("%s: Progressing says %q, want n01 and the reason", reason, c.Message)
		}
		want := v1alpha1.ProblemNode{Name: "n01", Package: detail.Package, Reason: reason, Message: detail.Message}
		if len(p.Status.Problems) != 1 || p.Status.Problems[0].Nodes[0] != want {
			t.Errorf("%s: problems %+v, want %+v", reason, p.Status.Problems, want)
		}
		if meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionBlocked) {
			t.Errorf("%s: the node counts as blocked", reason)
		}
		n.Slot.Reason = ""
		c = meta.FindStatusCondition(w.pass().Status.Conditions, v1alpha1.ConditionProgressing)
		if strings.Contains(c.Message, "n01") {
			t.Errorf("%s is over, and Progressing says %q", reason, c.Message)
		}
	}
}

// What a node itself says of its slot is shown where nothing else explains why
// it does not go on.
func TestReasonsOfSlotsAreShown(t *testing.T) {
	slot := func(state nodestate.SlotState, reason string) func(*world) {
		return func(w *world) {
			n := w.nodes["n01"]
			n.Slot = &nodestate.Slot{ID: n.Batch.ID, NodeWright: w.nw.Name, State: state, Reason: reason}
			n.Word = nodestate.StatusInProgress
			if state == nodestate.SlotReleased {
				n.Word = nodestate.StatusBlocked
			}
		}
	}
	for name, tc := range map[string]struct {
		change func(*world)
		// want is the reason that the node is named with; empty for none.
		want string
	}{
		"the user paused it":         {change: slot(nodestate.SlotWorking, nodestate.SlotPaused)},
		"the user disabled it":       {change: slot(nodestate.SlotWorking, nodestate.SlotDisabled)},
		"is at work and unreachable": {change: slot(nodestate.SlotWorking, nodestate.SlotUnreachable), want: nodestate.SlotUnreachable},
		"another one comes first": {want: v1alpha1.ReasonWaiting, change: func(w *world) {
			slot(nodestate.SlotReleased, nodestate.SlotBlocked)(w)
			w.nodes["n01"].Slot.Message = "NodeWright b comes first"
		}},
		"another one comes first, no grant": {want: v1alpha1.ReasonWaiting, change: func(w *world) {
			slot(nodestate.SlotReleased, nodestate.SlotBlocked)(w)
			w.nodes["n01"].Slot.Message, w.nodes["n01"].Slot.ID = "NodeWright b comes first", ""
			w.nodes["n01"].Batch = nil
		}},
		"works":                     {change: slot(nodestate.SlotWorking, "")},
		"waits for an executor":     {change: slot(nodestate.SlotWorking, nodestate.SlotExecutorNotEnded), want: nodestate.SlotExecutorNotEnded},
		"waits for a suspended Job": {change: slot(nodestate.SlotWorking, nodestate.SlotJobSuspended), want: nodestate.SlotJobSuspended},
		"waits for a paused Job":    {change: slot(nodestate.SlotWorking, nodestate.SlotJobHeld), want: nodestate.SlotJobHeld},
		"tries again":               {change: slot(nodestate.SlotWorking, nodestate.SlotBackOff)},
		"does not start yet":        {change: slot(nodestate.SlotWorking, nodestate.SlotPodNotStarting)},
		"packages take turns":       {change: slot(nodestate.SlotWorking, nodestate.SlotPackageWaits)},
		"gave up for a dependency":  {change: slot(nodestate.SlotReleased, nodestate.SlotNoPath), want: nodestate.SlotNoPath},
		"gave up for something new": {change: slot(nodestate.SlotReleased, "Whatever"), want: "Whatever"},
		"the entry says more": {want: "ImagePullBackOff", change: func(w *world) {
			slot(nodestate.SlotReleased, nodestate.SlotNoPath)(w)
			w.nodes["n01"].Detail = Detail{Package: "driver", Reason: "ImagePullBackOff", Message: "no such image"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nodeWright(), "n01")
			w.pass()
			tc.change(w)
			p := w.pass()
			got := ""
			for _, problem := range p.Status.Problems {
				if problem.Type == v1alpha1.ConditionBlocked {
					got = problem.Nodes[0].Reason
				}
			}
			if got != tc.want {
				t.Errorf("node is named as blocked for %q, want %q", got, tc.want)
			}
			if m := p.Status.Problems; tc.want == v1alpha1.ReasonWaiting && (len(m) != 1 || m[0].Nodes[0].Message != "NodeWright b comes first") {
				t.Errorf("problems %+v, want what the node says", m)
			}
			blocked := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionBlocked)
			if shown := blocked != nil && blocked.Status == metav1.ConditionTrue && strings.Contains(blocked.Message, tc.want); shown != (tc.want != "") {
				t.Errorf("condition %+v, want %q in it", blocked, tc.want)
			}
		})
	}
}

// says lets a node at work say what it waits for.
func (w *world) says(name, reason, message string) {
	w.work(name)
	n := w.nodes[name]
	n.Slot.Reason, n.Slot.Message = reason, message
}

func TestDrainBlocked(t *testing.T) {
	t.Run("DR-26", func(t *testing.T) {
		w := newWorld(t, nodeWright(), names(2)...)
		w.pass()
		w.says("n02", nodestate.SlotDrainBlocked, "pod a/b is kept by PodDisruptionBudget b")
		p := w.pass()
		c := condition(t, &p, v1alpha1.ConditionDrainBlocked)
		if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "n02") || !strings.Contains(c.Message, "PodDisruptionBudget b") {
			t.Errorf("condition %+v, want the node, its pod and the budget", c)
		}
		if len(p.Status.Problems) != 1 || p.Status.Problems[0].Type != v1alpha1.ConditionDrainBlocked {
			t.Errorf("problems %+v", p.Status.Problems)
		}
		if again := w.pass(); len(p.Events) != 1 || len(again.Events) != 0 {
			t.Errorf("events %+v, then %+v; want one", p.Events, again.Events)
		}
		w.complete("n02")
		p = w.pass()
		if c := condition(t, &p, v1alpha1.ConditionDrainBlocked); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonResolved {
			t.Errorf("condition %+v after the drain", c)
		}
	})
}

func TestWaitsBeforeAnInterruptAreToldOnce(t *testing.T) {
	for _, reason := range []string{
		nodestate.SlotNonInterruptPods, nodestate.SlotLastReplica, nodestate.SlotInterruptWaits, nodestate.SlotNoBootID,
	} {
		t.Run("DR-25/"+reason, func(t *testing.T) {
			w := newWorld(t, nodeWright(), names(2)...)
			w.pass()
			w.nodes["n01"].Ready = "Unknown"
			w.pass()
			w.says("n02", reason, "pods a/b")
			p := w.pass()
			c := condition(t, &p, v1alpha1.ConditionBlocked)
			if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "n02 ("+reason+")") || !strings.Contains(c.Message, ReasonNodeUnreachable) {
				t.Errorf("condition %+v, want what both nodes wait for", c)
			}
			if again := w.pass(); len(p.Events) != 1 || p.Events[0].Reason != reason || !strings.Contains(p.Events[0].Message, "pods a/b") || len(again.Events) != 0 {
				t.Errorf("events %+v, then %+v; want one with the pods", p.Events, again.Events)
			}
		})
	}
}

func TestDrainingIsProgress(t *testing.T) {
	w := newWorld(t, nodeWright(), names(2)...)
	w.pass()
	w.says("n02", nodestate.SlotDraining, "3 pods end")
	p := w.pass()
	c := condition(t, &p, v1alpha1.ConditionProgressing)
	if !strings.Contains(c.Message, "being drained: n02") || strings.Contains(c.Message, "failed") {
		t.Errorf("Progressing says %q", c.Message)
	}
	if p.Status.Problems[0].Nodes[0].Message != "3 pods end" || hasCondition(&p, v1alpha1.ConditionBlocked) {
		t.Errorf("problems %+v", p.Status.Problems)
	}
}

// Where nodes wait for a place in the budget, those are named that use it up and do
// not get on.
func TestPlacesInTheBudgetAreAccountedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		want   string
	}{
		"the drain is blocked": {func(w *world) { w.says("n01", nodestate.SlotDrainBlocked, "pod a/b") }, "used up by n01 (DrainBlocked)"},
		"held up":              {func(w *world) { w.says("n01", nodestate.SlotLastReplica, "the last") }, "used up by n01 (LastReplica)"},
		"erroring": {func(w *world) {
			w.work("n01")
			w.end(nodestate.StatusErroring, "n01")
		}, "used up by n01 (erroring)"},
		"gets on": {func(w *world) { w.work("n01") }, ""},
		"drains":  {func(w *world) { w.says("n01", nodestate.SlotDraining, "pod a/b") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nodeWright(count(2)), names(5)...)
			w.pass()
			w.work("n02")
			tc.change(w)
			p := w.pass()
			c := condition(t, &p, v1alpha1.ConditionProgressing)
			if got := strings.Contains(c.Message, "3 nodes are waiting for a place in the budget of 2 nodes, "+tc.want); got != (tc.want != "") {
				t.Errorf("Progressing says %q, want %q in it", c.Message, tc.want)
			}
			if tc.want == "" && strings.Contains(c.Message, "used up") {
				t.Errorf("Progressing says %q, and all nodes get on", c.Message)
			}
		})
	}
}

// A node that is ignored while a stage runs there has to come to its end before
// the NodeWright is ready, but for one that nobody hears of.
func TestReadyWaitsForIgnoredNodesThatWork(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Node)
		want   metav1.ConditionStatus
	}{
		"works":              {func(*Node) {}, metav1.ConditionFalse},
		"kubelet is silent":  {func(n *Node) { n.Ready = "Unknown" }, metav1.ConditionTrue},
		"cannot be recorded": {func(n *Node) { n.Refused = "no room" }, metav1.ConditionTrue},
		"gave its slot back": {func(n *Node) { n.Slot.State = nodestate.SlotReleased }, metav1.ConditionTrue},
	} {
		for _, nodes := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, nodeWright(), names(nodes)...)
				w.pass()
				w.work(names(nodes)...)
				if nodes > 1 {
					w.complete("n02")
				}
				w.nodes["n01"].Ignored, w.nodes["n01"].Word = true, ""
				tc.change(w.nodes["n01"])
				p := w.pass()
				c := condition(t, &p, v1alpha1.ConditionReady)
				if c.Status != tc.want || p.AllComplete && tc.want == metav1.ConditionFalse {
					t.Errorf("Ready %s for %s (%s), want %s", c.Status, c.Reason, c.Message, tc.want)
				}
			})
		}
	}
}
