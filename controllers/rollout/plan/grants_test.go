package plan

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func wantGranted(t *testing.T, p Plan, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, granted(&p)); diff != "" {
		t.Errorf("granted nodes (-want +got):\n%s", diff)
	}
}

func TestWithoutBudgetAllAtOnce(t *testing.T) {
	w := newWorld(t, nodeWright(), "c", "a", "b")
	p := w.pass()
	wantGranted(t, p, "a", "b", "c")
	for i, g := range p.Grants {
		want := nodestate.Batch{
			Batch: 1, Compartment: v1alpha1.DefaultCompartment, NodeWright: "gpu", UID: "nw-1",
			Order: int32(i), Rollout: p.Status.Rollout,
		}
		if diff := cmp.Diff(want, g.Batch); diff != "" || g.Renewal {
			t.Errorf("grant %d, renewal %t (-want +got):\n%s", i, g.Renewal, diff)
		}
	}
	wantGranted(t, w.pass())
}

func TestBudgetIsSpentOnce(t *testing.T) {
	w := newWorld(t, nodeWright(count(2)), names(5)...)
	wantGranted(t, w.pass(), "n01", "n02")
	w.work("n01", "n02")
	wantGranted(t, w.pass())
	w.complete("n02")
	wantGranted(t, w.pass(), "n03")
	w.complete("n01", "n03")
	wantGranted(t, w.pass(), "n04", "n05")
	w.complete("n04", "n05")
	if p := w.pass(); len(p.Grants) > 0 || !p.AllComplete {
		t.Errorf("plan at the end grants %v, all complete %t", granted(&p), p.AllComplete)
	}
}

// Removing nodes never shifts or reuses the order of others.
func TestOrderIsStable(t *testing.T) {
	for name, tc := range map[string]struct{ removed string }{
		"oldest": {"n01"}, "middle": {"n02"}, "newest": {"n03"},
	} {
		t.Run("RO-05/"+name, func(t *testing.T) {
			w := newWorld(t, nodeWright(), names(3)...)
			w.pass()
			w.complete("n01", "n02", "n03")
			before := map[string]int32{}
			for n, node := range w.nodes {
				before[n] = node.Batch.Order
			}
			w.leave(tc.removed)
			w.nextOrder = 0 // a new leader knows what the status says
			w.join("n04")
			w.change(version("2.0.0"))
			w.pass()
			for n, node := range w.nodes {
				want, ok := before[n]
				if !ok {
					want = 3
				}
				if node.Batch.Order != want {
					t.Errorf("order of %s is %d, want %d", n, node.Batch.Order, want)
				}
			}
		})
	}
}

func TestOrderWithoutStatus(t *testing.T) {
	w := newWorld(t, nodeWright(), names(3)...)
	w.pass()
	w.complete("n01", "n02", "n03")
	// The status was lost, as after a restore from a backup.
	w.nextOrder = 0
	w.change(func(nw *v1alpha1.NodeWright) { nw.Status = v1alpha1.NodeWrightStatus{} })
	w.join("n04")
	w.pass()
	if got := w.nodes["n04"].Batch.Order; got != 3 {
		t.Errorf("order of the new node is %d, want 3", got)
	}
}

// A grant that could not be written leaves no gap: the node gets the order that
// it was promised.
func TestPromisedOrder(t *testing.T) {
	w := newWorld(t, nodeWright(count(1)), names(3)...)
	w.nodes["n02"].Promised = ptr.To[int32](0)
	w.nextOrder = 1
	p := w.pass()
	wantGranted(t, p, "n02")
	if p.Grants[0].Batch.Order != 0 || p.NextOrder != 1 {
		t.Errorf("order %d, next %d; want 0 and 1", p.Grants[0].Batch.Order, p.NextOrder)
	}
}

func TestOrdersEnd(t *testing.T) {
	w := newWorld(t, nodeWright(), "a", "b")
	w.nextOrder = math.MaxInt32
	wantGranted(t, w.pass(), "a")
	w.complete("a")
	wantGranted(t, w.pass())
}

func TestSlotOfVanishedNodeIsFree(t *testing.T) {
	t.Run("RO-10", func(t *testing.T) {
		w := newWorld(t, nodeWright(count(1)), names(3)...)
		wantGranted(t, w.pass(), "n01")
		w.work("n01")
		wantGranted(t, w.pass())
		w.leave("n01")
		wantGranted(t, w.pass(), "n02")
	})
	t.Run("ST-09 same name again", func(t *testing.T) {
		w := newWorld(t, nodeWright(count(1)), names(2)...)
		w.pass()
		w.complete("n01")
		w.pass()
		w.complete("n02")
		w.leave("n01")
		w.join("n01")
		p := w.pass()
		wantGranted(t, p, "n01")
		if got := p.Grants[0].Batch.Order; got != 2 {
			t.Errorf("order of the node that was created anew is %d, want 2", got)
		}
	})
}

func TestNodesThatAreNotReady(t *testing.T) {
	tests := map[string]struct {
		ready     corev1.ConditionStatus
		wantFirst []string
	}{
		"unknown":  {corev1.ConditionUnknown, []string{"n02"}},
		"false":    {corev1.ConditionFalse, []string{"n02"}},
		"true":     {corev1.ConditionTrue, []string{"n01"}},
		"not said": {"", []string{"n01"}},
	}
	for name, tc := range tests {
		t.Run("RO-13/"+name, func(t *testing.T) {
			w := newWorld(t, nodeWright(count(1)), names(3)...)
			w.nodes["n01"].Ready = tc.ready
			p := w.pass()
			wantGranted(t, p, tc.wantFirst...)
		})
	}
	t.Run("RO-13/picked up when it is back", func(t *testing.T) {
		w := newWorld(t, nodeWright(count(1)), names(3)...)
		w.nodes["n01"].Ready = corev1.ConditionUnknown
		for _, n := range []string{"n02", "n03"} {
			wantGranted(t, w.pass(), n)
			w.complete(n)
		}
		p := w.pass()
		wantGranted(t, p)
		c := condition(t, &p, v1alpha1.ConditionBlocked)
		if c.Reason != v1alpha1.ReasonNodesNotReady || p.Status.Status != nodestate.StatusBlocked {
			t.Errorf("status %s, blocked for %s: %s", p.Status.Status, c.Reason, c.Message)
		}
		w.nodes["n01"].Ready = corev1.ConditionTrue
		wantGranted(t, w.pass(), "n01")
	})
	t.Run("RO-13/ignored leaves the rest to complete", func(t *testing.T) {
		w := newWorld(t, nodeWright(count(1)), names(2)...)
		w.nodes["n01"].Ready, w.nodes["n01"].Ignored = corev1.ConditionFalse, true
		wantGranted(t, w.pass(), "n02")
		w.complete("n02")
		p := w.pass()
		if !p.AllComplete || p.Status.CompleteNodes != "1/1" || !hasCondition(&p, v1alpha1.ConditionNodesIgnored) {
			t.Errorf("all complete %t, %s, conditions %v", p.AllComplete, p.Status.CompleteNodes, p.Status.Conditions)
		}
	})
}

// A cache that does not show what was granted never leads to more grants.
func TestOwnGrantsCountBeforeTheCacheShowsThem(t *testing.T) {
	t.Run("RO-14", func(t *testing.T) {
		w := newWorld(t, nodeWright(count(2)), names(10)...)
		for _, n := range names(10) {
			w.lag(n)
		}
		wantGranted(t, w.pass(), "n01", "n02")
		for range 20 {
			wantGranted(t, w.pass())
		}
		// n01 is done; only the cache of n02 stays behind.
		w.complete("n01")
		w.catchUp()
		w.lag("n02")
		wantGranted(t, w.pass(), "n03")
	})
}

func TestSlotIsRenewedForANewRevision(t *testing.T) {
	w := newWorld(t, nodeWright(count(1)), names(2)...)
	w.pass()
	w.work("n01")
	first := *w.nodes["n01"].Batch
	w.change(version("2.0.0"))
	p := w.pass()
	wantGranted(t, p, "n01")
	g := p.Grants[0]
	if !g.Renewal || g.Over != first.ID || g.Batch.Order != first.Order || g.Batch.Rollout == first.Rollout {
		t.Errorf("grant %+v does not renew %+v", g, first)
	}
	wantGranted(t, w.pass())
	t.Run("paused", func(t *testing.T) {
		w.change(version("3.0.0"))
		w.change(annotated(v1alpha1.AnnotationPause))
		wantGranted(t, w.pass())
	})
}

// A node that gives its slot back for the old revision at the moment at which it
// is renewed works on for the new one, and is not complete meanwhile.
func TestReleaseRacesWithRenewal(t *testing.T) {
	t.Run("RO-17", func(t *testing.T) {
		w := newWorld(t, nodeWright(count(1)), "n01")
		w.pass()
		w.work("n01")
		w.lag("n01")
		// The node has not seen the new spec and completes the old one.
		w.end(nodestate.StatusComplete, "n01")
		w.change(version("2.0.0"))
		p := w.pass()
		wantGranted(t, p, "n01")
		w.catchUp()
		for range 3 {
			if p := w.pass(); p.AllComplete || condition(t, &p, v1alpha1.ConditionReady).Status == "True" {
				t.Fatal("complete for a revision that the node never worked on")
			}
		}
		w.complete("n01")
		if p := w.pass(); !p.AllComplete {
			t.Error("not complete after the node completed the new revision")
		}
	})
}

func TestReleasedSlots(t *testing.T) {
	tests := map[string]struct {
		word   nodestate.StatusWord
		reason string
		want   []string
	}{
		"complete":                      {nodestate.StatusComplete, "Complete", nil},
		"erroring for good":             {nodestate.StatusErroring, "Erroring", nil},
		"erroring and asks for another": {nodestate.StatusErroring, nodestate.SlotRetryWanted, []string{"n01"}},
		"waiting":                       {nodestate.StatusWaiting, "Blocked", nil},
		"waiting and asks for another":  {nodestate.StatusWaiting, nodestate.SlotRetryWanted, []string{"n01"}},
		"blocked, though it asks":       {nodestate.StatusBlocked, nodestate.SlotRetryWanted, nil},
		"no word and asks for another":  {"", nodestate.SlotRetryWanted, []string{"n01"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nodeWright(count(1)), "n01")
			w.pass()
			n := w.nodes["n01"]
			n.Word = tc.word
			n.Slot = &nodestate.Slot{ID: n.Batch.ID, State: nodestate.SlotReleased, Reason: tc.reason}
			wantGranted(t, w.pass(), tc.want...)
		})
	}
}

func TestWhoGetsNoSlot(t *testing.T) {
	tests := map[string]func(*Node){
		"not selected": func(n *Node) { n.Selected = false },
		"ignored":      func(n *Node) { n.Ignored = true },
		"blocked":      func(n *Node) { n.Word = nodestate.StatusBlocked },
		"refused":      func(n *Node) { n.Refused = "no room" },
		"unreadable":   func(n *Node) { n.BatchUnreadable = true },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nodeWright(), "n01")
			change(w.nodes["n01"])
			if p := w.pass(); len(p.Grants) > 0 || p.Status.NodesInProgress != 0 && name != "unreadable" {
				t.Errorf("granted %v, %d in progress", granted(&p), p.Status.NodesInProgress)
			}
		})
	}
}

// A node that holds a slot counts until it gives it back, whatever became of
// the node.
func TestOnlyTheNodeGivesBack(t *testing.T) {
	for name, change := range map[string]func(*Node){
		"not selected":      func(n *Node) { n.Selected = false },
		"ignored":           func(n *Node) { n.Ignored = true },
		"unreachable":       func(n *Node) { n.Ready = corev1.ConditionUnknown },
		"blocked":           func(n *Node) { n.Word = nodestate.StatusBlocked },
		"unreadable answer": func(n *Node) { n.Slot = nil },
		"unreadable grant":  func(n *Node) { n.Batch, n.BatchUnreadable = nil, true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nodeWright(count(1)), names(2)...)
			w.pass()
			w.work("n01")
			change(w.nodes["n01"])
			clear(w.granted)
			wantGranted(t, w.pass())
		})
	}
}

func TestNodesJoin(t *testing.T) {
	t.Run("RO-19", func(t *testing.T) {
		w := newWorld(t, nodeWright(count(1)), names(2)...)
		w.pass()
		w.complete("n01")
		w.join("n03")
		wantGranted(t, w.pass(), "n02")
		w.complete("n02")
		wantGranted(t, w.pass(), "n03")
		w.complete("n03")
		if p := w.pass(); !p.AllComplete || p.Status.Status != nodestate.StatusComplete {
			t.Fatalf("status %s with all nodes complete", p.Status.Status)
		}
		w.join("n04")
		p := w.pass()
		wantGranted(t, p, "n04")
		if p.Status.Status == nodestate.StatusComplete || p.Status.CompleteNodes != "3/4" {
			t.Errorf("status %s, %s complete, with a new node", p.Status.Status, p.Status.CompleteNodes)
		}
	})
}

// A NodeWright that was restored from a backup under another UID: what is
// complete needs a grant to be taken over, and keeps its order.
func TestOtherUID(t *testing.T) {
	w := newWorld(t, nodeWright(), names(2)...)
	w.pass()
	w.complete("n01")
	w.work("n02")
	w.change(func(nw *v1alpha1.NodeWright) { nw.UID, nw.Status = "nw-2", v1alpha1.NodeWrightStatus{} })
	p := w.pass()
	wantGranted(t, p, "n02", "n01")
	for _, g := range p.Grants {
		if want := map[string]int32{"n01": 0, "n02": 1}[g.Node]; g.Batch.Order != want || g.Batch.UID != "nw-2" {
			t.Errorf("grant of %s has order %d and UID %s", g.Node, g.Batch.Order, g.Batch.UID)
		}
	}
}
