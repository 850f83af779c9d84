package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewright/nodewright/apis/nodestate"
)

func TestInstall(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb", "pa")))
	p := w.pass()
	w.want("nw", "pa", "apply/in_progress")
	w.want("nw", "pb", "absent")
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, nodestate.SlotPackageWaits)
	if len(p.Create) != 1 || p.Create[0].Order != 4 || *p.Create[0].DeadlineSeconds != 3600 {
		t.Fatalf("created %+v", p.Create)
	}
	w.finishAll()
	w.want("nw", "pa", "config/complete")
	w.want("nw", "pb", "config/complete")
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
	want := []string{
		"nw/pa apply run 8 attempt 1", "nw/pa config run 8 attempt 1",
		"nw/pb apply run 10 attempt 1", "nw/pb config run 10 attempt 1",
	}
	if diff := cmp.Diff(want, w.started); diff != "" {
		t.Fatalf("jobs (-want +got):\n%s", diff)
	}
	if len(w.events) != 1 || w.events[0].Reason != ReasonNodeComplete {
		t.Fatalf("events on success: %v", w.events)
	}
	if p := w.pass(); len(p.Create)+len(p.Delete)+len(p.Patch)+len(p.Events) != 0 || !p.NextCheck.IsZero() {
		t.Fatalf("a complete node is not at rest: %+v", p)
	}
}

// A stage boundary is one apply: the record goes from in progress at one stage
// to in progress at the next.
func TestStageChangeIsOneWrite(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.succeed("nw", "pa")
	p := w.pass()
	w.want("nw", "pa", "config/in_progress")
	if len(p.Create) != 1 || p.Create[0].Identity.Stage != nodestate.StageConfig {
		t.Fatalf("the next stage was not started in the same pass: %+v", p.Create)
	}
}

func TestDependencyFreePackagesStartInAnyOrderOfCompletion_ST18(t *testing.T) {
	names := []string{"pa", "pb", "pc", "pd", "pe"}
	nw := makeNodeWright("nw", makePackage("pa"), makePackage("pb"), makePackage("pc"),
		makePackage("pd", "pa"), makePackage("pe", "pa"))
	nw.Serial = true
	for _, last := range names[:3] {
		t.Run(last, func(t *testing.T) {
			w := newWorld(t, nw)
			// All but one are complete already.
			w.in.Record.Packages = map[nodestate.PackageRef]nodestate.PackageStatus{}
			for _, n := range names {
				if n == last || last == "pa" && (n == "pd" || n == "pe") {
					continue
				}
				w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: n}] = nodestate.PackageStatus{
					Name: n, NodeWright: "nw", UID: "nw-uid", Version: "1.0.0", Image: "reg/" + n, SpecHash: "s1",
					Stage: nodestate.StageConfig, State: nodestate.StateComplete, Run: 2, Attempt: 1,
				}
			}
			w.pass()
			w.want("nw", last, "apply/in_progress")
			w.finishAll()
			w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
		})
	}
}

func TestSerialRunsOneAtATime(t *testing.T) {
	nw := makeNodeWright("nw", makePackage("pa"), makePackage("pb"), makePackage("pc"))
	nw.Serial = true
	w := newWorld(t, nw)
	for range 20 {
		w.pass()
		var running []int
		for i := range w.in.Jobs {
			if w.in.Jobs[i].State == JobUnfinished {
				running = append(running, i)
			}
		}
		if len(running) > 1 {
			t.Fatalf("%d jobs run at once", len(running))
		}
		if len(running) == 1 {
			w.in.Jobs[running[0]].State = JobSucceeded
		}
	}
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}

func TestRetriesThenErroring_JB06(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb")))
	w.pass()
	w.succeed("nw", "pb")
	w.pass()
	w.succeed("nw", "pb")
	for attempt := 1; attempt <= 4; attempt++ {
		w.fail("nw", "pa", "Error", false)
		p := w.pass()
		if attempt == 4 {
			break
		}
		w.want("nw", "pa", "apply/in_progress")
		wait := 10 * time.Second << (attempt - 1)
		if got := p.NextCheck.Sub(w.in.Now); got != wait {
			t.Fatalf("back-off after attempt %d is %s, want %s", attempt, got, wait)
		}
		if p := w.pass(); len(p.Create) != 0 || len(p.Events) != 0 {
			t.Fatalf("during back-off: %+v", p)
		}
		w.in.Now = w.in.Now.Add(wait)
		w.pass()
	}
	e := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}]
	if e.State != nodestate.StateErroring || e.Attempt != 4 || e.Failures != 4 || e.Reason != "Error" ||
		!strings.Contains(e.Message, "exit code 3") {
		t.Fatalf("entry %+v", e)
	}
	w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotReleased, ReasonSlotErroring)
	before := len(w.started)
	w.in.Now = w.in.Now.Add(24 * time.Hour)
	if p := w.pass(); len(w.started) != before || len(p.Events) != 0 {
		t.Fatal("erroring is not terminal")
	}
	for _, ev := range w.events {
		if !ev.Warning && ev.Reason != ReasonNodeComplete {
			t.Fatalf("event %v", ev)
		}
	}
}

// Each edit of an erroring package starts it anew; an edit of another does not.
func TestEditUnparksErroring_JB05(t *testing.T) {
	tests := map[string]struct {
		edit      func(*world)
		revision  string
		wantStage string
	}{
		"image":     {func(w *world) { w.pkg("nw", "pa").Image = "reg/other" }, "r2", "apply/in_progress"},
		"configMap": {func(w *world) { w.pkg("nw", "pa").ConfigHash = "c2" }, "r2", "apply/in_progress"},
		"env":       {func(w *world) { w.pkg("nw", "pa").SpecHash = "s2" }, "r1", "apply/in_progress"},
		"other package": {func(w *world) { w.pkg("nw", "pb").SpecHash = "s2" }, "r1",
			"apply/erroring"},
		"higher version": {func(w *world) { w.pkg("nw", "pa").Version = "1.1.0" }, "r2", "apply/in_progress"},
		"lower version":  {func(w *world) { w.pkg("nw", "pa").Version = "0.9" }, "r2", "apply/in_progress"},
		"same version spelled otherwise": {func(w *world) { w.pkg("nw", "pa").Version = "v1.0.0+build5" }, "r1",
			"apply/erroring"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nw := makeNodeWright("nw", makePackage("pa"), makePackage("pb"))
			nw.RetryLimit = 0
			w := newWorld(t, nw)
			w.pass()
			w.fail("nw", "pa", "Error", false)
			w.succeed("nw", "pb")
			w.pass()
			w.succeed("nw", "pb")
			w.pass()
			w.want("nw", "pa", "apply/erroring")
			w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotReleased, ReasonSlotErroring)
			oldRun := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}].Run

			tc.edit(w)
			w.nw("nw").Revision = tc.revision
			w.pass()
			slot := w.in.Record.Slots["nw"]
			if tc.wantStage == "apply/erroring" {
				if slot.Reason != ReasonSlotErroring {
					t.Fatalf("slot %+v asks for work that is not there", slot)
				}
				return
			}
			if tc.revision == "r1" && slot.Reason != nodestate.SlotRetryWanted {
				t.Fatalf("slot %+v does not ask for another", slot)
			}
			w.grantSlot("nw")
			w.pass()
			w.want("nw", "pa", tc.wantStage)
			e := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}]
			if e.Run == oldRun || e.Failures != 0 || e.Attempt != 1 {
				t.Fatalf("no new run: %+v", e)
			}
			w.finishAll()
			w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
		})
	}
}

func TestFailureWaitsForEvidence_JB03(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.running("nw", "pa").State = JobFailed
	p := w.pass()
	w.want("nw", "pa", "apply/in_progress")
	if len(p.Create)+len(p.Delete) != 0 {
		t.Fatalf("acted on a failed job without evidence: %+v", p)
	}
	w.report(&w.in.Jobs[0], "BackoffLimitExceeded", false)
	w.pass()
	e := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}]
	if e.Reason != ReasonBackOff {
		t.Fatalf("entry %+v", e)
	}
}

func TestHarmlessEndsDoNotUseRetries_JB11(t *testing.T) {
	nw := makeNodeWright("nw", makePackage("pa"))
	nw.RetryLimit = 0
	w := newWorld(t, nw)
	for range 6 {
		w.pass()
		w.fail("nw", "pa", "Deleted", true)
		p := w.pass()
		if p.NextCheck.IsZero() {
			t.Fatal("no time for the next attempt")
		}
		w.in.Now = p.NextCheck
	}
	w.pass()
	e := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}]
	if e.State != nodestate.StateInProgress || e.Failures != 0 || e.Attempt != 7 {
		t.Fatalf("entry %+v", e)
	}
	w.finishAll()
	w.want("nw", "pa", "config/complete")
}

func TestPodThatCannotStart_JB01(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	job := w.running("nw", "pa")
	ref := nodestate.PackageRef{NodeWright: "nw", Package: "pa"}
	w.in.Record.PodReports = map[nodestate.PackageRef]nodestate.PodReport{ref: {
		Job: job.Name, Pod: job.Name + "-x", Reason: "ImagePullBackOff", Message: "not found", WaitingSince: nodestate.FormatTime(w.in.Now),
		Name: "pa", NodeWright: "nw",
	}}
	p := w.pass()
	w.want("nw", "pa", "apply/in_progress")
	if want := w.in.Now.Add(2 * time.Minute); !p.NextCheck.Equal(want) {
		t.Fatalf("next check %s, want %s", p.NextCheck, want)
	}
	w.in.Now = p.NextCheck
	w.pass()
	w.want("nw", "pa", "apply/erroring")
	w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotWorking, "")
	if p := w.pass(); len(p.Events)+len(p.Create) != 0 {
		t.Fatalf("not level-triggered: %+v", p)
	}
	w.in.Record.PodReports = nil
	w.pass()
	w.want("nw", "pa", "apply/in_progress")
	w.finishAll()
	w.want("nw", "pa", "config/complete")
}

func TestFixedImageRestartsAtOnce_JB01(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.pkg("nw", "pa").Image, w.nw("nw").Revision = "reg/right", "r2"
	w.grantSlot("nw")
	p := w.pass()
	if len(p.Delete) != 1 || len(p.Create) != 0 {
		t.Fatalf("the old job is not ended first: %+v", p)
	}
	p = w.pass()
	if len(p.Create) != 1 || p.Create[0].Image != "reg/right" {
		t.Fatalf("created %+v", p.Create)
	}
}

func TestDeadlineFollowsTheSpec_JB27(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	for _, timeout := range []time.Duration{4 * time.Hour, time.Minute, 1500 * time.Millisecond, 0} {
		w.pkg("nw", "pa").StageTimeout = timeout
		p := w.pass()
		if len(p.Patch) != 1 || len(p.Create)+len(p.Delete) != 0 {
			t.Fatalf("timeout %s: %+v", timeout, p)
		}
		if p := w.pass(); len(p.Patch) != 0 {
			t.Fatalf("timeout %s is patched twice", timeout)
		}
	}
	if w.running("nw", "pa").DeadlineSeconds != nil {
		t.Fatal("0 is no bound")
	}
}

func TestNothingStartsBesideAnotherExecutor(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb")))
	w.in.Executors = []nodestate.PackageRef{{NodeWright: "nw", Package: "pa"}}
	w.pass()
	w.want("nw", "pa", "absent")
	w.want("nw", "pb", "apply/in_progress")
	w.in.Executors = nil
	w.pass()
	w.want("nw", "pa", "apply/in_progress")
}

// The crash between the record and its Job only means that the next pass
// creates the Job.
func TestIntentWithoutJob(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	first := w.pass()
	w.in.Jobs = nil
	second := w.pass()
	// The Job may have been there, with a pod that the cache does not show yet.
	if a, b := first.Create[0], second.Create[0]; a.Unsure || a.Again || !b.Unsure || !b.Again {
		t.Fatalf("unsure, again at first: %v, %v, then: %v, %v", a.Unsure, a.Again, b.Unsure, b.Again)
	}
	second.Create[0].Unsure, second.Create[0].Again = false, false
	if diff := cmp.Diff(first.Create, second.Create); diff != "" {
		t.Fatalf("another job (-first +second):\n%s", diff)
	}
}

func TestNoSlotNoWork(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.in.Record.Batches = nil
	p := w.pass()
	if len(p.Create) != 0 || len(p.Set.Status) != 0 || len(p.Set.Slots) != 0 {
		t.Fatalf("worked without a slot: %+v", p)
	}
}

func TestRevisionMustMatchSlot(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.finishAll()
	w.pkg("nw", "pa").Version, w.nw("nw").Revision = "2.0.0", "r2"
	if p := w.pass(); len(p.Create) != 0 {
		t.Fatalf("started without a slot for the revision: %+v", p.Create)
	}
	w.wantStatus("nw", nodestate.StatusWaiting, nodestate.SlotReleased, nodestate.SlotSuperseded)
	w.grantSlot("nw")
	w.finishAll()
	w.want("nw", "pa", "config/complete")
	e := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}]
	if len(e.Previous) != 1 || e.Previous[0].Version != "1.0.0" || e.Version != "2.0.0" {
		t.Fatalf("entry %+v", e)
	}
	if !slices.Contains(w.started, "nw/pa upgrade run 12 attempt 1") {
		t.Fatalf("no upgrade among %v", w.started)
	}
}

func TestPriorityGatesStarts(t *testing.T) {
	first, second := makeNodeWright("zz", makePackage("pa")), makeNodeWright("aa", makePackage("pb"))
	first.Priority = 100
	w := newWorld(t, first, second)
	w.pass()
	w.want("zz", "pa", "apply/in_progress")
	w.want("aa", "pb", "absent")
	w.wantStatus("aa", nodestate.StatusBlocked, nodestate.SlotReleased, ReasonBlocked)
	w.finishAll()
	w.wantStatus("zz", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
	w.wantStatus("aa", nodestate.StatusWaiting, nodestate.SlotReleased, nodestate.SlotRetryWanted)
	w.grantSlot("aa")
	w.finishAll()
	w.wantStatus("aa", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}

func TestBegunNodeWrightIsFinishedFirst(t *testing.T) {
	w := newWorld(t, makeNodeWright("bb", makePackage("pb")))
	w.pass()
	early := makeNodeWright("aa", makePackage("pa"))
	early.Priority = 1
	w.in.NodeWrights = append(w.in.NodeWrights, early)
	w.grantSlot("aa")
	w.succeed("bb", "pb")
	w.pass()
	w.want("bb", "pb", "config/in_progress")
	w.want("aa", "pa", "absent")
}

func TestUnreachableNodeStartsNothing(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.in.Node.Unreachable = true
	if p := w.pass(); len(p.Create) != 0 {
		t.Fatalf("created %+v", p.Create)
	}
	w.wantStatus("nw", nodestate.StatusBlocked, nodestate.SlotReleased, ReasonUnreachable)
	w.in.Node.Unreachable = false
	w.pass()
	w.wantStatus("nw", nodestate.StatusWaiting, nodestate.SlotReleased, nodestate.SlotRetryWanted)
}
