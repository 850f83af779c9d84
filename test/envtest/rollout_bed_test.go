package envtest

import (
	"context"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/rollout"
)

const (
	statusWrite     = "nodewrights.nodewright.nvidia.com/status"
	nodeWrightWrite = "nodewrights.nodewright.nvidia.com"
)

func newRolloutBed(t *testing.T) *bed {
	t.Helper()
	return newBed(t, func(b *bed) {
		err := rollout.AddToManager(b.mgr, rollout.Options{
			Writer: b.writer(nodestate.OwnerRollout), Namespace: b.namespace, Recorder: b.recorder,
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// createNodeWright makes a NodeWright that selects the nodes of the bed. It goes
// with the test.
func (b *bed) createNodeWright(t *testing.T, suffix string, change func(*v1alpha1.NodeWright)) *v1alpha1.NodeWright {
	t.Helper()
	nw := &v1alpha1.NodeWright{
		ObjectMeta: metav1.ObjectMeta{Name: b.namespace + suffix},
		Spec: v1alpha1.NodeWrightSpec{
			NodeSelectors: metav1.LabelSelector{MatchLabels: map[string]string{bedLabel: b.namespace}},
			Packages:      map[string]v1alpha1.Package{"driver": {Version: "1.0.0", Image: "registry.example.com/driver"}},
		},
	}
	if change != nil {
		change(nw)
	}
	if err := b.admin.Create(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.removeNodeWright(t, nw.Name) })
	return nw
}

// removeNodeWright deletes a NodeWright whatever holds it.
func (b *bed) removeNodeWright(t *testing.T, name string) {
	ctx := context.Background()
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := b.admin.Delete(ctx, nw)
	if err == nil {
		err = b.admin.Patch(ctx, nw, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":[]}}`)))
	}
	if client.IgnoreNotFound(err) != nil {
		t.Errorf("remove nodewright %s: %v", name, err)
	}
}

func budgetOf(n int32) func(*v1alpha1.NodeWright) {
	return func(nw *v1alpha1.NodeWright) {
		nw.Spec.InterruptionBudget = &v1alpha1.InterruptionBudget{Count: ptr.To(n)}
	}
}

// stored NodeWright, nil if there is none.
func (b *bed) nodeWright(t *testing.T, name string) *v1alpha1.NodeWright {
	t.Helper()
	nw := &v1alpha1.NodeWright{}
	err := b.admin.Get(t.Context(), types.NamespacedName{Name: name}, nw)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return nw
}

// edit changes a NodeWright as a user does.
func (b *bed) edit(t *testing.T, name string, change func(*v1alpha1.NodeWright)) {
	t.Helper()
	eventually(t, "the edit of "+name+" is taken", func() bool {
		nw := b.nodeWright(t, name)
		change(nw)
		err := b.admin.Update(t.Context(), nw)
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func (b *bed) awaitStatus(t *testing.T, name string, want nodestate.StatusWord) *v1alpha1.NodeWright {
	t.Helper()
	var nw *v1alpha1.NodeWright
	eventually(t, name+" is "+string(want), func() bool {
		nw = b.nodeWright(t, name)
		return nw.Status.Status == want && nw.Status.ObservedGeneration == nw.Generation
	})
	return nw
}

func conditionOf(t *testing.T, nw *v1alpha1.NodeWright, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(nw.Status.Conditions, kind)
	if c == nil {
		t.Fatalf("NodeWright %s has no condition %s: %+v", nw.Name, kind, nw.Status.Conditions)
	}
	return *c
}

func recordOn(t *testing.T, node string, names ...string) nodestate.Record {
	t.Helper()
	return nodestate.Decode(liveNode(t, node).Annotations, names)
}

// awaitGrant waits until the node holds a slot of the NodeWright.
func (b *bed) awaitGrant(t *testing.T, node, nodeWright string) nodestate.Batch {
	t.Helper()
	var batch nodestate.Batch
	eventually(t, node+" holds a slot of "+nodeWright, func() bool {
		record := recordOn(t, node, nodeWright)
		found, granted := record.Batches[nodeWright]
		slot, answered := record.Slots[nodeWright]
		batch = found
		return granted && (!answered || found.Holds(&slot))
	})
	return batch
}

// answer stands in for the node controller: it answers the grant of a
// NodeWright and leaves all else of its set as it stands.
func (b *bed) answer(t *testing.T, node, nodeWright string, state nodestate.SlotState, word nodestate.StatusWord, entries ...nodestate.PackageStatus) {
	t.Helper()
	b.change(t, node, func(set *nodestate.Set, record *nodestate.Record) {
		slot := nodestate.Slot{ID: record.Batches[nodeWright].ID, State: state}
		if word == nodestate.StatusComplete && state == nodestate.SlotReleased {
			slot.Reason = nodestate.SlotComplete
		}
		set.Slots[nodeWright] = slot
		set.Status[nodeWright] = word
		for i := range entries {
			set.Packages[entries[i].Ref()] = entries[i]
		}
	})
}

// change brings the node controller's set on the node to something else.
func (b *bed) change(t *testing.T, node string, change func(set *nodestate.Set, record *nodestate.Record)) {
	t.Helper()
	view := read(t, b.node, node)
	set := nodestate.Set{
		Slots: maps.Clone(view.Record.Slots), Status: maps.Clone(view.Record.Status),
		Packages: maps.Clone(view.Record.Packages), Raw: view.Carried(nodestate.OwnerNode),
	}
	if set.Slots == nil {
		set.Slots = map[string]nodestate.Slot{}
	}
	if set.Status == nil {
		set.Status = map[string]nodestate.StatusWord{}
	}
	if set.Packages == nil {
		set.Packages = map[nodestate.PackageRef]nodestate.PackageStatus{}
	}
	change(&set, &view.Record)
	if _, err := b.node.Apply(t.Context(), view, set, false); err != nil {
		t.Fatal(err)
	}
}

// forgetOn takes everything of the NodeWright off the node, as the node
// controller does when it is deleted.
func (b *bed) forgetOn(t *testing.T, node, nodeWright string) {
	t.Helper()
	b.change(t, node, func(set *nodestate.Set, _ *nodestate.Record) {
		delete(set.Slots, nodeWright)
		delete(set.Status, nodeWright)
		maps.DeleteFunc(set.Packages, func(ref nodestate.PackageRef, _ nodestate.PackageStatus) bool {
			return ref.NodeWright == nodeWright
		})
	})
}

// complete answers the grant and gives it back.
func (b *bed) complete(t *testing.T, node, nodeWright string) {
	t.Helper()
	b.awaitGrant(t, node, nodeWright)
	b.answer(t, node, nodeWright, nodestate.SlotReleased, nodestate.StatusComplete)
}

// keysLike lists annotations of the node that are of a NodeWright.
func keysLike(t *testing.T, node, nodeWright string) []string {
	t.Helper()
	var out []string
	for key := range liveNode(t, node).Annotations {
		if strings.HasPrefix(key, nodestate.Prefix) && strings.Contains(key, nodeWright) {
			out = append(out, key)
		}
	}
	return out
}

func setReady(t *testing.T, b *bed, node string, ready corev1.ConditionStatus) {
	t.Helper()
	n := liveNode(t, node)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	if err := b.admin.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}
