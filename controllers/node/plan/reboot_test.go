package plan

import (
	"testing"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

func rebooted(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "reboot")))
	w.toInterrupt("nw", "pa")
	return w
}

// Only the boot ID decides a reboot, never the end of its Job.
func TestOnlyTheBootDecidesAReboot(t *testing.T) {
	w := rebooted(t)
	if c := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}]; c.BootID != "boot-1" {
		t.Fatalf("the baseline is %q", c.BootID)
	}
	w.succeed("nw", "pa")
	w.pass()
	w.want("nw", "pa", "interrupt/in_progress")
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, "")
	w.reboot()
	w.in.Node.Ready = false
	w.pass()
	w.want("nw", "pa", "interrupt/in_progress")
	w.in.Node.Ready = true
	w.pass()
	w.want("nw", "pa", "post-interrupt/in_progress")
	w.finishAll()
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}

// The Job is still seen to run when the node is up again.
func TestRebootEndsItsOwnJob(t *testing.T) {
	w := rebooted(t)
	w.reboot()
	w.pass()
	w.want("nw", "pa", "interrupt/complete")
	w.pass()
	w.want("nw", "pa", "post-interrupt/in_progress")
}

// A Job that fails before the host goes down is tried again under the same
// baseline; one that somebody deletes is created again.
func TestRebootJobFails(t *testing.T) {
	w := rebooted(t)
	w.fail("nw", "pa", "BackoffLimitExceeded", false)
	w.pass()
	w.in.Now = w.in.Now.Add(time.Minute)
	p := w.pass()
	if len(p.Create) != 1 || p.Create[0].Identity.Attempt != 2 || p.Create[0].BootID != "boot-1" {
		t.Fatalf("created %+v, want another attempt under the baseline", p.Create)
	}
	w.removeJob(w.running("nw", "pa").UID)
	w.in.Now = w.in.Now.Add(50 * time.Minute)
	if p := w.pass(); len(p.Create) != 1 {
		t.Fatalf("did not create the Job again: %+v", p)
	}
	w.in.Now = w.in.Now.Add(50 * time.Minute)
	w.pass()
	w.want("nw", "pa", "interrupt/in_progress")
}

func TestRebootTimeout(t *testing.T) {
	w := rebooted(t)
	w.succeed("nw", "pa")
	w.in.Now = w.in.Now.Add(time.Hour)
	w.pass()
	w.want("nw", "pa", "interrupt/erroring")
	w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotReleased, ReasonSlotErroring)
	if e := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}]; e.Reason != ReasonRebootTimeout {
		t.Fatalf("entry %+v", e)
	}
	w.nw("nw").RetryLimit = 10
	w.pass()
	if w.at("nw", "pa") != "interrupt/erroring" || len(w.in.Record.Cordons) != 1 {
		t.Fatalf("%s, cordons %v: want it erroring and cordoned until the node is up", w.at("nw", "pa"), w.in.Record.Cordons)
	}
	// It heals by itself.
	w.reboot()
	w.pass()
	w.want("nw", "pa", "interrupt/complete")
	w.wantStatus("nw", nodestate.StatusWaiting, nodestate.SlotReleased, nodestate.SlotRetryWanted)
	w.grantSlot("nw")
	w.finishAll()
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}

// ST-27: a reboot that was fired goes on under a pause, and never comes again.
func TestRebootUnderPause_ST27(t *testing.T) {
	w := rebooted(t)
	w.nw("nw").Paused = true
	if p := w.pass(); len(p.Hold)+len(p.Delete) != 0 {
		t.Fatalf("a reboot that was fired is taken back: %+v", p)
	}
	w.succeed("nw", "pa")
	w.reboot()
	w.pass()
	w.want("nw", "pa", "interrupt/complete")
	w.in.Jobs = nil
	w.in.Now = w.in.Now.Add(72 * time.Hour)
	w.nw("nw").Paused = false
	w.finishAll()
	reboots := 0
	for _, s := range w.started {
		if s == "nw/pa interrupt run 9 attempt 1" {
			reboots++
		}
	}
	if reboots != 1 || w.at("nw", "pa") != "post-interrupt/complete" {
		t.Fatalf("%d reboots, %s: %v", reboots, w.at("nw", "pa"), w.started)
	}
}

// A pause that comes between the record of a reboot and its Job does not use up
// the time that the reboot has.
func TestPauseBeforeTheRebootJob(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "reboot")))
	w.toInterrupt("nw", "pa")
	w.in.Jobs = nil
	w.nw("nw").Paused = true
	w.in.Now = w.in.Now.Add(5 * time.Hour)
	w.pass()
	w.want("nw", "pa", "interrupt/in_progress")
	w.nw("nw").Paused = false
	w.pass()
	w.running("nw", "pa")
	w.in.Now = w.in.Now.Add(50 * time.Minute)
	w.pass()
	w.want("nw", "pa", "interrupt/in_progress")
}

func TestNoBootID(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "reboot")))
	w.in.Node.BootID = ""
	for range 8 {
		w.pass()
		for i := range w.in.Jobs {
			w.in.Jobs[i].State = JobSucceeded
		}
	}
	w.want("nw", "pa", "config/complete")
	w.wantWait(nodestate.SlotNoBootID)
}

// ST-07: with reapplyOnReboot a reboot by others starts packages anew, once, and a
// baseline moves only together with that. A reboot by an interrupt moves it for all.
func TestReapplyOnReboot_ST07(t *testing.T) {
	w := newWorld(t, makeNodeWright("a", makePackage("pa")), makeNodeWright("b", makeInterrupting("pb", "reboot")))
	w.in.Config.ReapplyOnReboot = true
	w.finishAll()
	w.grantSlot("b")
	w.finishAll()
	if len(w.started) != 6 {
		t.Fatalf("the reboot by an interrupt started packages anew: %v", w.started)
	}
	w.started = nil
	w.reboot()
	w.in.Node.Ready = false
	w.pass()
	w.want("a", "pa", "config/complete")
	w.in.Node.Ready = true
	w.nw("a").Paused = true
	w.pass()
	w.want("a", "pa", "config/complete")
	w.nw("a").Paused = false
	w.pass()
	w.wantStatus("a", nodestate.StatusWaiting, nodestate.SlotReleased, nodestate.SlotRetryWanted)
	w.grantSlot("a")
	w.finishAll()
	if len(w.started) != 2 || w.at("a", "pa") != "config/complete" {
		t.Fatalf("after a reboot by others: %v", w.started)
	}
	w.finishAll()
	if len(w.started) != 2 {
		t.Fatalf("started more than once for one reboot: %v", w.started)
	}
}

// A reboot whose pod cannot start goes on as any attempt does: the boot decides
// once it has started, its failure counts if it never does.
func TestRebootWhosePodCannotStart(t *testing.T) {
	ref := nodestate.PackageRef{NodeWright: "nw", Package: "pa"}
	stuck := func(t *testing.T) *world {
		w := rebooted(t)
		w.in.Record.PodReports = map[nodestate.PackageRef]nodestate.PodReport{ref: {
			Job: w.running("nw", "pa").Name, Pod: "x", Reason: "ErrImagePull", WaitingSince: nodestate.FormatTime(w.in.Now), Name: "pa", NodeWright: "nw",
		}}
		w.in.Now = w.in.Now.Add(10 * time.Minute)
		w.pass()
		w.want("nw", "pa", "interrupt/erroring")
		return w
	}
	t.Run("never", func(t *testing.T) {
		w := stuck(t)
		w.fail("nw", "pa", "DeadlineExceeded", false)
		w.pass()
		if e := w.entry("nw", "pa"); e.Reason != ReasonBackOff || e.Failures != 1 {
			t.Fatalf("the entry is %+v, want one failure and another attempt", e)
		}
	})
	t.Run("never, and the last attempt", func(t *testing.T) {
		w := stuck(t)
		w.nw("nw").RetryLimit = 0
		w.fail("nw", "pa", "DeadlineExceeded", false)
		w.pass()
		w.want("nw", "pa", "interrupt/erroring")
		w.pass()
		w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotReleased, ReasonSlotErroring)
	})
	t.Run("it started after all", func(t *testing.T) {
		w := stuck(t)
		w.in.Record.PodReports = nil
		w.succeed("nw", "pa")
		w.pass()
		w.want("nw", "pa", "interrupt/in_progress")
		w.reboot()
		w.pass()
		w.want("nw", "pa", "post-interrupt/in_progress")
	})
	t.Run("it rebooted the node before it was seen to start", func(t *testing.T) {
		w := stuck(t)
		w.reboot()
		w.pass()
		w.want("nw", "pa", "interrupt/complete")
	})
}
