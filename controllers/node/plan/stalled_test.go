package plan

import (
	"testing"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// stall lets the pod of the running Job of a package not start for longer than the
// grace.
func (w *world) stall(nw, pkg string) {
	w.t.Helper()
	job := w.running(nw, pkg)
	w.in.Record.PodReports = map[nodestate.PackageRef]nodestate.PodReport{job.Identity.Ref(): {
		Job: job.Name, Name: pkg, NodeWright: nw, Pod: job.Name + "-x", Reason: "ImagePullBackOff",
		WaitingSince: nodestate.FormatTime(w.in.Now),
	}}
	w.in.Now = w.in.Now.Add(3 * time.Minute)
}

// JB-31: an image that cannot be pulled holds up no interrupt; its Job sleeps until
// the node was interrupted.
func TestInterruptDespiteAnImageThatCannotBePulled_JB31(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makeInterrupting("pb", "service")))
	for w.at("nw", "pb") != "config/complete" {
		w.pass()
		for i := range w.in.Jobs {
			if w.in.Jobs[i].Identity.Package == "pb" {
				w.in.Jobs[i].State = JobSucceeded
			}
		}
	}
	w.stall("nw", "pa")
	w.pass()
	w.want("nw", "pa", "apply/erroring")
	if p := w.pass(); len(p.Create) != 0 || !w.running("nw", "pa").Suspended {
		t.Fatalf("the Job that cannot start does not sleep: %+v", p)
	}
	w.want("nw", "pb", "config/complete")
	w.wantWait(nodestate.SlotInterruptWaits)
	w.running("nw", "pa").Idle = true
	w.in.Record.PodReports = nil
	w.pass()
	w.want("nw", "pb", "interrupt/in_progress")
	if p := w.pass(); len(p.Hold) != 0 {
		t.Fatalf("a Job goes on while the node is interrupted: %+v", p.Hold)
	}
	w.succeed("nw", "pb")
	w.pass()
	if job := w.running("nw", "pa"); job.Suspended {
		t.Fatal("the Job does not go on after the interrupt")
	}
}

// JB-31: the same holds for an interrupt that failed for good and that a raised retry
// limit allows another attempt of: the Job sleeps, and does not go on in the next
// pass.
func TestAnotherAttemptOfAnInterruptDespiteAnImageThatCannotBePulled_JB31(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makeInterrupting("pb", "service")))
	w.toInterrupt("nw", "pb")
	for range 4 {
		w.fail("nw", "pb", "BackoffLimitExceeded", false)
		w.pass()
		w.in.Now = w.in.Now.Add(time.Hour)
		w.pass()
	}
	w.want("nw", "pb", "interrupt/erroring")
	w.pkg("nw", "pa").Version, w.nw("nw").Revision = "2.0.0", "r2"
	w.grantSlot("nw")
	w.pass()
	w.stall("nw", "pa")
	w.pass()
	w.nw("nw").RetryLimit = 5
	if p := w.pass(); len(p.Hold) != 1 || !w.running("nw", "pa").Suspended {
		t.Fatalf("holds %+v, want the Job asleep that cannot start", p.Hold)
	}
	for range 2 {
		if p := w.pass(); len(p.Hold) != 0 {
			t.Fatalf("the Job does not stay asleep: %+v", p.Hold)
		}
	}
	w.running("nw", "pa").Idle = true
	w.in.Record.PodReports = nil
	w.pass()
	w.want("nw", "pb", "interrupt/in_progress")
}

// A Job of an earlier spec, of a NodeWright that waits for another one, ends: the
// other one may wait for that Job.
func TestStaleJobsEndBehindOthers(t *testing.T) {
	w := newWorld(t, makeNodeWright("a", makePackage("pa")), makeNodeWright("b", makePackage("pb")))
	w.nw("a").Disabled = true
	w.pass()
	w.want("b", "pb", "apply/in_progress")
	w.stall("b", "pb")
	w.pass()
	w.nw("a").Disabled = false
	w.pkg("b", "pb").Version, w.nw("b").Revision = "2.0.0", "r2"
	if p := w.pass(); len(p.Delete) != 1 || p.Delete[0].NodeWright != "b" {
		t.Fatalf("deleted %+v, want the Job of the earlier version", p.Delete)
	}
}

// JB-23: a service that cannot be restarted is given up like any stage, and a
// change of the package tries again under the same cordon.
func TestInterruptIsGivenUp_JB23(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "service")))
	w.toInterrupt("nw", "pa")
	for range 4 {
		w.fail("nw", "pa", "BackoffLimitExceeded", false)
		w.pass()
		w.in.Now = w.in.Now.Add(time.Hour)
		w.pass()
	}
	w.want("nw", "pa", "interrupt/erroring")
	w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotReleased, ReasonSlotErroring)
	if len(w.in.Record.Cordons) != 1 {
		t.Fatal("the cordon did not stay")
	}
	w.pkg("nw", "pa").SpecHash = "s2"
	w.grantSlot("nw")
	w.pass()
	w.want("nw", "pa", "interrupt/in_progress")
	w.finishAll()
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}

// A drain that is given up leaves alone what is at work beside it.
func TestDrainTimeoutBesideWork(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makeInterrupting("pb", "service")))
	w.nw("nw").DrainTimeout = time.Minute
	w.pods, w.slow = []Pod{{Name: "apps/web", UID: "u1"}}, true
	w.pass()
	w.pass()
	w.in.Now = w.in.Now.Add(2 * time.Minute)
	w.pass()
	w.want("nw", "pb", "apply/erroring")
	w.want("nw", "pa", "apply/in_progress")
	w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotWorking, "")
}

// Two attempts that fall due in one pass do not run beside each other if one is an
// interrupt.
func TestNoJobBesideAnInterruptOfOnePass(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "service"), makePackage("pb")))
	w.toInterrupt("nw", "pa")
	w.fail("nw", "pa", "BackoffLimitExceeded", false)
	w.pkg("nw", "pb").Version = "2.0.0"
	w.pass()
	w.fail("nw", "pb", "BackoffLimitExceeded", false)
	w.pass()
	w.in.Now = w.in.Now.Add(time.Hour)
	if p := w.pass(); len(p.Create) != 1 {
		t.Fatalf("created %+v, want one Job", p.Create)
	}
}

// sequencing all: a later NodeWright waits until the earlier one is complete on all
// nodes.
func TestSequencingAll(t *testing.T) {
	w := newWorld(t, makeNodeWright("a", makePackage("pa")), makeNodeWright("b", makePackage("pb")))
	w.nw("a").AllFirst = true
	w.finishAll()
	w.want("a", "pa", "config/complete")
	w.want("b", "pb", "absent")
	w.nw("a").Everywhere = true
	w.grantSlot("b")
	w.finishAll()
	w.want("b", "pb", "config/complete")
}

// The spec may come back to the revision of a slot that was given back for another
// reason: the slot then says that the node is complete for it.
func TestSlotSaysForWhatItIsComplete(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.finishAll()
	pkgs := w.nw("nw").Packages
	w.nw("nw").Packages, w.nw("nw").Revision = nil, "r2"
	w.pass()
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, nodestate.SlotSuperseded)
	w.nw("nw").Packages, w.nw("nw").Revision = pkgs, "r1"
	w.pass()
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, nodestate.SlotComplete)
}
