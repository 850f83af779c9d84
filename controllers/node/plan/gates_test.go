package plan

import (
	"strings"
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// Two packages of a serial NodeWright that have to start anew do not wait for
// each other.
func TestSerialRestartsDoNotWaitForEachOther(t *testing.T) {
	tests := map[string]struct {
		packages []Package
		change   func(*world)
	}{
		"adopted": {[]Package{makePackage("pa"), makePackage("pb")}, func(w *world) {
			w.nw("nw").UID = "restored-uid"
			w.grantSlot("nw")
		}},
		"both changed": {[]Package{makePackage("pa"), makePackage("pb")}, func(w *world) {
			w.pkg("nw", "pa").SpecHash, w.pkg("nw", "pb").SpecHash = "s2", "s2"
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", tc.packages...))
			w.pass()
			w.nw("nw").Serial = true
			tc.change(w)
			// Neither Job has to end by itself.
			if p := w.pass(); len(p.Delete) == 0 {
				t.Fatal("no Job of the earlier spec is ended")
			}
			w.finishAll()
			w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
		})
	}
}

func TestSerialRestartWithChangedDependency(t *testing.T) {
	nw := makeNodeWright("nw", makePackage("pa", "pz"), makePackage("pz"))
	nw.Serial = true
	w := newWorld(t, nw)
	for w.at("nw", "pa") == "absent" {
		w.pass()
		w.succeed("nw", "pz")
		w.pass()
	}
	// pa runs, and cannot be pulled. Now both are changed.
	w.pkg("nw", "pa").Image, w.pkg("nw", "pz").Image = "reg/right", "reg/other"
	w.nw("nw").Revision = "r2"
	w.grantSlot("nw")
	p := w.pass()
	if len(p.Delete) != 1 {
		t.Fatalf("the Job of the earlier spec goes on: %+v", p)
	}
	w.rest()
	w.want("nw", "pz", "apply/in_progress")
	if e := w.entry("nw", "pa"); e.Reason != ReasonNoPath || !strings.Contains(e.Message, "pz 1.0.0") {
		t.Fatalf("entry does not say what it waits for: %+v", e)
	}
	w.finishAll()
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}

// An entry that has to start anew and cannot must not hold a slot for ever.
func TestRestartWithoutDependencyGivesTheSlotBack(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb")))
	w.pass()
	w.pkg("nw", "pa").SpecHash = "s2"
	w.pkg("nw", "pa").DependsOn = map[string]string{"pb": "9.9.9"}
	w.finishAll()
	w.want("nw", "pb", "config/complete")
	w.wantStatus("nw", nodestate.StatusBlocked, nodestate.SlotReleased, ReasonNoPath)
	w.rest()
	w.wantStatus("nw", nodestate.StatusBlocked, nodestate.SlotReleased, ReasonNoPath)
	w.pkg("nw", "pa").DependsOn = nil
	w.pass()
	w.wantStatus("nw", nodestate.StatusWaiting, nodestate.SlotReleased, nodestate.SlotRetryWanted)
	w.grantSlot("nw")
	w.finishAll()
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}

// A node that comes back into the rollout goes on with a slot only.
func TestReturnToTheRolloutNeedsASlot(t *testing.T) {
	for name, leave := range map[string]func(w *world, gone bool){
		"ignored":      func(w *world, gone bool) { w.in.Node.Ignored = gone },
		"not selected": func(w *world, gone bool) { w.nw("nw").Selected = !gone },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
			w.pass()
			leave(w, true)
			w.fail("nw", "pa", "Error", false)
			w.in.Now = w.pass().NextCheck
			w.rest()
			if got := w.in.Record.Slots["nw"].State; got != nodestate.SlotReleased {
				t.Fatalf("slot is %s", got)
			}
			leave(w, false)
			if p := w.pass(); len(p.Create) != 0 {
				t.Fatalf("started without a slot: %+v", p.Create)
			}
			w.wantStatus("nw", nodestate.StatusWaiting, nodestate.SlotReleased, nodestate.SlotRetryWanted)
			w.grantSlot("nw")
			w.finishAll()
			w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
		})
	}
}

// While a slot is being renewed, what runs on the node is still at work.
func TestRenewedSlotIsStillAtWork(t *testing.T) {
	early := makeNodeWright("aa", makePackage("pa"))
	early.Priority = 1
	w := newWorld(t, makeNodeWright("bb", makePackage("pb")))
	w.pass()
	w.in.NodeWrights = append(w.in.NodeWrights, early)
	w.grantSlot("aa")
	w.nw("bb").Revision = "r2"
	w.grantSlot("bb")
	w.pass()
	w.want("aa", "pa", "absent")
}

func TestHeldNodeWrightDoesNotHoldOthers(t *testing.T) {
	w := newWorld(t, makeNodeWright("aa", makePackage("pa")), makeNodeWright("bb", makePackage("pb")))
	w.pass()
	w.nw("aa").Held = "interrupts are not supported"
	w.grantSlot("bb")
	w.pass()
	w.want("bb", "pb", "apply/in_progress")
}

func TestPausedNodeWrightHoldsThoseAfterIt(t *testing.T) {
	w := newWorld(t, makeNodeWright("aa", makePackage("pa")), makeNodeWright("bb", makePackage("pb")))
	w.in.Record.Batches = nil
	w.grantSlot("aa")
	w.finishAll()
	w.nw("aa").Paused = true
	w.grantSlot("bb")
	w.pass()
	w.want("bb", "pb", "absent")
	w.wantStatus("aa", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
	w.nw("aa").Disabled = true
	w.grantSlot("bb")
	w.pass()
	w.want("bb", "pb", "apply/in_progress")
}

// Adoption comes before the question what is complete, in any order of names.
func TestAdoptedDependencyCountsAtOnce(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pz")))
	w.finishAll()
	w.nw("nw").Packages = []Package{makePackage("pa", "pz"), makePackage("pz")}
	w.nw("nw").UID, w.nw("nw").Revision = "restored-uid", "r2"
	w.grantSlot("nw")
	w.pass()
	w.want("nw", "pa", "apply/in_progress")
}

func TestRemovedPackageKeepsItsSuccess(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb")))
	w.pass()
	w.succeed("nw", "pb")
	w.nw("nw").Packages = []Package{makePackage("pa")}
	w.pass()
	w.want("nw", "pb", "apply/complete")
}

func TestUnreadableEntryOfAGoneNodeWright(t *testing.T) {
	key := nodestate.NewPackageKey(nodestate.KindNodeState, "nw", "pa").String()
	w := newWorld(t)
	w.in.Record = nodestate.Decode(map[string]string{
		key: "junk", nodestate.NewKey(nodestate.KindStatus, "nw").String(): "unknown",
	}, nil)
	w.in.Gone = []string{"nw"}
	w.pass()
	if len(w.in.Record.Status) != 0 || w.in.Record.Raw[key] != "junk" {
		t.Fatalf("left %+v", w.in.Record.Set)
	}
}

// A node that cannot be reached and that nothing was done to says nothing.
func TestUnreachableUntouchedNodeIsNotWritten(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.in.Record.Batches = nil
	w.in.Node.Unreachable = true
	w.pass()
	if w.seq != 7 {
		t.Fatalf("wrote %+v", w.in.Record.Set)
	}
}

// An image that cannot be pulled holds up the packages of its own NodeWright,
// not those of others that come first.
func TestErroringNodeWrightDoesNotHoldEarlierOnes(t *testing.T) {
	w := newWorld(t, makeNodeWright("bb", makePackage("pb")))
	w.pass()
	job := w.running("bb", "pb")
	w.in.Record.PodReports = map[nodestate.PackageRef]nodestate.PodReport{job.Identity.Ref(): {
		Job: job.Name, Pod: job.Name + "-x", Reason: "ErrImagePull", NodeWright: "bb", Name: "pb",
		WaitingSince: nodestate.FormatTime(w.in.Now),
	}}
	early := makeNodeWright("aa", makePackage("pa"))
	early.Priority = 1
	w.in.NodeWrights = append(w.in.NodeWrights, early)
	w.grantSlot("aa")
	w.pass()
	w.want("aa", "pa", "absent")
	w.in.Now = w.in.Now.Add(w.in.Config.PodStartGrace)
	w.pass()
	w.want("bb", "pb", "apply/erroring")
	w.grantSlot("aa")
	w.pass()
	w.want("aa", "pa", "apply/in_progress")
}
