package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func deleted(nw *v1alpha1.NodeWright) {
	at := metav1.NewTime(start)
	nw.DeletionTimestamp = &at
}

// deleting is a world of three nodes, of which the first two had a slot.
func deleting(t *testing.T) *world {
	w := newWorld(t, nodeWright(count(2)), names(3)...)
	w.pass()
	w.work("n01", "n02")
	w.change(deleted)
	w.nodes["n01"].Remains, w.nodes["n02"].Remains = true, true
	return w
}

func TestDeletion(t *testing.T) {
	w := deleting(t)
	p := w.pass()
	if len(p.Grants)+len(p.Clean) > 0 || p.RemoveFinalizer {
		t.Errorf("grants %v, cleans %v, finalizer goes: %t, with records on nodes", granted(&p), p.Clean, p.RemoveFinalizer)
	}
	if want := start.Add(DeletionPatience); !p.NextCheck.Equal(want) {
		t.Errorf("next check at %s, want %s", p.NextCheck, want)
	}
	if c := condition(t, &p, v1alpha1.ConditionReady); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonDeleting {
		t.Errorf("Ready %+v", c)
	}
	// The grants go once no node has records: n01 is clean, n02 left the cluster.
	w.nodes["n01"].Remains = false
	if p := w.pass(); len(p.Clean) > 0 || p.RemoveFinalizer {
		t.Errorf("cleans %v, finalizer goes: %t, with records on one node", p.Clean, p.RemoveFinalizer)
	}
	w.leave("n02")
	p = w.pass()
	if diff := cmp.Diff([]string{"n01"}, p.Clean); diff != "" || p.RemoveFinalizer {
		t.Errorf("finalizer goes: %t, nodes to clean (-want +got):\n%s", p.RemoveFinalizer, diff)
	}
	w.nodes["n01"].Batch, w.nodes["n01"].Slot, w.nodes["n01"].Word = nil, nil, ""
	clear(w.granted)
	if p := w.pass(); len(p.Clean) > 0 || !p.RemoveFinalizer {
		t.Errorf("cleans %v, finalizer goes: %t, with nothing left", p.Clean, p.RemoveFinalizer)
	}
}

func TestDeletionOfUnreadableGrant(t *testing.T) {
	w := newWorld(t, nodeWright(deleted), "n01")
	w.nodes["n01"].BatchUnreadable = true
	if p := w.pass(); len(p.Clean) != 1 || p.RemoveFinalizer {
		t.Errorf("cleans %v, finalizer goes: %t", p.Clean, p.RemoveFinalizer)
	}
}

func TestDeletionBlocked(t *testing.T) {
	tests := map[string]struct {
		change     func(w *world)
		want       bool
		wantReason string
		wantText   string
	}{
		"soon after": {func(w *world) { w.now = start.Add(DeletionPatience - time.Second) }, false, "", ""},
		"late":       {func(w *world) { w.now = start.Add(DeletionPatience) }, true, v1alpha1.ReasonNodesBlocked, "n01 (Deleting), n02 (Deleting)"},
		"late, node away": {func(w *world) {
			w.now = start.Add(time.Hour)
			w.nodes["n02"].Ready = corev1.ConditionUnknown
		}, true, v1alpha1.ReasonNodesBlocked, "n02 (NodeUnreachable)"},
		"record that cannot be read": {func(w *world) {
			w.nodes["n02"].Word = nodestate.StatusUnknown
			w.nodes["n02"].Unreadable = []string{"nodewright.nvidia.com/nodeState_gpu_driver"}
		}, true, v1alpha1.ReasonMalformed, "nodewright.nvidia.com/nodeState_gpu_driver on node n02"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := deleting(t)
			tc.change(w)
			p := w.pass()
			if got := hasCondition(&p, v1alpha1.ConditionDeletionBlocked); got != tc.want {
				t.Fatalf("condition DeletionBlocked is there: %t, want %t", got, tc.want)
			}
			if !tc.want {
				return
			}
			c := condition(t, &p, v1alpha1.ConditionDeletionBlocked)
			if c.Status != metav1.ConditionTrue || c.Reason != tc.wantReason || !strings.Contains(c.Message, tc.wantText) {
				t.Errorf("condition %+v, want reason %s and %q", c, tc.wantReason, tc.wantText)
			}
			if len(p.Events) != 1 {
				t.Errorf("events %+v, want one", p.Events)
			}
		})
	}
}
