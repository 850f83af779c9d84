package plan

import (
	"testing"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

func (w *world) entry(nw, pkg string) nodestate.PackageStatus {
	w.t.Helper()
	e, ok := w.in.Record.Packages[nodestate.PackageRef{NodeWright: nw, Package: pkg}]
	if !ok {
		w.t.Fatalf("no entry of %s/%s", nw, pkg)
	}
	return e
}

func (w *world) rest() Plan {
	w.t.Helper()
	w.pass()
	for range 10 {
		before := w.seq
		if p := w.pass(); w.seq == before {
			return p
		}
	}
	w.t.Fatal("the plan changes the record again and again")
	return Plan{}
}

func (w *world) park(nw, pkg string) {
	w.t.Helper()
	w.fail(nw, pkg, "Error", false)
	w.pass()
	w.want(nw, pkg, "apply/erroring")
}

func TestRaisedRetryLimitNeedsASlot(t *testing.T) {
	nw := makeNodeWright("nw", makePackage("pa"))
	nw.RetryLimit = 0
	for _, kept := range []bool{true, false} {
		w := newWorld(t, nw)
		w.pass()
		w.park("nw", "pa")
		w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotReleased, ReasonSlotErroring)
		if !kept {
			// The TTL of failed Jobs is over.
			w.in.Jobs, w.in.Record.JobReports = nil, nil
		}
		w.nw("nw").RetryLimit = 1
		if p := w.pass(); len(p.Create) != 0 {
			t.Fatalf("started without a slot: %+v", p.Create)
		}
		w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotReleased, nodestate.SlotRetryWanted)
		w.grantSlot("nw")
		p := w.pass()
		if len(p.Create) != 1 || p.Create[0].Identity.Attempt != 2 || p.Create[0].Identity.Run != 8 {
			t.Fatalf("created %+v, want the second attempt", p.Create)
		}
		w.park("nw", "pa")
		if e := w.entry("nw", "pa"); e.Failures != 2 {
			t.Fatalf("entry %+v", e)
		}
	}
}

func TestLoweredRetryLimitDoesNotLoseARunningAttempt(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	for range 2 {
		w.fail("nw", "pa", "Error", false)
		w.in.Now = w.pass().NextCheck
		w.pass()
	}
	job := w.running("nw", "pa")
	ref := nodestate.PackageRef{NodeWright: "nw", Package: "pa"}
	w.in.Record.PodReports = map[nodestate.PackageRef]nodestate.PodReport{ref: {
		Job: job.Name, Pod: job.Name + "-x", Reason: "ImagePullBackOff", WaitingSince: nodestate.FormatTime(w.in.Now),
		Name: "pa", NodeWright: "nw",
	}}
	w.in.Now = w.in.Now.Add(2 * time.Minute)
	w.pass()
	w.want("nw", "pa", "apply/erroring")
	w.nw("nw").RetryLimit = 0
	w.pass()
	w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotWorking, "")
	w.in.Record.PodReports = nil
	w.finishAll()
	w.want("nw", "pa", "config/complete")
}

// The end of a Job by a clock that is ahead must not move the next attempt with
// each pass: that would be a write each.
func TestBackoffWithAClockAhead(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	now := w.in.Now
	w.in.Now = now.Add(time.Hour)
	w.fail("nw", "pa", "Error", false)
	w.in.Now = now
	due := w.pass().NextCheck
	if want := now.Add(10 * time.Second); !due.Equal(want) {
		t.Fatalf("next attempt at %s, want %s", due, want)
	}
	seq, events := w.seq, len(w.events)
	for range 5 {
		w.in.Now = w.in.Now.Add(time.Second)
		if p := w.pass(); !p.NextCheck.Equal(due) {
			t.Fatalf("next attempt moved from %s to %s", due, p.NextCheck)
		}
	}
	if w.seq != seq || len(w.events) != events {
		t.Fatalf("%d writes and %d events while nothing happened", w.seq-seq, len(w.events)-events)
	}
	w.in.Now = due
	if p := w.pass(); len(p.Create) != 1 {
		t.Fatalf("no attempt at %s: %+v", due, p)
	}
}

// Long messages are cut where they are written; that is no news.
func TestBackoffIsToldOnce(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.fail("nw", "pa", "Error", false)
	w.pass()
	ref := nodestate.PackageRef{NodeWright: "nw", Package: "pa"}
	e := w.in.Record.Packages[ref]
	e.Message = nodestate.CapString(e.Message, 20)
	w.in.Record.Packages[ref] = e
	if p := w.pass(); len(p.Events) != 0 {
		t.Fatalf("told again: %v", p.Events)
	}
}

// A failure that was reported counts, also if the Job and the report go before
// the next attempt.
func TestFailureCountsWhateverBecomesOfTheJob(t *testing.T) {
	nw := makeNodeWright("nw", makePackage("pa"))
	nw.RetryLimit = 1
	for _, when := range []string{"before it was counted", "during back-off"} {
		t.Run(when, func(t *testing.T) {
			w := newWorld(t, nw)
			w.pass()
			w.fail("nw", "pa", "Error", false)
			if when == "during back-off" {
				w.pass()
				w.in.Record.JobReports = nil
			}
			w.in.Jobs = nil
			p := w.pass()
			if len(p.Create) != 0 {
				t.Fatalf("the failed attempt is repeated: %+v", p.Create)
			}
			w.in.Now = p.NextCheck
			p = w.pass()
			if len(p.Create) != 1 || p.Create[0].Identity.Attempt != 2 {
				t.Fatalf("created %+v, want the second attempt", p.Create)
			}
			w.park("nw", "pa")
		})
	}
}

// Before Kubernetes 1.31 a Job whose time is over has failed while its pod still
// ends: the next attempt waits for that pod.
func TestNextAttemptWaitsForThePodOfTheOneBefore(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.fail("nw", "pa", "DeadlineExceeded", false)
	w.pass()
	w.in.Now = w.in.Now.Add(time.Hour)
	w.in.Executors = []nodestate.PackageRef{{NodeWright: "nw", Package: "pa"}}
	if p := w.pass(); len(p.Create) != 0 {
		t.Fatalf("creates %+v beside a pod that has not ended", p.Create)
	}
	w.in.Executors = nil
	if p := w.pass(); len(p.Create) != 1 || p.Create[0].Identity.Attempt != 2 {
		t.Fatalf("creates %+v, want the second attempt", p.Create)
	}
}
