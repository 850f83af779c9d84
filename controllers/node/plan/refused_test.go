package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// A node whose Job the API server does not take says so with its slot, tries again
// in time and not before, and says nothing any more once the Job is there.
func TestRefusedJobIsShown(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	create := w.pass().Create[0]
	w.in.Jobs = nil
	retryAt := w.in.Now.Add(8 * time.Second)
	w.in.Refused = map[nodestate.PackageRef]Refusal{create.Identity.Ref(): {Job: create.Identity, Message: "exceeded quota", RetryAt: retryAt}}
	p := w.pass()
	if len(p.Create) != 0 || !p.NextCheck.Equal(retryAt) {
		t.Fatalf("created %+v, next check %s, want none before %s", p.Create, p.NextCheck, retryAt)
	}
	w.wantWait(nodestate.SlotJobRefused, "exceeded quota")
	since := w.in.Record.Slots["nw"].Since
	w.in.Now = retryAt
	if p := w.pass(); len(p.Create) != 1 || !p.Create[0].Again {
		t.Fatalf("created %+v, want the Job again", p.Create)
	}
	if slot := w.in.Record.Slots["nw"]; slot.Reason != nodestate.SlotJobRefused || slot.Since != since {
		t.Fatalf("slot %+v: the wait began anew", slot)
	}
	w.pass()
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, "")
}

// The refusal of an earlier attempt holds up no other one.
func TestRefusalIsOfOneJob(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	other := w.pass().Create[0].Identity
	w.in.Jobs = nil
	other.Attempt = 7
	w.in.Refused = map[nodestate.PackageRef]Refusal{other.Ref(): {Job: other, Message: "no", RetryAt: w.in.Now.Add(time.Hour)}}
	if p := w.pass(); len(p.Create) != 1 {
		t.Fatalf("created %+v, want one", p.Create)
	}
}

// A failure that is seen only when its back-off is over is told like any other.
func TestLateFailureIsTold(t *testing.T) {
	for reason, harmless := range map[string]bool{ReasonAttemptFailed: false, ReasonAttemptLost: true} {
		w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
		w.pass()
		w.fail("nw", "pa", "Error", harmless)
		w.in.Now = w.in.Now.Add(time.Hour)
		w.pass()
		told := 0
		for _, e := range w.events {
			if e.Reason == reason && e.Warning && strings.Contains(e.Message, "next attempt now: attempt 1 of stage apply ended with Error") {
				told++
			}
		}
		if e := w.entry("nw", "pa"); told != 1 || e.Attempt != 2 {
			t.Errorf("%s: told %d times (%+v), attempt %d", reason, told, w.events, e.Attempt)
		}
	}
}

// JB-01: an attempt whose time is over since its pod never started says why, also
// when the pod is gone.
func TestDeadlineOfAPodThatNeverStarted_JB01(t *testing.T) {
	for limit, state := range map[int32]nodestate.State{0: nodestate.StateErroring, 1: nodestate.StateInProgress} {
		w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
		w.nw("nw").RetryLimit = limit
		w.pass()
		w.stall("nw", "pa")
		w.pass()
		w.want("nw", "pa", "apply/erroring")
		w.running("nw", "pa").Ending = true
		w.in.Record.PodReports = nil
		w.pass()
		w.want("nw", "pa", "apply/erroring")
		w.fail("nw", "pa", "DeadlineExceeded", false)
		w.pass()
		e := w.entry("nw", "pa")
		if e.State != state || !strings.Contains(e.Message, "DeadlineExceeded, its pod could not start (ImagePullBackOff") {
			t.Errorf("limit %d: entry is %s, %q", limit, e.State, e.Message)
		}
	}
}

// A cordon that ends since the node left the rollout is told like any other.
func TestCordonOfANodeThatLeftIsTold(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "service")))
	w.pods, w.slow = []Pod{{Name: "apps/web", UID: "u1"}}, true
	w.pass()
	w.pass()
	w.nw("nw").Selected = false
	w.pass()
	if len(w.in.Record.Cordons) != 0 || !w.told(ReasonUncordoned) {
		t.Errorf("cordons %v, events %+v", w.in.Record.Cordons, w.events)
	}
}

// A Job that gets no pod is told once, and so is the pod that it gets at last and
// that cannot start; how the reason of that one changes is not.
func TestPodThatCameAndCannotStartIsTold(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.stall("nw", "pa")
	ref := w.running("nw", "pa").Identity.Ref()
	pod := w.in.Record.PodReports[ref].Pod
	for _, tc := range []struct {
		pod, reason string
		told        int
	}{
		{"", nodestate.PodFailedCreate, 1},
		{"", nodestate.PodFailedCreate, 1},
		{pod, "ErrImagePull", 2},
		{pod, "ImagePullBackOff", 2},
	} {
		report := w.in.Record.PodReports[ref]
		report.Pod, report.Reason = tc.pod, tc.reason
		w.in.Record.PodReports[ref] = report
		w.pass()
		told := 0
		for _, e := range w.events {
			if e.Reason == ReasonErroring && e.Package == "pa" {
				told++
			}
		}
		if e := w.entry("nw", "pa"); told != tc.told || e.Reason != tc.reason {
			t.Errorf("%s: told %d times, want %d; the entry has %s", tc.reason, told, tc.told, e.Reason)
		}
	}
}
