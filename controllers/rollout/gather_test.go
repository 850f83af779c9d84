package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

func gathered(nodes []corev1.Node, nw *v1alpha1.NodeWright, mem *nodeWrightMemory) []plan.Node {
	selector, err := metav1.LabelSelectorAsSelector(&nw.Spec.NodeSelectors)
	if err != nil {
		panic(err)
	}
	var in plan.Input
	collect(nodes, nw, selector, mem, &in)
	return in.Nodes
}

func emptyMemory(nw *v1alpha1.NodeWright) *nodeWrightMemory { return newMemory().of(nw) }

func TestCollect(t *testing.T) {
	for _, name := range []string{"gpu", longName} {
		t.Run(name, func(t *testing.T) {
			nw := nodeWright(name, selecting("gpu"))
			batch := nodestate.Batch{ID: "7", Batch: 1, NodeWright: name, Rollout: "r"}
			slot := nodestate.Slot{ID: "7", NodeWright: name, State: nodestate.SlotWorking}
			full := annotations(map[nodestate.Owner]nodestate.Set{
				nodestate.OwnerNode: {
					Status: map[string]nodestate.StatusWord{name: nodestate.StatusErroring},
					Slots:  map[string]nodestate.Slot{name: slot}, Cordons: map[string]time.Time{name: time.Unix(1, 0)},
				},
				nodestate.OwnerRollout: {Batches: map[string]nodestate.Batch{name: batch, "other": {ID: "1"}}},
			})
			away := node("n3", nil, "gpu", v1alpha1.LabelIgnore)
			away.Status.Conditions[0].Status = corev1.ConditionUnknown
			k := newReader(name)
			nodes := []corev1.Node{
				*node("n1", full, "gpu"), *node("n2", full), *away, *node("n4", nil),
				*node("n5", map[string]string{k.batchName: "x", k.slotName: "{}", k.statusName: "fine"}, "gpu"),
			}
			want := []plan.Node{
				{
					Name: "n1", UID: "uid-n1", Selected: true, Ready: corev1.ConditionTrue, Word: nodestate.StatusErroring,
					Batch: &batch, Slot: &slot, Cordoned: true,
				},
				{
					Name: "n2", UID: "uid-n2", Ready: corev1.ConditionTrue, Word: nodestate.StatusErroring,
					Batch: &batch, Slot: &slot, Cordoned: true,
				},
				{Name: "n3", UID: "uid-n3", Selected: true, Ignored: true, Ready: corev1.ConditionUnknown},
				{
					Name: "n5", UID: "uid-n5", Selected: true, Ready: corev1.ConditionTrue, Word: nodestate.StatusUnknown,
					BatchUnreadable: true, Unreadable: []string{k.batchName, k.slotName, k.statusName},
				},
			}
			if diff := cmp.Diff(want, gathered(nodes, nw, emptyMemory(nw))); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// What the controller granted counts until the cache shows it, or something
// later of its own.
func TestCollectWithOwnGrants(t *testing.T) {
	nw := nodeWright("gpu", selecting("gpu"))
	key := newReader("gpu").batchName
	tests := map[string]struct {
		annotations map[string]string
		wantID      string
		wantKept    bool
	}{
		"not shown at all":     {nil, "9", true},
		"the one before":       {map[string]string{key: `{"id":"5","nodewright":"gpu"}`, nodestate.OwnerRollout.SeqKey(): "5"}, "9", true},
		"shown":                {map[string]string{key: `{"id":"9","nodewright":"gpu"}`, nodestate.OwnerRollout.SeqKey(): "9"}, "9", false},
		"shown, other later":   {map[string]string{key: `{"id":"9","nodewright":"gpu"}`, nodestate.OwnerRollout.SeqKey(): "12"}, "9", false},
		"removed by a user":    {map[string]string{nodestate.OwnerRollout.SeqKey(): "9"}, "", false},
		"unreadable before it": {map[string]string{key: "x", nodestate.OwnerRollout.SeqKey(): "5"}, "9", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			mem := emptyMemory(nw)
			mem.remember("uid-n1", ownGrant{node: "n1", batch: nodestate.Batch{ID: "9"}, seq: 9})
			mem.remember("uid-gone", ownGrant{node: "gone", seq: 9})
			mem.remember("uid-doubt", ownGrant{node: "doubt", seq: 9, doubt: true})
			got := gathered([]corev1.Node{*node("n1", tc.annotations, "gpu")}, nw, mem)
			id := ""
			if got[0].Batch != nil {
				id = got[0].Batch.ID
			}
			if _, kept := mem.grants["uid-n1"]; id != tc.wantID || kept != tc.wantKept || got[0].BatchUnreadable {
				t.Errorf("id %q, kept %t, unreadable %t; want %q, %t", id, kept, got[0].BatchUnreadable, tc.wantID, tc.wantKept)
			}
			if _, ok := mem.grants["uid-gone"]; ok {
				t.Error("a grant to a node that is gone is remembered")
			}
			if _, ok := mem.grants["uid-doubt"]; !ok {
				t.Error("a grant in doubt is forgotten before a read told")
			}
		})
	}
}

func TestRefusalHoldsUntilTheNodeChanges(t *testing.T) {
	nw := nodeWright("gpu", selecting("gpu"))
	mem := emptyMemory(nw)
	mem.refused("uid-n1", refusal{resourceVersion: "1", message: "no room"})
	n := node("n1", nil, "gpu")
	if got := gathered([]corev1.Node{*n}, nw, mem); got[0].Refused != "no room" {
		t.Errorf("refused: %q", got[0].Refused)
	}
	n.ResourceVersion = "2"
	if got := gathered([]corev1.Node{*n}, nw, mem); got[0].Refused != "" || len(mem.refusals) > 0 {
		t.Errorf("refused: %q, remembered %v", got[0].Refused, mem.refusals)
	}
}

func TestRemains(t *testing.T) {
	for _, name := range []string{"gpu", longName} {
		nw := nodeWright(name, deleting)
		ref := nodestate.PackageRef{NodeWright: name, Package: "driver"}
		state := nodestate.NewPackageKey(nodestate.KindNodeState, name, "driver").String()
		report := nodestate.JobReport{Job: "j", Reason: "Error", Stage: nodestate.StageApply, Version: "1.0.0"}
		tests := map[string]struct {
			annotations    map[string]string
			want           bool
			wantUnreadable []string
		}{
			"nothing": {nil, false, nil},
			"grant only": {annotations(map[nodestate.Owner]nodestate.Set{
				nodestate.OwnerRollout: {Batches: map[string]nodestate.Batch{name: {ID: "1"}}},
			}), false, nil},
			"record": {annotations(map[nodestate.Owner]nodestate.Set{
				nodestate.OwnerNode: {Packages: map[nodestate.PackageRef]nodestate.PackageStatus{ref: entry(name, "driver", nodestate.StateComplete)}},
			}), true, nil},
			"word": {annotations(map[nodestate.Owner]nodestate.Set{
				nodestate.OwnerNode: {Status: map[string]nodestate.StatusWord{name: nodestate.StatusUnknown}},
			}), true, nil},
			"evidence": {annotations(map[nodestate.Owner]nodestate.Set{
				nodestate.OwnerJob: {JobReports: map[nodestate.PackageRef]nodestate.JobReport{ref: report}},
			}), true, nil},
			"unreadable record": {map[string]string{state: "x"}, true, []string{state}},
			"record of one whose name is longer": {annotations(map[nodestate.Owner]nodestate.Set{
				nodestate.OwnerNode: {
					Status: map[string]nodestate.StatusWord{name + "-b": nodestate.StatusComplete},
					Packages: map[nodestate.PackageRef]nodestate.PackageStatus{
						{NodeWright: name + "-b", Package: "driver"}: entry(name+"-b", "driver", nodestate.StateComplete),
					},
				},
			}), false, nil},
			"request of a user": {map[string]string{
				nodestate.NewKey(nodestate.KindRequest, "gpu").String(): `{"action":"rerun","id":"1"}`,
			}, false, nil},
		}
		for label, tc := range tests {
			t.Run(name+"/"+label, func(t *testing.T) {
				got, unreadable := remains(node("n1", tc.annotations), nw)
				if diff := cmp.Diff(tc.wantUnreadable, unreadable, cmpopts.EquateEmpty()); got != tc.want || diff != "" {
					t.Errorf("remains: %t, want %t; unreadable (-want +got):\n%s", got, tc.want, diff)
				}
			})
		}
	}
}

func TestDescribe(t *testing.T) {
	nw := nodeWright("gpu", selecting("gpu"))
	driver := nodestate.PackageRef{NodeWright: "gpu", Package: "driver"}
	tuning := nodestate.PackageRef{NodeWright: "gpu", Package: "tuning"}
	other := nodestate.PackageRef{NodeWright: "late", Package: "aa"}
	state := nodestate.NewPackageKey(nodestate.KindNodeState, "gpu", "driver").String()
	tests := map[string]struct {
		annotations    map[string]string
		word           nodestate.StatusWord
		want           plan.Detail
		wantUnreadable []string
		// slot is the reason of a working slot; empty for no slot.
		slot string
	}{
		"erroring package": {annotations(map[nodestate.Owner]nodestate.Set{
			nodestate.OwnerNode: {Packages: map[nodestate.PackageRef]nodestate.PackageStatus{
				tuning: entry("gpu", "tuning", nodestate.StateErroring), driver: entry("gpu", "driver", nodestate.StateComplete),
				other: entry("late", "aa", nodestate.StateErroring),
			}},
		}), nodestate.StatusErroring, plan.Detail{Package: "tuning", Reason: "ExitCode", Message: "step failed"}, nil, ""},
		"unreadable record": {map[string]string{state: "x"}, nodestate.StatusUnknown, plan.Detail{}, []string{state}, ""},
		"tries again": {annotations(map[nodestate.Owner]nodestate.Set{
			nodestate.OwnerNode: {Packages: map[nodestate.PackageRef]nodestate.PackageStatus{
				driver: entry("gpu", "driver", nodestate.StateComplete), tuning: entry("gpu", "tuning", nodestate.StateInProgress),
			}},
		}), nodestate.StatusInProgress, plan.Detail{Package: "tuning", Reason: "ExitCode", Message: "step failed"}, nil, nodestate.SlotBackOff},
		"a pod does not start": {annotations(map[nodestate.Owner]nodestate.Set{
			nodestate.OwnerPod: {PodReports: map[nodestate.PackageRef]nodestate.PodReport{
				tuning: {Name: "tuning", NodeWright: "gpu", Pod: "p", Reason: "ErrImagePull", Message: "not found", WaitingSince: "2026-01-01T12:00:00Z"},
				other:  {Name: "aa", NodeWright: "late", Pod: "p", Reason: "FailedMount", WaitingSince: "2026-01-01T12:00:00Z"},
			}},
		}), nodestate.StatusInProgress, plan.Detail{Package: "tuning", Reason: "ErrImagePull", Message: "not found"}, nil, nodestate.SlotPodNotStarting},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n := plan.Node{Word: tc.word}
			if tc.slot != "" {
				n.Slot = &nodestate.Slot{State: nodestate.SlotWorking, Reason: tc.slot}
			}
			describe(node("n1", tc.annotations, "gpu"), nw, &n)
			if diff := cmp.Diff(tc.want, n.Detail); diff != "" {
				t.Errorf("detail (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantUnreadable, n.Unreadable); diff != "" {
				t.Errorf("unreadable (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMemoryIsOfOneObject(t *testing.T) {
	m := newMemory()
	nw := nodeWright("gpu")
	m.of(nw).nextOrder = 5
	if got := m.of(nw).nextOrder; got != 5 {
		t.Errorf("next order %d, want 5", got)
	}
	nw.UID = types.UID("again")
	if got := m.of(nw).nextOrder; got != 0 {
		t.Errorf("next order %d of an object created anew, want 0", got)
	}
}

// A pass over 5,000 nodes: count and plan, without the list.
func BenchmarkPass5000(b *testing.B) {
	nw := nodeWright("gpu", selecting("gpu"), func(nw *v1alpha1.NodeWright) {
		for _, pkg := range []string{"tuning", "tools"} {
			nw.Spec.Packages[pkg] = v1alpha1.Package{Version: "1.0.0", Image: "registry.example/" + pkg}
		}
	})
	nodes := fleet(nw, 5000)
	mem := emptyMemory(nw)
	selector := labels.SelectorFromSet(labels.Set{"gpu": "true"})
	for b.Loop() {
		in := plan.Input{Now: time.Unix(0, 0), NodeWright: nw}
		found := collect(nodes, nw, selector, mem, &in)
		explain(nw, in.Nodes, found)
		if p := plan.Compute(in); p.Status.Nodes.Selected != 5000 {
			b.Fatalf("%d nodes", p.Status.Nodes.Selected)
		}
	}
}
