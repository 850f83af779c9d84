package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// JB-09: the Job controller takes minutes to replace a pod that was evicted often.
// That the Job has no pod meanwhile is neither a failure nor a reason for another
// Job.
func TestReplacementMayTakeMinutes_JB09(t *testing.T) {
	nw := makeNodeWright("nw", makePackage("pa"))
	nw.RetryLimit = 0
	w := newWorld(t, nw)
	w.pass()
	job := w.running("nw", "pa").Name
	// Its pod is there, is evicted, and comes back ever later.
	delay := 10 * time.Second
	for range 6 {
		for range 3 {
			w.in.Now = w.in.Now.Add(delay / 3)
			if p := w.pass(); len(p.Create)+len(p.Delete)+len(p.Patch)+len(p.Hold)+len(p.Events) != 0 {
				t.Fatalf("without a pod for %s: %+v", delay, p)
			}
			w.want("nw", "pa", "apply/in_progress")
		}
		delay *= 2
	}
	e := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}]
	if e.Failures != 0 || e.Attempt != 1 || w.running("nw", "pa").Name != job {
		t.Fatalf("entry %+v, job %s after %s", e, w.running("nw", "pa").Name, job)
	}
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, "")
	w.finishAll()
	w.want("nw", "pa", "config/complete")
}

// JB-18: Jobs of an uninstall stay for their TTL, by request and by deletion, also
// when nothing of their NodeWright is left.
func TestUninstallJobIsLeftToItsTTL_JB18(t *testing.T) {
	for name, leave := range map[string]func(w *world){
		"by request": func(w *world) { w.uninstall("nw", "pa") },
		"deletion":   func(w *world) { w.nw("nw").Deleting = true; w.grantSlot("nw") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makeUninstallable("pa")))
			w.finishAll()
			leave(w)
			w.finishAll()
			w.want("nw", "pa", "absent")
			jobs := len(w.in.Jobs)
			if last := w.in.Jobs[jobs-1]; last.Identity.Stage != nodestate.StageUninstall {
				t.Fatalf("the last job is of %s", last.Identity.Stage)
			}
			if w.nw("nw").Deleting {
				w.in.NodeWrights, w.in.Gone = nil, []string{"nw"}
			}
			if p := w.pass(); len(p.Delete) != 0 || len(w.in.Jobs) != jobs {
				t.Fatalf("deletes %+v, the logs are lost", p.Delete)
			}
		})
	}
}

// UN-07: the NodeWright was taken away under a running uninstall, and came back.
// The end of that uninstall is never taken for a step of an installation.
func TestNodeWrightComesBackDuringItsUninstall_UN07(t *testing.T) {
	for name, tc := range map[string]struct {
		// wanted tells whether the new NodeWright wants the package there.
		wanted bool
		// ended: the Job ended before the new NodeWright was seen.
		ended bool
	}{
		"wants it off, running": {false, false},
		"wants it off, ended":   {false, true},
		"wants it, running":     {true, false},
		"wants it, ended":       {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makeUninstallable("pa")))
			w.finishAll()
			w.uninstall("nw", "pa")
			w.pass()
			w.want("nw", "pa", "uninstall/in_progress")
			old := w.running("nw", "pa")
			if tc.ended {
				old.State = JobSucceeded
			}
			w.nw("nw").UID, w.nw("nw").Revision, w.pkg("nw", "pa").Uninstall = "other-uid", "r9", !tc.wanted
			w.started = nil
			// As long as it has no slot, nothing starts for it.
			w.in.Record.Batches = nil
			for range 3 {
				if p := w.pass(); len(p.Create) != 0 {
					t.Fatalf("without a slot: created %+v", p.Create)
				}
			}
			w.grantSlot("nw")
			w.finishAll()
			applies := 0
			for _, s := range w.started {
				if strings.Contains(s, " apply ") {
					applies++
				}
			}
			if tc.wanted {
				w.want("nw", "pa", "config/complete")
				if applies != 1 {
					t.Fatalf("jobs %v, want one apply", w.started)
				}
				return
			}
			w.want("nw", "pa", "absent")
			if applies != 0 {
				t.Fatalf("jobs %v: an apply for a package that is to be off", w.started)
			}
		})
	}
}

// UN-10: the one key that keeps a node cordoned carries the name of its NodeWright,
// and goes with it: also where a failed drain left the node cordoned.
func TestCordonGoesWithItsNodeWright_UN10(t *testing.T) {
	for name, leave := range map[string]func(w *world){
		"deleted": func(w *world) { w.nw("nw").Deleting = true; w.grantSlot("nw") },
		"gone":    func(w *world) { w.in.NodeWrights, w.in.Gone = nil, []string{"nw"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := drained(t, Pod{Name: "apps/web", UID: "u1"})
			w.slow = true
			w.nw("nw").DrainTimeout = time.Minute
			w.pass()
			w.pass()
			w.in.Now = w.in.Now.Add(time.Minute)
			w.pass()
			w.want("nw", "pa", "apply/erroring")
			if len(w.in.Record.Cordons) != 1 {
				t.Fatal("the drain that failed left the node open")
			}
			leave(w)
			w.finishAll()
			if s := w.in.Record.Set; len(s.Cordons)+len(s.DrainStarts)+len(s.Status)+len(s.Slots)+len(s.Packages) != 0 || w.in.Node.Unschedulable {
				t.Fatalf("left on the node: %+v, cordoned: %t", s, w.in.Node.Unschedulable)
			}
		})
	}
}
