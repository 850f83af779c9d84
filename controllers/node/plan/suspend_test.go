package plan

import (
	"strings"
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// JB-11: a pause ends what runs, counts as nothing, and what ran goes on as the
// same attempt.
func TestPauseSuspendsWhatRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		stop   func(*NodeWright, bool)
		word   nodestate.StatusWord
		reason string
	}{
		"pause":   {func(nw *NodeWright, yes bool) { nw.Paused = yes }, nodestate.StatusPaused, ReasonPaused},
		"disable": {func(nw *NodeWright, yes bool) { nw.Disabled = yes }, nodestate.StatusDisabled, ReasonDisabled},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
			w.pass()
			tc.stop(w.nw("nw"), true)
			p := w.pass()
			if len(p.Hold) != 1 || !p.Hold[0].Suspend || !strings.Contains(p.Hold[0].Message, name) {
				t.Fatalf("holds %+v, want the Job suspended for %s", p.Hold, name)
			}
			w.wantStatus("nw", tc.word, nodestate.SlotWorking, tc.reason)
			if e := w.entry("nw", "pa"); e.Reason != tc.reason || e.State != nodestate.StateInProgress {
				t.Errorf("the entry is %s with reason %q, want in_progress with %q", e.State, e.Reason, tc.reason)
			}
			seq := w.seq
			if p := w.pass(); len(p.Hold) != 0 || w.seq != seq {
				t.Errorf("a second pass holds %+v and writes %d times", p.Hold, w.seq-seq)
			}
			tc.stop(w.nw("nw"), false)
			if p := w.pass(); len(p.Hold) != 1 || p.Hold[0].Suspend || len(p.Create)+len(p.Delete) != 0 {
				t.Fatalf("after it: %+v, want the Job to go on", p)
			}
			w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, "")
			if e := w.entry("nw", "pa"); e.Reason != "" || e.Attempt != 1 || e.Failures != 0 {
				t.Errorf("after it the entry is %+v", e)
			}
		})
	}
}

// From pause to disable nothing moves in between.
func TestPauseThenDisableKeepsJobsSuspended(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.nw("nw").Paused = true
	w.pass()
	w.nw("nw").Paused, w.nw("nw").Disabled = false, true
	if p := w.pass(); len(p.Hold) != 0 {
		t.Errorf("holds %+v, want nothing", p.Hold)
	}
	if e := w.entry("nw", "pa"); e.Reason != ReasonDisabled {
		t.Errorf("reason %q, want %q", e.Reason, ReasonDisabled)
	}
}

// JB-13: what was changed during a pause never runs as it was before.
func TestResumeLooksAtTheSpecFirst_JB13(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.nw("nw").Paused = true
	w.pass()
	w.pkg("nw", "pa").Image = "reg/repaired"
	if p := w.pass(); len(p.Hold)+len(p.Delete)+len(p.Create) != 0 {
		t.Errorf("paused, with another image: %+v", p)
	}
	w.nw("nw").Paused = false
	if p := w.pass(); len(p.Hold) != 0 || len(p.Delete) != 1 {
		t.Fatalf("resumed with another image: holds %+v, deletes %+v; want the old Job deleted and not resumed", p.Hold, p.Delete)
	}
	if p := w.pass(); len(p.Create) != 1 || p.Create[0].Image != "reg/repaired" {
		t.Errorf("then creates %+v", p.Create)
	}
}

// A spec that changed before the pause was seen does not keep its old Job running.
func TestPauseSuspendsJobsOfAnEarlierSpec(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.pkg("nw", "pa").Image, w.nw("nw").Paused = "reg/other", true
	if p := w.pass(); len(p.Hold) != 1 || !p.Hold[0].Suspend {
		t.Errorf("holds %+v, want the Job suspended", p.Hold)
	}
}

// A Job that a user suspended is neither explained by a pause nor resumed after it.
func TestResumeLeavesJobsOfUsersAlone(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.running("nw", "pa").Suspended = true
	w.nw("nw").Paused = true
	if p := w.pass(); len(p.Hold) != 0 {
		t.Errorf("holds %+v", p.Hold)
	}
	w.nw("nw").Paused = false
	if p := w.pass(); len(p.Hold) != 0 {
		t.Errorf("holds %+v", p.Hold)
	}
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, nodestate.SlotJobSuspended)
}

// A NodeWright that was disabled and comes back waits, with a reason, for the one
// that took its place on the node.
func TestSuspendedJobWaitsForItsTurn(t *testing.T) {
	w := newWorld(t, makeNodeWright("zz", makePackage("pz")))
	w.pass()
	w.want("zz", "pz", "apply/in_progress")
	w.nw("zz").Disabled = true
	w.pass()
	w.in.NodeWrights = append(w.in.NodeWrights, makeNodeWright("aa", makePackage("pa")))
	w.grantSlot("aa")
	w.pass()
	w.want("aa", "pa", "apply/in_progress")
	w.nw("zz").Disabled = false
	if p := w.pass(); len(p.Hold) != 0 {
		t.Errorf("holds %+v while aa is at work", p.Hold)
	}
	w.wantStatus("zz", nodestate.StatusInProgress, nodestate.SlotWorking, nodestate.SlotJobHeld)
	if e := w.entry("zz", "pz"); e.Reason != ReasonBlocked || !strings.Contains(e.Message, "aa") {
		t.Errorf("the entry says %q: %q", e.Reason, e.Message)
	}
	for w.at("aa", "pa") != "config/complete" {
		w.succeed("aa", "pa")
		w.pass()
	}
	if w.pass(); w.running("zz", "pz").Suspended {
		t.Error("the Job does not go on when its turn has come")
	}
	if w.pass(); w.entry("zz", "pz").Reason != "" {
		t.Errorf("the entry still says %q", w.entry("zz", "pz").Reason)
	}
	w.wantStatus("zz", nodestate.StatusInProgress, nodestate.SlotWorking, "")
}

// A node that leaves the rollout during a pause is not left with a Job that
// nothing would ever let go on.
func TestSuspendedJobEndsWithTheSelection(t *testing.T) {
	for name, leave := range map[string]func(*world){
		"not selected": func(w *world) { w.nw("nw").Selected = false },
		"ignored":      func(w *world) { w.in.Node.Ignored = true },
		"deleted":      func(w *world) { w.nw("nw").Deleting = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
			w.pass()
			w.nw("nw").Paused = true
			w.pass()
			leave(w)
			if p := w.pass(); len(p.Delete) != 1 {
				t.Errorf("deletes %+v, want the suspended Job", p.Delete)
			}
		})
	}
}
