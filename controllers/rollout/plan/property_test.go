package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
)

// anyInput is an input that need not follow from any history.
func anyInput(t *rapid.T) Input {
	nw := nodeWright()
	switch rapid.IntRange(0, 3).Draw(t, "budget") {
	case 1:
		count(rapid.Int32Range(0, 6).Draw(t, "count"))(nw)
	case 2:
		nw.Spec.InterruptionBudget = &v1alpha1.InterruptionBudget{Percent: ptr.To(rapid.Int32Range(0, 100).Draw(t, "percent"))}
	}
	if rapid.IntRange(0, 9).Draw(t, "pause") == 0 {
		annotated(v1alpha1.AnnotationPause)(nw)
	}
	if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
		deleted(nw)
	}
	in := Input{Now: start.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "now")) * time.Second), NodeWright: nw}
	words := append(nodestate.StatusWords(), "")
	some := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	for i := range rapid.IntRange(0, 12).Draw(t, "nodes") {
		n := Node{
			Name: fmt.Sprintf("n%02d", i), UID: fmt.Sprint(i), Selected: !some("unselected"), Ignored: some("ignored"),
			Ready: rapid.SampledFrom([]corev1.ConditionStatus{"True", "True", "False", "Unknown", ""}).Draw(t, "ready"),
			Word:  rapid.SampledFrom(words).Draw(t, "word"), Cordoned: some("cordoned"), Remains: some("remains"),
			BatchUnreadable: rapid.IntRange(0, 9).Draw(t, "unreadable") == 0,
		}
		if nw.DeletionTimestamp != nil && n.Remains && some("uninstalls") {
			n.Uninstalls = []Uninstall{{Package: "driver", Failed: some("failed")}}
		}
		if !n.BatchUnreadable && rapid.Bool().Draw(t, "granted") {
			n.Batch = &nodestate.Batch{
				ID: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "id"), Order: int32(i), UID: string(nw.UID),
				Rollout: rapid.SampledFrom([]string{revision.Of(nw), "old"}).Draw(t, "rollout"),
			}
		}
		if rapid.Bool().Draw(t, "answered") {
			n.Slot = &nodestate.Slot{
				ID:     rapid.SampledFrom([]string{"1", "2"}).Draw(t, "answer"),
				State:  rapid.SampledFrom([]nodestate.SlotState{nodestate.SlotWorking, nodestate.SlotReleased}).Draw(t, "state"),
				Reason: rapid.SampledFrom([]string{"", nodestate.SlotRetryWanted, nodestate.SlotComplete}).Draw(t, "reason"),
			}
		}
		in.Nodes = append(in.Nodes, n)
	}
	return in
}

func TestEqualInputsGiveEqualPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		shuffled := in
		shuffled.Nodes = append([]Node(nil), in.Nodes...)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		random.Shuffle(len(shuffled.Nodes), func(i, j int) {
			shuffled.Nodes[i], shuffled.Nodes[j] = shuffled.Nodes[j], shuffled.Nodes[i]
		})
		if diff := cmp.Diff(Compute(in), Compute(shuffled)); diff != "" {
			t.Fatalf("plans differ with the order of nodes:\n%s", diff)
		}
	})
}

// What a plan grants stays within the ceiling, or adds nothing to what is above
// it already; orders are new and unique; nobody gets a slot who must not.
func TestGrantsOfAnyInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		p := Compute(in)
		byName := map[string]*Node{}
		counting, slots, selected := 0, 0, 0
		gone := in.NodeWright.DeletionTimestamp != nil
		orders := map[int32]string{}
		for i := range in.Nodes {
			n := &in.Nodes[i]
			byName[n.Name] = n
			slot := n.BatchUnreadable && (n.Slot == nil || n.Slot.State == nodestate.SlotWorking) ||
				n.Batch != nil && n.Batch.Holds(n.Slot)
			slot = slot && (!gone || n.Remains)
			active := n.Selected && !n.Ignored
			if gone {
				active = len(n.Uninstalls) > 0 && !n.Ignored
			}
			selected += one(active)
			slots += one(slot)
			if n.Batch != nil {
				orders[n.Batch.Order] = n.Name
			}
			complete := !slot && n.Word == nodestate.StatusComplete && n.Batch != nil && n.Batch.Rollout == revision.Of(in.NodeWright) &&
				n.Slot != nil && n.Slot.ID == n.Batch.ID && n.Slot.Reason == nodestate.SlotComplete
			if slot || (active || n.Selected && !n.Ignored) && !complete && (n.Word == nodestate.StatusErroring || n.Cordoned) {
				counting++
			}
		}
		ceiling := Ceiling(&in.NodeWright.Spec, selected)
		newSlots := 0
		for _, g := range p.Grants {
			n := byName[g.Node]
			if n.Ignored || in.NodeWright.Paused() || !gone && !n.Selected || gone && len(n.Uninstalls) == 0 {
				t.Fatalf("node %+v gets a slot", n)
			}
			if owner, taken := orders[g.Batch.Order]; taken && owner != g.Node {
				t.Fatalf("order %d of %s is given to %s", g.Batch.Order, owner, g.Node)
			}
			orders[g.Batch.Order] = g.Node
			if int64(g.Batch.Order) >= p.NextOrder {
				t.Fatalf("order %d is not below the next one, %d", g.Batch.Order, p.NextOrder)
			}
			newSlots += one(!g.Renewal)
		}
		after := int(p.Status.Compartments[0].InProgress)
		if after > max(counting, ceiling) || slots+newSlots > max(slots, ceiling) {
			t.Fatalf("%d nodes count and %d hold a slot, then %d and %d, of at most %d",
				counting, slots, after, slots+newSlots, ceiling)
		}
	})
}

// A fleet with a cache that lags anywhere, nodes that come, go, fail and are
// repaired, and a spec that changes: never more nodes than the budget, never an
// order twice, and once all is quiet, complete.
func TestFleetStaysWithinTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.Int32Range(1, 4).Draw(t, "budget")
		w := newWorld(t, nodeWright(count(budget)), names(rapid.IntRange(1, 8).Draw(t, "nodes"))...)
		node := func() string { return fmt.Sprintf("n%02d", rapid.IntRange(1, 9).Draw(t, "node")) }
		revisions := 0
		t.Repeat(map[string]func(*rapid.T){
			"pass":     func(*rapid.T) { w.pass() },
			"work":     func(*rapid.T) { w.work(node()) },
			"complete": func(*rapid.T) { w.complete(node()) },
			"fail": func(*rapid.T) {
				name := node()
				w.work(name)
				w.end(nodestate.StatusErroring, name)
			},
			"lag":      func(*rapid.T) { w.lag(node()) },
			"catch up": func(*rapid.T) { w.catchUp() },
			"leave":    func(*rapid.T) { w.leave(node()) },
			"join": func(*rapid.T) {
				if name := node(); w.nodes[name] == nil {
					w.join(name)
				}
			},
			"new leader": func(*rapid.T) {
				// The barrier holds it back until its cache has seen everything.
				w.catchUp()
				clear(w.granted)
				w.nextOrder = 0
			},
			"new spec": func(*rapid.T) {
				revisions++
				w.change(version(fmt.Sprintf("1.0.%d", revisions)))
			},
			"": func(t *rapid.T) {
				if got := w.disturbed(); got > int(budget) {
					t.Fatalf("%d nodes are disturbed with a budget of %d", got, budget)
				}
			},
		})
		w.catchUp()
		w.change(version("9.0.0"))
		for range 2*len(w.nodes) + 2 {
			w.pass()
			w.complete(names(9)...)
		}
		if p := w.pass(); !p.AllComplete {
			t.Fatalf("not complete in the end: %+v", p.Status.Conditions)
		}
	})
}
