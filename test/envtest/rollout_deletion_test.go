package envtest

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// The grants go once no node has records of the NodeWright, then the finalizer.
func TestDeletionWaitsForTheNodes(t *testing.T) {
	b := newRolloutBed(t)
	n1, n2 := b.createNode(t).Name, b.createNode(t).Name
	nw := b.createNodeWright(t, "", nil)
	entry := entryOf(&packagejob.Identity{
		NodeWright: nw.Name, NodeWrightUID: nw.UID, Package: "driver", Version: "1.0.0", Stage: nodestate.StageConfig, Run: 1, Attempt: 1,
	}, nil)
	for _, node := range []string{n1, n2} {
		b.awaitGrant(t, node, nw.Name)
		b.answer(t, node, nw.Name, nodestate.SlotReleased, nodestate.StatusComplete, entry)
	}
	b.awaitStatus(t, nw.Name, nodestate.StatusComplete)
	if err := b.admin.Delete(t.Context(), nw.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	b.forgetOn(t, n1, nw.Name)
	b.settle(t)
	eventually(t, "the status says that it is being deleted", func() bool {
		now := b.nodeWright(t, nw.Name)
		if now == nil {
			t.Fatal("the NodeWright is gone while a node has records of it")
		}
		c := conditionOf(t, now, v1alpha1.ConditionReady)
		return c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonDeleting
	})
	for _, node := range []string{n1, n2} {
		if _, ok := recordOn(t, node).Batches[nw.Name]; !ok {
			t.Errorf("grant of %s went before the records of all nodes", node)
		}
	}
	// A node that is deleted is not waited for.
	deleteNode(t, n2)
	eventually(t, "the NodeWright is gone", func() bool { return b.nodeWright(t, nw.Name) == nil })
	wantKeys(t, n1, nodestate.OwnerNode.SeqKey())
}

// DR-14: another finalizer keeps the NodeWright; nothing is written for it any
// more.
func TestNothingIsWrittenAfterCleanUp(t *testing.T) {
	b := newRolloutBed(t)
	node := b.createNode(t).Name
	nw := b.createNodeWright(t, "", func(nw *v1alpha1.NodeWright) { nw.Finalizers = []string{"example.com/other"} })
	b.complete(t, node, nw.Name)
	b.awaitStatus(t, nw.Name, nodestate.StatusComplete)
	if err := b.admin.Delete(t.Context(), nw.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	b.forgetOn(t, node, nw.Name)
	eventually(t, "our finalizer is gone", func() bool {
		return !slices.Contains(b.nodeWright(t, nw.Name).Finalizers, v1alpha1.Finalizer)
	})
	b.settle(t)
	b.counter.Reset()
	setReady(t, b, node, corev1.ConditionFalse)
	setReady(t, b, node, corev1.ConditionTrue)
	b.edit(t, nw.Name, func(nw *v1alpha1.NodeWright) { nw.Labels = map[string]string{"a": "b"} })
	b.createNode(t)
	b.edit(t, nw.Name, func(nw *v1alpha1.NodeWright) { nw.Annotations = map[string]string{"a": "b"} })
	time.Sleep(time.Second)
	b.settle(t)
	if got := b.counter.Snapshot().PerResource(); len(got) > 0 {
		t.Errorf("writes after the clean-up: %v", got)
	}
	if keys := keysLike(t, node, nw.Name); len(keys) > 0 {
		t.Errorf("keys %v are on the node", keys)
	}
}

// A record that cannot be read may say that something is installed: it blocks
// the deletion, and the condition says which one.
func TestDeletionBlockedByUnreadableRecord(t *testing.T) {
	b := newRolloutBed(t)
	node := b.createNode(t).Name
	nw := b.createNodeWright(t, "", nil)
	b.complete(t, node, nw.Name)
	key := nodestate.NewPackageKey(nodestate.KindNodeState, nw.Name, "driver").String()
	patch(t, node, "somebody", `{"metadata":{"annotations":{"`+key+`":"nonsense"}}}`)
	if err := b.admin.Delete(t.Context(), nw.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	b.change(t, node, func(set *nodestate.Set, _ *nodestate.Record) { delete(set.Slots, nw.Name) })
	eventually(t, "the deletion is blocked", func() bool {
		for _, c := range b.nodeWright(t, nw.Name).Status.Conditions {
			if c.Type == v1alpha1.ConditionDeletionBlocked && c.Status == metav1.ConditionTrue {
				return c.Reason == v1alpha1.ReasonMalformed
			}
		}
		return false
	})
	patch(t, node, "somebody", `{"metadata":{"annotations":{"`+key+`":null}}}`)
	b.change(t, node, func(set *nodestate.Set, _ *nodestate.Record) {
		delete(set.Status, nw.Name)
		set.Raw = nil
	})
	eventually(t, "the NodeWright is gone", func() bool { return b.nodeWright(t, nw.Name) == nil })
}

// A grant of a NodeWright that does not exist goes.
func TestGrantWithoutNodeWright(t *testing.T) {
	b := newRolloutBed(t)
	node := b.createNode(t).Name
	stray := b.writer(nodestate.OwnerRollout)
	name := b.namespace + "-gone"
	bring(t, stray, node, nodestate.Set{Batches: map[string]nodestate.Batch{name: {ID: "1", Batch: 1}}}, 2)
	eventually(t, "the grant is gone", func() bool { return len(keysLike(t, node, name)) == 0 })
}
