package plan

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
)

var start = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

func nodeWright(change ...func(*v1alpha1.NodeWright)) *v1alpha1.NodeWright {
	nw := &v1alpha1.NodeWright{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "nw-1", Generation: 1},
		Spec: v1alpha1.NodeWrightSpec{Packages: map[string]v1alpha1.Package{
			"driver": {Version: "1.0.0", Image: "registry.example/driver"},
		}},
	}
	for _, c := range change {
		c(nw)
	}
	return nw
}

func count(n int32) func(*v1alpha1.NodeWright) {
	return func(nw *v1alpha1.NodeWright) {
		nw.Spec.InterruptionBudget = &v1alpha1.InterruptionBudget{Count: ptr.To(n)}
	}
}

// version is a change of the spec that starts every node again.
func version(v string) func(*v1alpha1.NodeWright) {
	return func(nw *v1alpha1.NodeWright) {
		nw.Spec.Packages = map[string]v1alpha1.Package{"driver": {Version: v, Image: "registry.example/driver"}}
		nw.Generation++
	}
}

func annotated(key string) func(*v1alpha1.NodeWright) {
	return func(nw *v1alpha1.NodeWright) { nw.Annotations = map[string]string{key: "true"} }
}

// failer is a testing.TB or a rapid.T.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// world is a fleet whose nodes keep to the protocol of slots.
type world struct {
	t     failer
	now   time.Time
	nw    *v1alpha1.NodeWright
	nodes map[string]*Node
	// stale are older states of nodes that the next passes see instead.
	stale map[string]*Node
	// granted is what the controller remembers of its own grants.
	granted   map[string]nodestate.Batch
	nextOrder int64
	seq       int
	// orders by UID of the node, over the whole life of the world.
	orders map[int32]string
}

func newWorld(t failer, nw *v1alpha1.NodeWright, names ...string) *world {
	w := &world{
		t: t, now: start, nw: nw, nodes: map[string]*Node{}, stale: map[string]*Node{},
		granted: map[string]nodestate.Batch{}, orders: map[int32]string{},
	}
	for _, name := range names {
		w.join(name)
	}
	return w
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("n%02d", i+1)
	}
	return out
}

func (w *world) join(name string) *Node {
	w.seq++
	n := &Node{Name: name, UID: "uid-" + strconv.Itoa(w.seq), Selected: true, Ready: corev1.ConditionTrue}
	w.nodes[name] = n
	return n
}

func (w *world) leave(name string) {
	delete(w.nodes, name)
	delete(w.stale, name)
}

func (w *world) change(change func(*v1alpha1.NodeWright)) {
	nw := w.nw.DeepCopy()
	change(nw)
	w.nw = nw
}

func (n *Node) copied() Node {
	c := *n
	if n.Batch != nil {
		c.Batch = ptr.To(*n.Batch)
	}
	if n.Slot != nil {
		c.Slot = ptr.To(*n.Slot)
	}
	return c
}

// lag keeps the present state of a node in the cache.
func (w *world) lag(name string) {
	if n := w.nodes[name]; n != nil {
		w.stale[name] = ptr.To(n.copied())
	}
}

func (w *world) catchUp() { clear(w.stale) }

// input is what the controller would gather: the cache, and its own grants that
// the cache does not show yet.
func (w *world) input() Input {
	in := Input{Now: w.now, NodeWright: w.nw, NextOrder: w.nextOrder}
	for name, n := range w.nodes {
		if old, ok := w.stale[name]; ok {
			n = old
		}
		seen := n.copied()
		if g, ok := w.granted[seen.UID]; ok && (seen.Batch == nil || id(seen.Batch) < id(&g)) {
			seen.Batch = &g
		}
		in.Nodes = append(in.Nodes, seen)
	}
	return in
}

func id(b *nodestate.Batch) int {
	n, err := strconv.Atoi(b.ID)
	if err != nil {
		panic(err)
	}
	return n
}

// pass plans once and carries the plan out: the status is persisted, then the
// grants are written.
func (w *world) pass() Plan {
	w.t.Helper()
	p := Compute(w.input())
	w.nextOrder = p.NextOrder
	w.change(func(nw *v1alpha1.NodeWright) { nw.Status = p.Status })
	for _, g := range p.Grants {
		w.seq++
		g.Batch.ID = strconv.Itoa(w.seq)
		if n := w.nodes[g.Node]; n != nil && n.UID == g.UID {
			if owner, ok := w.orders[g.Batch.Order]; ok && owner != g.UID {
				w.t.Errorf("order %d is given to %s and %s", g.Batch.Order, owner, g.UID)
			}
			w.orders[g.Batch.Order] = g.UID
			n.Batch = ptr.To(g.Batch)
			w.granted[g.UID] = g.Batch
		}
	}
	return p
}

func (w *world) holds(n *Node) bool { return n.Batch != nil && n.Batch.Holds(n.Slot) }

func (w *world) current(n *Node) bool { return n.Batch != nil && n.Batch.Rollout == revision.Of(w.nw) }

// work is the node controller: it begins on a slot for the present revision.
func (w *world) work(names ...string) {
	for _, name := range names {
		n := w.nodes[name]
		if n == nil || !w.holds(n) || !w.current(n) {
			continue
		}
		n.Slot = &nodestate.Slot{ID: n.Batch.ID, State: nodestate.SlotWorking}
		n.Word = nodestate.StatusInProgress
	}
}

// end is the node controller giving the slot back with a word.
func (w *world) end(word nodestate.StatusWord, names ...string) {
	for _, name := range names {
		n := w.nodes[name]
		if n == nil || !w.holds(n) || !w.current(n) {
			continue
		}
		n.Slot = &nodestate.Slot{ID: n.Batch.ID, State: nodestate.SlotReleased}
		if n.Word = word; word == nodestate.StatusComplete {
			n.Slot.Reason = nodestate.SlotComplete
		}
	}
}

// complete lets the nodes work and give their slots back.
func (w *world) complete(names ...string) {
	w.work(names...)
	w.end(nodestate.StatusComplete, names...)
}

// disturbed counts nodes that the ceiling is about.
func (w *world) disturbed() int {
	sum := 0
	for _, n := range w.nodes {
		if w.holds(n) || n.Selected && !n.Ignored && (n.Word == nodestate.StatusErroring || n.Cordoned) {
			sum++
		}
	}
	return sum
}

func granted(p *Plan) []string {
	var out []string
	for _, g := range p.Grants {
		out = append(out, g.Node)
	}
	return out
}

func condition(t failer, p *Plan, kind string) metav1.Condition {
	t.Helper()
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	t.Fatalf("status has no condition %s: %+v", kind, p.Status.Conditions)
	return metav1.Condition{}
}

func hasCondition(p *Plan, kind string) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return true
		}
	}
	return false
}
