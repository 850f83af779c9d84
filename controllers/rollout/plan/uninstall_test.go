package plan

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func uninstallable(apply bool) func(*v1alpha1.NodeWright) {
	return func(nw *v1alpha1.NodeWright) {
		p := nw.Spec.Packages["driver"]
		p.Uninstall = &v1alpha1.Uninstall{Enabled: true, Apply: apply}
		nw.Spec.Packages = map[string]v1alpha1.Package{"driver": p}
	}
}

// uninstalling is a world of complete nodes whose NodeWright is then deleted.
func uninstalling(t *testing.T, budget int32, n int) *world {
	w := newWorld(t, nodeWright(count(budget), uninstallable(false)), names(n)...)
	for range n {
		w.pass()
		w.complete(names(n)...)
	}
	w.change(deleted)
	for _, node := range w.nodes {
		node.Remains, node.Uninstalls = true, []Uninstall{{Package: "driver"}}
		node.Slot.Reason = nodestate.SlotRetryWanted
		node.Word = nodestate.StatusWaiting
	}
	return w
}

// cleaned is the node controller when the uninstall is over.
func (w *world) cleaned(name string) {
	n := w.nodes[name]
	n.Remains, n.Uninstalls, n.Slot, n.Word, n.Cordoned = false, nil, nil, "", false
}

func TestDeletionUninstallsWithinTheBudget(t *testing.T) {
	w := uninstalling(t, 1, 3)
	w.nodes["n03"].Selected = false // what is installed comes off there as well
	for _, name := range names(3) {
		p := w.pass()
		wantGranted(t, p, name)
		if c := condition(t, &p, v1alpha1.ConditionUninstallInProgress); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, name) {
			t.Errorf("condition %+v, want node %s", c, name)
		}
		w.work(name)
		w.nodes[name].Cordoned = true
		w.now = w.now.Add(time.Hour)
		p = w.pass()
		wantGranted(t, p)
		if hasCondition(&p, v1alpha1.ConditionDeletionBlocked) || p.RemoveFinalizer {
			t.Errorf("an uninstall that goes on blocks the deletion, or the finalizer goes: %+v", p.Status.Conditions)
		}
		w.cleaned(name)
	}
	if p := w.pass(); len(p.Clean) != 3 || p.RemoveFinalizer {
		t.Errorf("cleans %v, finalizer goes: %t", p.Clean, p.RemoveFinalizer)
	}
}

func TestNodeGoneDuringUninstall(t *testing.T) {
	t.Run("UN-11", func(t *testing.T) {
		w := uninstalling(t, 1, 1)
		w.pass()
		w.work("n01")
		w.leave("n01")
		if p := w.pass(); !p.RemoveFinalizer {
			t.Error("a node that is gone is waited for")
		}
	})
}

func TestUninstallBlocksDeletion(t *testing.T) {
	for name, tc := range map[string]struct {
		change     func(*world, *Node)
		wantReason string
		wantText   string
		granted    bool
	}{
		"paused":      {func(w *world, _ *Node) { w.change(annotated(v1alpha1.AnnotationPause)) }, v1alpha1.ReasonPaused, "annotation", false},
		"disabled":    {func(w *world, _ *Node) { w.change(annotated(v1alpha1.AnnotationDisable)) }, v1alpha1.ReasonDisabled, "annotation", false},
		"ignored":     {func(_ *world, n *Node) { n.Ignored = true }, v1alpha1.ReasonIgnored, v1alpha1.LabelIgnore, false},
		"unreachable": {func(_ *world, n *Node) { n.Ready = corev1.ConditionUnknown }, v1alpha1.ReasonNodesNotReady, "n01 (NodeUnreachable)", false},
		"budget of 0": {func(w *world, _ *Node) { w.change(count(0)) }, v1alpha1.ReasonBudgetUsedUp, "raise it", false},
		"UN-01 failed": {func(_ *world, n *Node) {
			n.Uninstalls[0].Failed, n.Uninstalls[0].Reason = true, "ExitCode"
			n.Word, n.Slot.Reason = nodestate.StatusErroring, "Erroring"
		}, v1alpha1.ReasonUninstallFailed, "n01 (driver: ExitCode)", false},
		"drain": {func(w *world, _ *Node) {
			w.pass()
			w.says("n01", nodestate.SlotDrainBlocked, "pod a/b")
		}, v1alpha1.ReasonDrainBlocked, "pod a/b", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := uninstalling(t, 1, 1)
			tc.change(w, w.nodes["n01"])
			p := w.pass()
			c := condition(t, &p, v1alpha1.ConditionDeletionBlocked)
			if c.Reason != tc.wantReason || !strings.Contains(c.Message, tc.wantText) || !strings.Contains(c.Message, "n01") {
				t.Errorf("condition %+v, want reason %s and %q", c, tc.wantReason, tc.wantText)
			}
			if len(p.Grants) > 0 || p.RemoveFinalizer || len(p.Events) != 1 {
				t.Errorf("grants %v, finalizer goes: %t, events %+v", granted(&p), p.RemoveFinalizer, p.Events)
			}
		})
	}
}

func TestExplicitUninstall(t *testing.T) {
	w := newWorld(t, nodeWright(uninstallable(false)), names(2)...)
	w.pass()
	w.complete(names(2)...)
	if p := w.pass(); hasCondition(&p, v1alpha1.ConditionUninstallInProgress) {
		t.Errorf("conditions without an uninstall: %+v", p.Status.Conditions)
	}
	w.change(uninstallable(true))
	w.nodes["n01"].Uninstalls = []Uninstall{{Package: "driver"}}
	p := w.pass()
	wantGranted(t, p, "n01", "n02")
	if c := condition(t, &p, v1alpha1.ConditionReady); c.Status != metav1.ConditionFalse {
		t.Errorf("Ready before any node acted: %+v", c)
	}
	w.work(names(2)...)
	w.nodes["n01"].Uninstalls[0] = Uninstall{Package: "driver", Failed: true, Reason: "ExitCode"}
	w.end(nodestate.StatusErroring, "n01")
	w.complete("n02")
	p = w.pass()
	if c := condition(t, &p, v1alpha1.ConditionUninstallFailed); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "n01 (driver: ExitCode)") {
		t.Errorf("condition %+v", c)
	}
	w.nodes["n01"].Uninstalls, w.nodes["n01"].Word = nil, nodestate.StatusComplete
	p = w.pass()
	for kind, want := range map[string]string{
		v1alpha1.ConditionUninstallFailed: v1alpha1.ReasonResolved, v1alpha1.ConditionUninstallInProgress: v1alpha1.ReasonNothingToUninstall,
	} {
		if c := condition(t, &p, kind); c.Status != metav1.ConditionFalse || c.Reason != want {
			t.Errorf("condition %+v, want reason %s", c, want)
		}
	}
}

func TestUninstallOfWhatNeverWasIsSaid(t *testing.T) {
	t.Run("UN-03", func(t *testing.T) {
		w := newWorld(t, nodeWright(uninstallable(true)), "n01")
		w.pass()
		w.complete("n01")
		p := w.pass()
		if c := condition(t, &p, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "on no node: driver") {
			t.Errorf("Ready %+v", c)
		}
		if c := condition(t, &p, v1alpha1.ConditionUninstallInProgress); c.Reason != v1alpha1.ReasonNothingToUninstall {
			t.Errorf("UninstallInProgress %+v", c)
		}
	})
}
