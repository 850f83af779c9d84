package rollout

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

// oneNode is a writer that shows one node, with a grant that the caches do not
// have yet, and does with applies what it is told.
type oneNode struct {
	batch   nodestate.Batch
	outcome apply.Outcome
	err     error
}

func (o *oneNode) Read(context.Context, string, []string) (*apply.View, bool, error) {
	view := &apply.View{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}, NextSeq: 4}
	view.Record.Batches = map[string]nodestate.Batch{"gpu": o.batch}
	view.Record.Seq = map[nodestate.Owner]int64{nodestate.OwnerRollout: 3}
	return view, true, nil
}

func (o *oneNode) Apply(context.Context, *apply.View, nodestate.Set, bool) (apply.Outcome, error) {
	return o.outcome, o.err
}

func (o *oneNode) Release(context.Context, *apply.View) (apply.Outcome, error) {
	return apply.Unchanged, nil
}

// A grant that the cache does not show counts, also when a later one for the node
// is not written: otherwise another node would get the slot.
func TestEarlierGrantIsRemembered(t *testing.T) {
	earlier := nodestate.Batch{ID: "3", NodeWright: "gpu", Rollout: "r1", UID: "nw-uid"}
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "nw-uid"}}
	for name, writer := range map[string]*oneNode{
		"the answer is lost": {batch: earlier, err: errors.New("away")},
		"the view was old":   {batch: earlier, err: apply.ErrStaleView},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{opts: Options{Writer: writer}}
			mem := newMemory().of(nw)
			mem.remember("node-uid", ownGrant{node: "n1", batch: earlier, seq: 3})
			_, err := r.grant(t.Context(), nw, mem, &plan.Grant{
				Node: "n1", UID: "node-uid", Over: "3", Renewal: true,
				Batch: nodestate.Batch{NodeWright: "gpu", Rollout: "r2", UID: "nw-uid"},
			})
			if lost := !errors.Is(writer.err, apply.ErrStaleView); (err != nil) != lost {
				t.Fatalf("grant: %v", err)
			}
			if err := r.settle(t.Context(), "gpu", mem); err != nil {
				t.Fatal(err)
			}
			if got := mem.grants["node-uid"]; got.batch.ID != "3" || got.seq != 3 || got.doubt {
				t.Fatalf("known is %+v, want the grant that stands", got)
			}
		})
	}
}

// Slots of a NodeWright that was replaced under its name are in use as long as the
// nodes have them.
func TestGrantsOutliveTheirNodeWright(t *testing.T) {
	m := newMemory()
	before := m.of(&v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "1"}})
	before.remember("node-uid", ownGrant{node: "n1", seq: 3})
	after := m.of(&v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "2"}})
	if after == before || len(after.grants) != 1 {
		t.Fatalf("grants %v, want the one that the cache does not show yet", after.grants)
	}
}

// Nodes are read again only when they or the NodeWright change.
func TestReadingsFollowChanges(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid", ResourceVersion: "1"}}
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Generation: 1}}
	r, reads := readings{}, 0
	look := func() {
		r.of(node, nw, func() (plan.Node, bool) { reads++; return plan.Node{UID: string(types.UID("node-uid"))}, true })
	}
	for i, change := range []func(){
		func() {}, func() { node.ResourceVersion = "2" }, func() { nw.Generation = 2 },
		func() { nw.DeletionTimestamp = &metav1.Time{} },
	} {
		change()
		look()
		look()
		if reads != i+1 {
			t.Fatalf("after change %d: %d reads, want %d", i, reads, i+1)
		}
	}
}
