package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

func drained(t *testing.T, pods ...Pod) *world {
	t.Helper()
	w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "service")))
	w.pods = pods
	return w
}

func (w *world) wantWait(reason string, parts ...string) {
	w.t.Helper()
	s := w.in.Record.Slots["nw"]
	if s.State != nodestate.SlotWorking || s.Reason != reason || s.Since == "" {
		w.t.Fatalf("slot is %+v, want one that works and waits for %s", s, reason)
	}
	for _, part := range parts {
		if !strings.Contains(s.Message, part) {
			w.t.Fatalf("message is %q, want %q in it", s.Message, part)
		}
	}
}

// DR-01: no eviction before the cordon was written and read again.
func TestCordonIsSeenBeforeTheFirstEviction_DR01(t *testing.T) {
	w := drained(t, Pod{Name: "apps/web", UID: "u1"})
	if p := w.pass(); len(p.Evict) != 0 {
		t.Fatalf("evicted in the pass that cordons: %+v", p.Evict)
	}
	// The write is recorded, and the cordon is not seen: somebody else ended it.
	w.in.Record.Cordons = map[string]time.Time{"nw": w.in.Now}
	w.in.NextSeq = w.seq + 1
	w.in.Node.Unschedulable, w.in.Pods = false, nil
	if p := Compute(w.in); len(p.Evict)+len(p.Create)+len(p.Look) != 0 || p.NextCheck.IsZero() {
		t.Fatalf("went on without a cordon: %+v", p)
	}
	if p := w.pass(); len(p.Evict) != 1 {
		t.Fatalf("did not evict: %+v", p)
	}
}

// DR-02, DR-06: pods that end are waited for, and not evicted again.
func TestTerminatingPodsAreWaitedFor_DR02_DR06(t *testing.T) {
	w := drained(t, Pod{Name: "apps/web", UID: "u1"}, Pod{Name: "apps/end", UID: "u2", Terminating: true})
	w.slow = true
	w.pass()
	if p := w.pass(); len(p.Evict) != 1 || p.Evict[0].UID != "u1" {
		t.Fatalf("evicted %+v, want the pod that does not end yet", p.Evict)
	}
	p := w.pass()
	if len(p.Evict) != 0 || len(p.Create) != 0 || p.NextCheck.IsZero() {
		t.Fatalf("evicted again, or did not wait: %+v", p)
	}
	w.wantWait(nodestate.SlotDraining, "apps/web")
	w.pods = nil
	if p := w.pass(); len(p.Create) != 1 {
		t.Fatalf("did not start on an empty node: %+v", p)
	}
}

// Pods that end are looked for soon, and less often the longer they take.
func TestDrainIsLookedAtSoonAndThenLessOften(t *testing.T) {
	w := drained(t, Pod{Name: "apps/web", UID: "u1"})
	w.slow = true
	w.pass()
	w.pods[0].Terminating = true
	began := w.in.Now
	for _, after := range []struct{ began, want time.Duration }{{0, time.Second}, {time.Second, time.Second},
		{2 * time.Second, 2 * time.Second}, {4 * time.Second, 4 * time.Second}, {8 * time.Second, 5 * time.Second}, {time.Hour, 5 * time.Second}} {
		w.in.Now = began.Add(after.began)
		if got := w.pass().NextCheck.Sub(w.in.Now); got != after.want {
			t.Errorf("%s after the drain began, it is looked at again after %s, want %s", after.began, got, after.want)
		}
	}
}

// ST-26: pods that cannot be evicted are an expected wait, named in the record.
func TestBlockedDrain_ST26(t *testing.T) {
	w := drained(t, Pod{Name: "apps/web", UID: "u1"})
	w.slow = true
	w.pass()
	w.pass()
	w.pods = []Pod{{Name: "apps/web", UID: "u1", Blocked: true, Refused: "pod apps/web waits for PodDisruptionBudget web", RetryAt: w.in.Now.Add(10 * time.Second)}}
	if p := w.pass(); len(p.Evict) != 0 || p.NextCheck.Sub(w.in.Now) > 30*time.Second {
		t.Fatalf("evicted before it is due, or looks again too late: %+v", p)
	}
	w.wantWait(nodestate.SlotDrainBlocked, "PodDisruptionBudget web")
	since := w.in.Record.Slots["nw"].Since
	w.in.Now = w.in.Now.Add(11 * time.Second)
	if p := w.pass(); len(p.Evict) != 1 {
		t.Fatalf("did not try again: %+v", p)
	}
	if got := w.in.Record.Slots["nw"].Since; got != since {
		t.Fatalf("since moved from %s to %s", since, got)
	}
	w.pods = []Pod{{Name: "apps/local", UID: "u2", Holds: "pod apps/local holds up the drain: it has an emptyDir volume"}}
	if p := w.pass(); len(p.Evict) != 0 {
		t.Fatalf("evicted what the settings keep: %+v", p.Evict)
	}
	w.wantWait(nodestate.SlotDrainBlocked, "emptyDir")
}

// DR-25: pods that must not be interrupted are waited for before any eviction, and
// drain.timeout does not run meanwhile.
func TestNonInterruptPodsLeaveFirst_DR25(t *testing.T) {
	w := drained(t, Pod{Name: "jobs/train", UID: "u1", NonInterrupt: true, Stays: true}, Pod{Name: "apps/web", UID: "u2"})
	w.nw("nw").DrainTimeout = time.Minute
	w.pass()
	for range 3 {
		w.in.Now = w.in.Now.Add(time.Hour)
		if p := w.pass(); len(p.Evict)+len(p.Set.DrainStarts) != 0 {
			t.Fatalf("evicted beside a pod that must not be interrupted: %+v", p)
		}
		w.wantWait(nodestate.SlotNonInterruptPods, "jobs/train")
	}
	w.pods = w.pods[1:]
	if p := w.pass(); len(p.Evict) != 1 {
		t.Fatalf("did not evict: %+v", p)
	}
}

// WH-03: the node of the last ready replica of the operator waits.
func TestLastReplicaIsNotDrained_WH03(t *testing.T) {
	w := drained(t, Pod{Name: "nodewright-system/manager", UID: "u1"})
	w.in.LastReplica = true
	w.pass()
	if p := w.pass(); len(p.Evict) != 0 || p.NextCheck.IsZero() {
		t.Fatalf("evicted the operator: %+v", p)
	}
	w.wantWait(nodestate.SlotLastReplica)
	w.in.LastReplica = false
	if p := w.pass(); len(p.Evict) != 1 {
		t.Fatalf("did not go on: %+v", p)
	}
}

// DR-13, DR-27: a drain that takes too long leaves the package erroring and the
// node cordoned, and tells so before where it can.
func TestDrainTimeout_DR13_DR27(t *testing.T) {
	w := drained(t, Pod{Name: "apps/web", UID: "u1", GraceSeconds: 1800})
	w.slow = true
	w.nw("nw").DrainTimeout = 30 * time.Minute
	w.pass()
	w.pass()
	if !w.told(ReasonDrainTooShort) {
		t.Error("nobody tells that the pod takes as long as the drain may")
	}
	w.in.Now = w.in.Now.Add(30 * time.Minute)
	w.pass()
	w.want("nw", "pa", "apply/erroring")
	w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotReleased, ReasonSlotErroring)
	e := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}]
	if e.Reason != ReasonDrainTimeout || !strings.Contains(e.Message, "apps/web") || e.Failures != 0 {
		t.Fatalf("entry %+v", e)
	}
	w.in.Now = w.in.Now.Add(time.Hour)
	w.grantSlot("nw")
	w.pass()
	if len(w.in.Record.Cordons) != 1 || w.at("nw", "pa") != "apply/erroring" {
		t.Fatal("the cordon does not stay, or the package started again by itself")
	}
	// A rerun begins a drain of its own.
	w.in.Record.Requests = []nodestate.RequestAt{{Request: nodestate.Request{ID: "r1", Action: nodestate.ActionRerun, NodeWright: "nw"}, Key: "k", Value: "v"}}
	w.pass()
	w.in.Record.Requests = nil
	w.grantSlot("nw")
	w.pass()
	w.pass()
	if start := w.in.Record.DrainStarts["nw"]; !start.Equal(w.in.Now) {
		t.Fatalf("the drain of the rerun began at %s, want %s", start, w.in.Now)
	}
	w.pods = nil
	w.finishAll()
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}

// A drain that is cancelled before a stage has run ends our cordon, and nothing is
// interrupted; once one has run the cordon stays.
func TestCancelledDrain(t *testing.T) {
	for name, cancel := range map[string]func(w *world){
		"pause":    func(w *world) { w.nw("nw").Paused = true },
		"disable":  func(w *world) { w.nw("nw").Disabled = true },
		"ignore":   func(w *world) { w.in.Node.Ignored = true },
		"selector": func(w *world) { w.nw("nw").Selected = false },
		"delete":   func(w *world) { w.nw("nw").Deleting = true },
		"spec":     func(w *world) { w.pkg("nw", "pa").Interrupt = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := drained(t, Pod{Name: "apps/web", UID: "u1"})
			w.slow = true
			w.pass()
			w.pass()
			cancel(w)
			p := w.pass()
			if len(p.Set.Cordons)+len(p.Set.DrainStarts)+len(p.Evict) != 0 {
				t.Fatalf("cordon %v, drain %v, evictions %v", p.Set.Cordons, p.Set.DrainStarts, p.Evict)
			}
			for _, c := range p.Create {
				if c.Interrupt != nil || name != "spec" {
					t.Fatalf("started %+v", c)
				}
			}
		})
		if name == "spec" {
			continue
		}
		t.Run(name+" after the first stage", func(t *testing.T) {
			w := drained(t)
			w.pass()
			w.pass()
			w.want("nw", "pa", "apply/in_progress")
			cancel(w)
			w.pass()
			keeps := name == "pause" || name == "disable"
			if got := len(w.in.Record.Cordons) == 1; name != "delete" && name != "ignore" && name != "selector" && got != keeps {
				t.Fatalf("cordoned: %t, want %t", got, keeps)
			}
			for i := range w.in.Jobs {
				w.in.Jobs[i].State = JobSucceeded
			}
			w.pass()
			if got := len(w.in.Record.Cordons) == 1; got != keeps {
				t.Fatalf("cordoned: %t, want %t", got, keeps)
			}
		})
	}
}

// A slot that is being renewed does not end the drain.
func TestRenewalKeepsTheDrain(t *testing.T) {
	w := drained(t, Pod{Name: "apps/web", UID: "u1"})
	w.slow = true
	w.pass()
	w.pass()
	w.nw("nw").Revision = "r2"
	w.pass()
	if len(w.in.Record.Cordons)+len(w.in.Record.DrainStarts) != 2 {
		t.Fatal("the drain ended with the revision")
	}
}

// DR-09: each NodeWright holds a cordon of its own.
func TestSharedCordon_DR09(t *testing.T) {
	w := newWorld(t, makeNodeWright("a", makeInterrupting("pa", "noop")))
	w.in.Record.Cordons = map[string]time.Time{"b": w.in.Now}
	b := makeNodeWright("b", makeInterrupting("pb", "noop"))
	b.Paused = true
	b.Priority = 300
	w.in.NodeWrights = append(w.in.NodeWrights, b)
	w.set(nodestate.PackageStatus{
		Name: "pb", NodeWright: "b", UID: "b-uid", Version: "1.0.0", Image: "reg/pb", SpecHash: "s1", Run: 2, Attempt: 1, BootID: "boot-1",
		Stage: nodestate.StageConfig, State: nodestate.StateComplete, Interrupt: &nodestate.Interrupt{Type: "noop"}, Since: nodestate.FormatTime(w.in.Now),
	})
	w.finishAll()
	w.wantStatus("a", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
	if _, holds := w.in.Record.Cordons["b"]; !holds || len(w.in.Record.Cordons) != 1 {
		t.Fatalf("cordons %v, want that of b alone", w.in.Record.Cordons)
	}
}

// DR-10: somebody else's cordon is told of.
func TestForeignCordonIsToldOf_DR10(t *testing.T) {
	w := drained(t)
	w.foreign = true
	w.pass()
	if !strings.Contains(w.events[0].Message, "by somebody else") {
		t.Fatalf("events %+v", w.events)
	}
}

// DR-11: a node whose cordon was lost before the interrupt is cordoned, looked at
// and emptied again.
func TestCordonLostBeforeTheInterrupt_DR11(t *testing.T) {
	w := drained(t)
	for w.at("nw", "pa") != "config/in_progress" {
		w.pass()
		if w.at("nw", "pa") != "config/in_progress" {
			for i := range w.in.Jobs {
				w.in.Jobs[i].State = JobSucceeded
			}
		}
	}
	w.succeed("nw", "pa")
	w.in.NextSeq = w.seq + 1
	w.in.Node.Unschedulable, w.in.Pods = false, nil
	p := Compute(w.in)
	if len(p.Create) != 0 || len(p.Set.Cordons) != 1 {
		t.Fatalf("interrupted without a cordon: %+v", p)
	}
	w.pods = []Pod{{Name: "apps/new", UID: "u9"}}
	if p := w.pass(); len(p.Create) != 0 || len(p.Evict) != 1 {
		t.Fatalf("did not empty the node again: %+v", p)
	}
	w.finishAll()
	w.want("nw", "pa", "post-interrupt/complete")
}
