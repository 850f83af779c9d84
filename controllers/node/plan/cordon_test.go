package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// blockedPod is a pod that a PodDisruptionBudget keeps, to be tried again later.
func blockedPod(w *world, after time.Duration) Pod {
	return Pod{Name: "apps/web", UID: "u1", Blocked: true, Refused: "pod apps/web waits for PodDisruptionBudget web", RetryAt: w.in.Now.Add(after)}
}

// A cordon that somebody ends during a drain comes back, is told of, and does not
// make a wait look new.
func TestUncordonDuringADrain(t *testing.T) {
	w := drained(t, Pod{Name: "apps/web", UID: "u1"})
	w.slow = true
	w.pass()
	w.pods = []Pod{blockedPod(w, time.Hour)}
	w.pass()
	w.wantWait(nodestate.SlotDrainBlocked, "PodDisruptionBudget web")
	before := w.in.Record.Slots["nw"]
	w.in.Now = w.in.Now.Add(time.Minute)
	w.in.NextSeq, w.in.Node.Unschedulable, w.in.Pods = w.seq+1, false, nil
	p := Compute(w.in)
	if len(p.Events) != 1 || p.Events[0].Reason != ReasonCordoned {
		t.Errorf("events %+v, want one of the cordon", p.Events)
	}
	w.apply(p)
	w.in.Now = w.in.Now.Add(time.Minute)
	w.pass()
	if got := w.in.Record.Slots["nw"]; got != before {
		t.Errorf("slot %+v after an uncordon, want %+v", got, before)
	}
}

// DR-26: a refused eviction is due at the very time of its retry.
func TestRetryOfAnEvictionIsDueInTime(t *testing.T) {
	for _, after := range []time.Duration{10 * time.Second, 14 * time.Second, 25 * time.Second} {
		w := drained(t, Pod{Name: "apps/web", UID: "u1"})
		w.slow = true
		w.pass()
		w.pods = []Pod{blockedPod(w, after)}
		retry := w.pods[0].RetryAt
		for w.in.Now.Before(retry) {
			p := w.pass()
			if len(p.Evict) != 0 || p.NextCheck.IsZero() || p.NextCheck.After(retry) {
				t.Fatalf("looked at again at %s, evicts %v; the retry is due at %s", p.NextCheck, p.Evict, retry)
			}
			w.in.Now = p.NextCheck
		}
		if p := w.pass(); len(p.Evict) != 1 {
			t.Errorf("no eviction at the time of the retry")
		}
	}
}

// A request for packages whose node is cordoned does not let workloads in between.
func TestRequestsKeepTheCordon(t *testing.T) {
	for name, fail := range map[string]func(*world){
		"drain timeout": func(w *world) {
			w.nw("nw").DrainTimeout = time.Minute
			w.pods, w.slow = []Pod{{Name: "apps/web", UID: "u1"}}, true
			w.pass()
			w.pass()
			w.in.Now = w.in.Now.Add(time.Minute)
			w.pass()
		},
		"failed stage": func(w *world) {
			w.nw("nw").RetryLimit = 0
			w.pass()
			w.pass()
			w.fail("nw", "pa", "Error", false)
			w.pass()
		},
	} {
		for _, action := range []nodestate.Action{nodestate.ActionRerun, nodestate.ActionReset} {
			t.Run(name+"/"+string(action), func(t *testing.T) {
				w := drained(t)
				fail(w)
				w.want("nw", "pa", "apply/erroring")
				w.ask(action, "1", "nw", "", "")
				for i := range 5 {
					if i == 3 {
						w.grantSlot("nw")
					}
					p := w.pass()
					w.removeAnswered(p)
					if len(w.in.Record.Cordons) != 1 {
						t.Fatalf("pass %d: the cordon ended", i)
					}
				}
				w.pods = nil
				w.finishAll()
				w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
				if len(w.in.Record.Cordons) != 0 {
					t.Error("the node stays cordoned")
				}
			})
		}
	}
}

// A reset of what has no record is refused, and says what becomes of the package.
func TestResetOfNothingIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		pkg, want string
		change    func(*world)
	}{
		"never there":    {"nobody", "neither the NodeWright nor the node has the package", func(*world) {}},
		"not yet there":  {"pa", "starts by itself", func(w *world) { w.nw("nw").Paused = true }},
		"to be off":      {"pa", "as the NodeWright asks for", func(w *world) { w.pkg("nw", "pa").CanUninstall, w.pkg("nw", "pa").Uninstall = true, true }},
		"rerun of those": {"pa", "as the NodeWright asks for", func(w *world) { w.pkg("nw", "pa").CanUninstall, w.pkg("nw", "pa").Uninstall = true, true }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
			tc.change(w)
			action := nodestate.ActionReset
			if strings.HasPrefix(name, "rerun") {
				action = nodestate.ActionRerun
			}
			w.ask(action, "1", "nw", tc.pkg, "")
			w.pass()
			if got := w.messages(ReasonRequestRefused); len(got) != 1 || !strings.Contains(got[0], tc.want) {
				t.Errorf("refused %q, want %q in it; events %+v", got, tc.want, w.events)
			}
		})
	}
}

// The end of a cordon is told of, however it comes, and says whether the node is
// open then.
func TestEndOfACordonIsTold(t *testing.T) {
	for name, end := range map[string]func(*world){
		"cancelled": func(w *world) { w.nw("nw").Paused = true },
		"ignored":   func(w *world) { w.in.Node.Ignored = true },
		"deleted":   func(w *world) { w.nw("nw").Deleting = true },
		"gone":      func(w *world) { w.in.NodeWrights, w.in.Gone = nil, []string{"nw"} },
	} {
		for _, others := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := drained(t, Pod{Name: "apps/web", UID: "u1"})
				w.slow, w.foreign, w.in.Node.HeldByOthers = true, others, others
				w.pass()
				w.pass()
				end(w)
				w.pass()
				w.pass()
				got := w.messages(ReasonUncordoned)
				if len(w.in.Record.Cordons) != 0 || len(got) != 1 || strings.Contains(got[0], "somebody else") != others {
					t.Errorf("cordons %v, told %q", w.in.Record.Cordons, got)
				}
			})
		}
	}
}

func (w *world) messages(reason string) []string {
	var out []string
	for _, e := range w.events {
		if e.Reason == reason {
			out = append(out, e.Message)
		}
	}
	return out
}
