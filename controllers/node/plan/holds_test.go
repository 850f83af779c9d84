package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// A node that may start nothing says why and since when, whether it was ever
// granted a slot or not, and no longer than that.
func TestHeldNodeSaysWhy(t *testing.T) {
	first := func(change func(*NodeWright)) func(*world) {
		return func(w *world) {
			nw := makeNodeWright("first", makePackage("px"))
			nw.Priority = 1
			change(&nw)
			w.in.NodeWrights = append(w.in.NodeWrights, nw)
		}
	}
	for name, tc := range map[string]struct {
		hold   func(*world)
		reason string
		parts  []string
	}{
		"another one":            {first(func(*NodeWright) {}), nodestate.SlotBlocked, []string{"NodeWright first"}},
		"another one is paused":  {first(func(nw *NodeWright) { nw.Paused = true }), nodestate.SlotBlocked, []string{"NodeWright first", "paused"}},
		"another one goes first": {first(func(nw *NodeWright) { nw.AllFirst = true }), nodestate.SlotBlocked, []string{"first", "all other nodes"}},
		"another one is deleted": {func(w *world) {
			first(func(nw *NodeWright) { nw.Deleting, nw.Packages[0].CanUninstall = true, true })(w)
			w.set(nodestate.PackageStatus{
				Name: "px", NodeWright: "first", UID: "first-uid", Version: "1.0.0", Image: "reg/px", SpecHash: "s1",
				Stage: nodestate.StageConfig, State: nodestate.StateComplete, Run: 2, Attempt: 1,
			})
		}, nodestate.SlotBlocked, []string{"NodeWright first", "being deleted"}},
		"not supported": {func(w *world) { w.nw("nw").Held = "deploymentPolicy is not supported" }, nodestate.SlotBlocked, []string{"deploymentPolicy"}},
		"paused":        {func(w *world) { w.nw("nw").Paused = true }, nodestate.SlotPaused, []string{"paused"}},
		"ignored while it is deleted": {func(w *world) {
			w.in.Node.Ignored, w.nw("nw").Deleting, w.pkg("nw", "pa").CanUninstall = true, true, true
			w.set(nodestate.PackageStatus{
				Name: "pa", NodeWright: "nw", UID: "nw-uid", Version: "1.0.0", Image: "reg/pa", SpecHash: "s1",
				Stage: nodestate.StageConfig, State: nodestate.StateComplete, Run: 2, Attempt: 1, Rollout: "r1",
			})
		}, ReasonIgnored, []string{"ignored"}},
		"disabled": {func(w *world) { w.nw("nw").Disabled = true }, nodestate.SlotDisabled, []string{"disabled"}},
	} {
		for _, granted := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
				if !granted {
					w.in.Record.Batches = nil
				}
				tc.hold(w)
				w.pass()
				s := w.in.Record.Slots["nw"]
				if s.Reason != tc.reason || s.Since != nodestate.FormatTime(w.in.Now) || (s.ID == "") == granted {
					t.Fatalf("slot %+v, want one that says %s", s, tc.reason)
				}
				for _, part := range tc.parts {
					if !strings.Contains(s.Message, part) {
						t.Errorf("message %q, want %q in it", s.Message, part)
					}
				}
				w.in.Now = w.in.Now.Add(time.Minute)
				if w.pass(); w.in.Record.Slots["nw"] != s {
					t.Errorf("slot %+v a minute later, want %+v", w.in.Record.Slots["nw"], s)
				}
				nw := w.nw("nw")
				nw.Held, nw.Paused, nw.Disabled, nw.Deleting, w.in.Node.Ignored = "", false, false, false, false
				w.in.NodeWrights = []NodeWright{*nw}
				w.pass()
				if got, there := w.in.Record.Slots["nw"]; got.Message != "" || there != granted {
					t.Errorf("slot %+v when nothing holds the node any more", got)
				}
				w.grantSlot("nw")
				w.finishAll()
				w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
			})
		}
	}
}

// Nor does a node that leaves the rollout while it waits keep an answer to a grant
// that it never had.
func TestWaitWithoutGrantEndsWithTheSelection(t *testing.T) {
	for name, leave := range map[string]func(*world){
		"not selected": func(w *world) { w.nw("nw").Selected = false },
		"ignored":      func(w *world) { w.in.Node.Ignored = true },
		"deleted":      func(w *world) { w.nw("nw").Deleting = true },
		"unreachable":  func(w *world) { w.nw("nw").Paused, w.in.Node.Unreachable, w.in.Record.Status = false, true, nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
			w.in.Record.Batches = nil
			w.nw("nw").Paused = true
			w.pass()
			leave(w)
			if w.pass(); len(w.in.Record.Slots) != 0 {
				t.Errorf("slots %+v", w.in.Record.Slots)
			}
		})
	}
}

// What held a node back does not hide what else is the matter with it.
func TestSlotAfterAHold(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.finishAll()
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, nodestate.SlotComplete)
	w.pkg("nw", "pa").Version, w.nw("nw").Revision, w.nw("nw").Paused = "2.0.0", "r2", true
	w.pass()
	w.wantStatus("nw", nodestate.StatusPaused, nodestate.SlotReleased, nodestate.SlotPaused)
	w.nw("nw").Paused = false
	w.pass()
	w.wantStatus("nw", nodestate.StatusWaiting, nodestate.SlotReleased, nodestate.SlotSuperseded)
	w.nw("nw").Paused = true
	w.pass()
	w.pkg("nw", "pa").Version, w.nw("nw").Revision = "1.0.0", "r1"
	w.nw("nw").Paused = false
	w.pass()
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, nodestate.SlotComplete)
	if s := w.in.Record.Slots["nw"]; s.Message != "" || s.Since != "" {
		t.Errorf("slot %+v", s)
	}
}

// A node that comes back into the rollout does not go on to say that it is out of
// it.
func TestSlotAfterTheNodeCameBack(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.nw("nw").RetryLimit = 0
	w.pass()
	w.in.Node.Ignored = true
	w.fail("nw", "pa", "Error", false)
	w.pass()
	w.wantStatus("nw", "", nodestate.SlotReleased, ReasonIgnored)
	w.in.Node.Ignored = false
	w.pass()
	w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotReleased, ReasonSlotErroring)
}

// While the kubelet is silent, a node at work says that this is why nothing starts.
func TestUnreachableNodeAtWorkSaysSo(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.in.Node.Unreachable = true
	w.pass()
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, nodestate.SlotUnreachable)
	w.in.Node.Unreachable = false
	w.pass()
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, "")
}

// Each wait of a slot comes with a sentence and a time.
func TestWaitsOfAttemptsHaveMessages(t *testing.T) {
	ref := nodestate.PackageRef{NodeWright: "nw", Package: "pa"}
	for name, tc := range map[string]struct {
		change func(*world)
		reason string
		parts  []string
	}{
		"back-off": {func(w *world) { w.fail("nw", "pa", "Error", false) }, nodestate.SlotBackOff, []string{"package pa", "next attempt at", "exit code 3"}},
		"pod does not start": {func(w *world) {
			w.in.Record.PodReports = map[nodestate.PackageRef]nodestate.PodReport{ref: {
				Job: w.running("nw", "pa").Name, Pod: "x", Reason: "ErrImagePull", WaitingSince: nodestate.FormatTime(w.in.Now), Name: "pa", NodeWright: "nw",
			}}
		}, nodestate.SlotPodNotStarting, []string{"package pa", "ErrImagePull"}},
		"suspended by a user": {func(w *world) { w.running("nw", "pa").Suspended = true }, nodestate.SlotJobSuspended, []string{"package pa", "spec.suspend"}},
		"pod without its Job": {func(w *world) {
			w.in.Jobs, w.in.Executors = nil, []nodestate.PackageRef{ref}
		}, nodestate.SlotExecutorNotEnded, []string{"package pa"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
			w.pass()
			tc.change(w)
			w.pass()
			w.wantWait(tc.reason, tc.parts...)
			w.nw("nw").Paused = true
			w.pass()
			if got := w.in.Record.Slots["nw"].Reason; got == nodestate.SlotBackOff || got == nodestate.SlotPodNotStarting {
				t.Errorf("paused, and the slot says %s", got)
			}
		})
	}
}

// Completion is told once for each time that it came about, and names what is on
// the node and what is not.
func TestCompletionIsToldOnce(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb")))
	w.finishAll()
	for range 2 {
		w.in.Node.Ignored = true
		w.pass()
		w.in.Node.Ignored = false
		w.pass()
		w.nw("nw").Selected = false
		w.pass()
		w.nw("nw").Selected = true
		w.pass()
	}
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
	if got := w.messages(ReasonNodeComplete); !slices.Equal(got, []string{"complete: pa 1.0.0, pb 1.0.0"}) {
		t.Fatalf("told %q", got)
	}
	pb := w.pkg("nw", "pb")
	pb.CanUninstall, pb.Uninstall = true, true
	w.pass()
	w.grantSlot("nw")
	w.finishAll()
	w.want("nw", "pb", "absent")
	if got := w.messages(ReasonNodeComplete); len(got) != 2 || got[1] != "complete: pa 1.0.0; uninstalled, or never installed: pb" {
		t.Errorf("told %q", got)
	}
}
