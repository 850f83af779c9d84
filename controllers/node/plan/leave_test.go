package plan

import (
	"testing"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

func TestDeletionEndsJobsThenDropsKeys(t *testing.T) {
	w := newWorld(t, makeNodeWright("a", makePackage("pa")), makeNodeWright("a-b", makePackage("pa")))
	w.nw("a-b").Disabled = true
	w.pass()
	w.nw("a").Deleting = true
	p := w.pass()
	if len(p.Delete) != 1 || p.Delete[0].Reason != ReasonDeleted {
		t.Fatalf("deletes %+v", p.Delete)
	}
	w.want("a", "pa", "apply/in_progress")
	w.pass()
	w.want("a", "pa", "absent")
	if _, ok := w.in.Record.Slots["a"]; ok {
		t.Fatal("slot of the deleted NodeWright is left")
	}
	if w.in.Record.Status["a-b"] != nodestate.StatusDisabled {
		t.Fatal("the neighbour a-b was touched")
	}
}

func TestGoneNodeWrightIsCleanedUpUnknownOneIsNot(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.finishAll()
	w.in.NodeWrights = nil
	w.pass()
	w.want("nw", "pa", "config/complete")
	w.in.Gone = []string{"nw"}
	w.pass()
	w.want("nw", "pa", "absent")
	if len(w.in.Record.Status)+len(w.in.Record.Slots) != 0 {
		t.Fatalf("left over: %+v", w.in.Record.Set)
	}
}

func TestDeselectedNodeKeepsEntriesAndGivesSlotBack(t *testing.T) {
	for _, tc := range []struct {
		name   string
		do     func(*world)
		reason string
	}{
		{"not selected", func(w *world) { w.nw("nw").Selected = false }, ReasonNotSelected},
		{"ignored", func(w *world) { w.in.Node.Ignored = true }, ReasonIgnored},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb", "pa")))
			w.pass()
			tc.do(w)
			if p := w.pass(); len(p.Delete) != 0 {
				t.Fatalf("a running stage was ended: %+v", p.Delete)
			}
			w.succeed("nw", "pa")
			p := w.pass()
			w.want("nw", "pa", "apply/complete")
			if len(p.Create) != 0 {
				t.Fatalf("started %+v", p.Create)
			}
			w.wantStatus("nw", "", nodestate.SlotReleased, tc.reason)
		})
	}
}

func TestPackageOutOfSpecKeepsItsEntry(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb")))
	w.pass()
	w.succeed("nw", "pa")
	w.pass()
	w.succeed("nw", "pa")
	w.pass()
	w.nw("nw").Packages = []Package{makePackage("pc")}
	w.nw("nw").Revision = "r2"
	w.grantSlot("nw")
	p := w.pass()
	if len(p.Delete) != 1 {
		t.Fatalf("the job of the removed package goes on: %+v", p)
	}
	w.finishAll()
	w.want("nw", "pa", "config/complete")
	w.want("nw", "pb", "apply/unknown")
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}

func TestMalformedEntryStopsThatPackageAlone_ST19(t *testing.T) {
	key := nodestate.NewPackageKey(nodestate.KindNodeState, "nw", "pa").String()
	for _, value := range []string{"", "{}", "null", "[]", `"x"`, `{"version":"v"}`, "\xff\xfe", `{"stage":"foo"}`} {
		t.Run(value, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb")), makeNodeWright("zz", makePackage("pa")))
			batches := w.in.Record.Batches
			w.in.Record = nodestate.Decode(map[string]string{key: value}, nil)
			w.in.Record.Batches = batches
			w.finishAll()
			w.want("nw", "pa", "absent")
			w.want("nw", "pb", "config/complete")
			if got := w.in.Record.Raw[key]; got != value {
				t.Fatalf("value is now %q", got)
			}
			w.wantStatus("nw", nodestate.StatusUnknown, nodestate.SlotReleased, ReasonMalformedState)
		})
	}
}

func TestAdoptionAfterRestore(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb")))
	w.pass()
	w.succeed("nw", "pa")
	w.pass()
	w.succeed("nw", "pa")
	w.pass()
	w.want("nw", "pa", "config/complete")
	w.nw("nw").UID = "restored-uid"
	before := len(w.started)
	// What the packages need is made for the new NodeWright before it grants.
	for range 4 {
		if p := w.pass(); len(p.Create)+len(p.Delete) != 0 {
			t.Fatalf("acted on the slot of the earlier NodeWright: %+v", p)
		}
	}
	w.grantSlot("nw")
	for range 4 {
		w.pass()
	}
	if e := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}]; e.UID != "restored-uid" || e.State != nodestate.StateComplete {
		t.Fatalf("complete entry was not adopted: %+v", e)
	}
	if got := w.started[before:]; len(got) != 1 || got[0] == w.started[before-1] {
		t.Fatalf("the unfinished entry did not get one new run: %v", got)
	}
}

// The attempt of the earlier NodeWright goes on until the new one has a slot.
func TestAttemptOfTheEarlierNodeWrightIsSeen(t *testing.T) {
	for _, end := range []string{"succeeds", "cannot start"} {
		t.Run(end, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
			w.pass()
			w.nw("nw").UID = "restored-uid"
			job := w.running("nw", "pa")
			if end == "succeeds" {
				job.State = JobSucceeded
				w.pass()
				w.want("nw", "pa", "apply/complete")
				w.grantSlot("nw")
				w.finishAll()
				if w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete); len(w.started) != 2 {
					t.Fatalf("ran %v", w.started)
				}
				return
			}
			w.in.Record.PodReports = map[nodestate.PackageRef]nodestate.PodReport{{NodeWright: "nw", Package: "pa"}: {
				Job: job.Name, Pod: "x", Reason: "ErrImagePull", WaitingSince: nodestate.FormatTime(w.in.Now), Name: "pa", NodeWright: "nw",
			}}
			w.in.Now = w.in.Now.Add(2 * time.Minute)
			w.pass()
			w.want("nw", "pa", "apply/erroring")
		})
	}
}

// A pod that cannot start must not hold the slot of a node that left.
func TestDeselectedNodeEndsWhatCannotStart(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pkg("nw", "pa").StageTimeout = 0
	w.pass()
	ref := nodestate.PackageRef{NodeWright: "nw", Package: "pa"}
	w.in.Record.PodReports = map[nodestate.PackageRef]nodestate.PodReport{ref: {
		Job: w.running("nw", "pa").Name, Pod: "x", Reason: "ErrImagePull", WaitingSince: nodestate.FormatTime(w.in.Now), Name: "pa", NodeWright: "nw",
	}}
	w.in.Now = w.in.Now.Add(2 * time.Minute)
	w.pass()
	w.want("nw", "pa", "apply/erroring")
	w.nw("nw").Selected = false
	if p := w.pass(); len(p.Delete) != 1 {
		t.Fatalf("deletes %+v", p.Delete)
	}
	w.in.Record.PodReports = nil
	w.pass()
	w.wantStatus("nw", "", nodestate.SlotReleased, ReasonNotSelected)
	w.nw("nw").Selected = true
	w.grantSlot("nw")
	w.finishAll()
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}
