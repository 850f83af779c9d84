package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// The node says that it waits for what somebody else has to end, and no longer
// than that.
func TestWaitForWhatIsOutOfReachIsShown(t *testing.T) {
	former := Job{Name: "former", UID: "former", Identity: packagejob.Identity{
		Attempt: 1, Node: "n1", NodeUID: "former-node", NodeWright: "nw", NodeWrightUID: "nw-uid",
		Package: "pa", Run: 3, Stage: nodestate.StageApply, Version: "1.0.0",
	}}
	own := former
	own.Identity.NodeUID = "node-uid"
	for name, tc := range map[string]struct {
		jobs      []Job
		executors []nodestate.PackageRef
		want      string
		// wantDeleted are the reasons of Jobs that are deleted.
		wantDeleted []string
	}{
		"nothing runs":                {},
		"Job of a former node":        {jobs: []Job{former}, want: nodestate.SlotExecutorNotEnded},
		"pod without its Job":         {executors: []nodestate.PackageRef{{NodeWright: "nw", Package: "pa"}}, want: nodestate.SlotExecutorNotEnded},
		"Job of this node":            {jobs: []Job{own}, wantDeleted: []string{ReasonSuperseded}},
		"pod of a package of another": {executors: []nodestate.PackageRef{{NodeWright: "other", Package: "pa"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
			w.in.Jobs, w.in.Executors = tc.jobs, tc.executors
			p := w.pass()
			w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, tc.want)
			var deleted []string
			for _, d := range p.Delete {
				deleted = append(deleted, d.Reason)
			}
			if diff := cmp.Diff(tc.wantDeleted, deleted); diff != "" {
				t.Errorf("deleted Jobs (-want +got):\n%s", diff)
			}
			w.in.Jobs, w.in.Executors = nil, nil
			w.pass()
			w.want("nw", "pa", "apply/in_progress")
			w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, "")
		})
	}
}

// A Job that somebody suspends is named as what the node waits for until it is
// resumed.
func TestSuspendedJobIsShown(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, "")
	w.running("nw", "pa").Suspended = true
	if p := w.pass(); len(p.Delete)+len(p.Create) != 0 {
		t.Errorf("the suspended Job is replaced: %+v", p)
	}
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, nodestate.SlotJobSuspended)
	w.running("nw", "pa").Suspended = false
	w.pass()
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, "")
}

// The version before is what is on the host until an upgrade is done: a new
// image of the version does not turn the upgrade into an installation.
func TestImageChangeGoesOnWithUpgrade(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.finishAll()
	w.want("nw", "pa", "config/complete")
	w.pkg("nw", "pa").Version = "2.0.0"
	w.nw("nw").Revision = "r2"
	w.grantSlot("nw")
	w.pass()
	w.want("nw", "pa", "upgrade/in_progress")
	run := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}].Run
	w.pkg("nw", "pa").Image = "mirror/pa"
	w.nw("nw").Revision = "r3"
	w.grantSlot("nw")
	w.pass()
	w.pass()
	w.want("nw", "pa", "upgrade/in_progress")
	e := w.in.Record.Packages[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}]
	if e.Run <= run || e.Image != "mirror/pa" || len(e.Previous) != 1 || e.Previous[0].Version != "1.0.0" {
		t.Fatalf("entry %+v, want a new run of the upgrade from 1.0.0 with the new image", e)
	}
	// Once it is on the host, the image is installed anew.
	w.succeed("nw", "pa")
	w.pass()
	w.want("nw", "pa", "config/in_progress")
	w.pkg("nw", "pa").Image = "other/pa"
	w.nw("nw").Revision = "r4"
	w.grantSlot("nw")
	w.pass()
	w.pass()
	w.want("nw", "pa", "apply/in_progress")
}

// A package that has not begun says on the slot which others it waits for, as
// long as it does.
func TestPackageThatWaitsForOthersIsShown(t *testing.T) {
	for name, tc := range map[string]struct {
		serial bool
		third  Package
		want   []string
	}{
		"serial":        {serial: true, third: makePackage("pc"), want: []string{"pb waits for pa, since packages run one at a time", "wait as well: 1"}},
		"dependency":    {third: makePackage("pc"), want: []string{"pb waits for pa 1.0.0 to be complete"}},
		"two that wait": {third: makePackage("pc", "pb"), want: []string{"pb waits for pa 1.0.0", "wait as well: 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			second := makePackage("pb", "pa")
			if tc.serial {
				second = makePackage("pb")
			}
			nw := makeNodeWright("nw", makePackage("pa"), second, tc.third)
			nw.Serial = tc.serial
			w := newWorld(t, nw)
			w.pass()
			w.wantWait(nodestate.SlotPackageWaits, tc.want...)
			if message := w.in.Record.Slots["nw"].Message; len(tc.want) == 1 && strings.Contains(message, "as well") {
				t.Errorf("message is %q, want one package in it", message)
			}
			// A pause is what holds it up then.
			w.nw("nw").Paused = true
			w.pass()
			w.wantStatus("nw", nodestate.StatusPaused, nodestate.SlotWorking, nodestate.SlotPaused)
			w.nw("nw").Paused = false
			w.finishAll()
			w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
		})
	}
}

// A higher version is an upgrade of what was applied, and of nothing else.
func TestVersionAfterUnfinishedStage(t *testing.T) {
	for name, tc := range map[string]struct {
		stage   nodestate.Stage
		state   nodestate.State
		version string
		want    string
	}{
		"apply never ended":          {nodestate.StageApply, nodestate.StateErroring, "1.1.0", "apply/in_progress"},
		"apply never ended, lower":   {nodestate.StageApply, nodestate.StateErroring, "0.9.0", "apply/in_progress"},
		"upgrade never ended":        {nodestate.StageUpgrade, nodestate.StateErroring, "1.1.0", "upgrade/in_progress"},
		"upgrade never ended, lower": {nodestate.StageUpgrade, nodestate.StateErroring, "0.9.0", "apply/in_progress"},
		"config never ended":         {nodestate.StageConfig, nodestate.StateErroring, "1.1.0", "upgrade/in_progress"},
		"apply is complete":          {nodestate.StageApply, nodestate.StateComplete, "1.1.0", "upgrade/in_progress"},
		"all is complete":            {nodestate.StageConfig, nodestate.StateComplete, "1.1.0", "upgrade/in_progress"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
			e := nodestate.PackageStatus{
				Name: "pa", NodeWright: "nw", UID: "nw-uid", Version: "1.0.0", Image: "reg/pa", SpecHash: "s1",
				Stage: tc.stage, State: tc.state, Run: 2, Attempt: 1,
			}
			if tc.state == nodestate.StateErroring {
				e = failed(e)
			}
			w.set(e)
			w.pkg("nw", "pa").Version = tc.version
			w.pass()
			w.want("nw", "pa", tc.want)
		})
	}
}
