package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// What interrupts, drains and uninstalls need of a spec.
func TestSpecAsThePlannerHasIt(t *testing.T) {
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "u", Generation: 1}}
	nw.Spec.Sequencing = v1alpha1.SequencingAll
	nw.Spec.Drain = &v1alpha1.Drain{Timeout: &metav1.Duration{Duration: time.Minute}}
	nw.Spec.Packages = map[string]v1alpha1.Package{
		"aa": {Interrupt: &v1alpha1.Interrupt{Type: v1alpha1.InterruptService, Services: []string{"b", "a", "b"}},
			Uninstall: &v1alpha1.Uninstall{Enabled: true, Apply: true}},
		"bb": {Interrupt: &v1alpha1.Interrupt{Type: v1alpha1.InterruptReboot}, Uninstall: &v1alpha1.Uninstall{Enabled: true}},
		"cc": {Uninstall: &v1alpha1.Uninstall{Apply: true}},
		"dd": {},
	}
	got, err := (&specs{}).of(nw, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Interrupt               *nodestate.Interrupt
		CanUninstall, Uninstall bool
	}
	rows := map[string]row{}
	for _, p := range got.Packages {
		rows[p.Name] = row{p.Interrupt, p.CanUninstall, p.Uninstall}
	}
	want := map[string]row{
		"aa": {&nodestate.Interrupt{Type: "service", Services: []string{"a", "b"}}, true, true},
		"bb": {&nodestate.Interrupt{Type: "reboot"}, true, false},
		"cc": {}, "dd": {},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	if !got.AllFirst || got.DrainTimeout != time.Minute {
		t.Errorf("all first %t, drain timeout %s", got.AllFirst, got.DrainTimeout)
	}
	if services := nw.Spec.Packages["aa"].Interrupt.Services; services[0] != "b" {
		t.Errorf("the spec itself was changed: %v", services)
	}
}

// ready is a NodeWright that is complete everywhere, unless changed.
func ready(change func(*v1alpha1.NodeWright)) *v1alpha1.NodeWright {
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "u", Generation: 3}}
	nw.Spec.Sequencing = v1alpha1.SequencingAll
	nw.Status.ObservedGeneration = 3
	nw.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 3}}
	if change != nil {
		change(nw)
	}
	return nw
}

// What the status says is read from the object of now, and wakes nodes where
// others wait for it.
func TestCompleteEverywhere(t *testing.T) {
	tests := map[string]struct {
		change func(*v1alpha1.NodeWright)
		want   bool
		// wakes: an update from complete everywhere to this.
		wakes bool
	}{
		"complete":                {nil, true, false},
		"other status":            {func(nw *v1alpha1.NodeWright) { nw.Status.NodesInProgress = 1 }, true, false},
		"not ready":               {func(nw *v1alpha1.NodeWright) { nw.Status.Conditions[0].Status = metav1.ConditionFalse }, false, true},
		"no condition":            {func(nw *v1alpha1.NodeWright) { nw.Status.Conditions = nil }, false, true},
		"condition of before":     {func(nw *v1alpha1.NodeWright) { nw.Status.Conditions[0].ObservedGeneration = 2 }, false, true},
		"status of before":        {func(nw *v1alpha1.NodeWright) { nw.Status.ObservedGeneration = 2 }, false, true},
		"spec changed":            {func(nw *v1alpha1.NodeWright) { nw.Generation = 4 }, false, true},
		"being deleted":           {func(nw *v1alpha1.NodeWright) { nw.DeletionTimestamp = &metav1.Time{Time: start} }, false, true},
		"not ready, nobody waits": {func(nw *v1alpha1.NodeWright) { nw.Spec.Sequencing, nw.Status.Conditions = "", nil }, false, false},
	}
	changed := nodeWrightChanged()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, before, after := &specs{}, ready(nil), ready(tc.change)
			if got, err := s.of(before, &Options{}); err != nil || !got.Everywhere {
				t.Fatalf("%+v, error %v", got, err)
			}
			got, err := s.of(after, &Options{})
			if err != nil || got.Everywhere != tc.want {
				t.Errorf("everywhere %t, want %t; error %v", got.Everywhere, tc.want, err)
			}
			if wakes := changed.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); wakes != tc.wakes {
				t.Errorf("wakes %t, want %t", wakes, tc.wakes)
			}
			if wakes := changed.Update(event.UpdateEvent{ObjectOld: after, ObjectNew: before}); wakes != (tc.wakes || !tc.want) {
				t.Errorf("on the way back wakes %t", wakes)
			}
		})
	}
}

// A drain that began for a NodeWright which does not select the node any more has
// to be ended.
func TestDrainStartConcernsTheNode(t *testing.T) {
	rec := &nodestate.Record{}
	rec.DrainStarts = map[string]time.Time{"nw": start}
	if !namesOn(rec, nil)["nw"] {
		t.Error("the NodeWright is not concerned")
	}
}
