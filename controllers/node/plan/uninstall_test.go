package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewright/nodewright/apis/nodestate"
)

func makeUninstallable(name string, dependsOn ...string) Package {
	p := makePackage(name, dependsOn...)
	p.CanUninstall = true
	return p
}

// asked lets a user ask for the uninstall of a package, which changes the revision.
func (w *world) uninstall(nw, pkg string) {
	w.pkg(nw, pkg).Uninstall = true
	w.nw(nw).Revision += "u"
	w.grantSlot(nw)
}

func TestUninstall(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makeUninstallable("pa"), makePackage("pb")))
	w.finishAll()
	w.started, w.events = nil, nil
	// What the spec has meanwhile does not matter for what goes.
	w.pkg("nw", "pa").Version, w.pkg("nw", "pa").ConfigHash = "2.0.0", "c9"
	w.uninstall("nw", "pa")
	p := w.pass()
	w.want("nw", "pa", "uninstall/in_progress")
	if c := p.Create[0]; c.Identity.Version != "1.0.0" || c.Image != "reg/pa" || c.ConfigHash != "" {
		t.Fatalf("uninstalls with %+v", c)
	}
	w.finishAll()
	w.want("nw", "pa", "absent")
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
	if len(w.started) != 1 || !w.told(ReasonUninstalled) {
		t.Fatalf("jobs %v, events %v", w.started, w.events)
	}
	if p := w.pass(); len(p.Create) != 0 {
		t.Fatalf("installed again: %+v", p.Create)
	}
}

func TestUninstallRunsInReverseOrder(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makeUninstallable("pa"), makeUninstallable("pb", "pa"), makeUninstallable("pc", "pb")))
	w.finishAll()
	w.started = nil
	for _, pkg := range []string{"pa", "pb", "pc"} {
		w.uninstall("nw", pkg)
	}
	w.finishAll()
	want := []string{"nw/pc uninstall", "nw/pb uninstall", "nw/pa uninstall"}
	for i, s := range w.started {
		w.started[i] = s[:len("nw/pa uninstall")]
	}
	if diff := cmp.Diff(want, w.started); diff != "" {
		t.Fatalf("jobs (-want +got):\n%s", diff)
	}
}

// What the package waits for that is taken off first is what the node waits for: that
// others come after it must not hide a drain that is blocked.
func TestUninstallInOrderShowsWhatTheFirstWaitsFor(t *testing.T) {
	last := makeInterrupting("pb", "service", "pa")
	last.CanUninstall = true
	w := newWorld(t, makeNodeWright("nw", makeUninstallable("pa"), last))
	w.finishAll()
	w.slow = true
	w.pods = []Pod{{Name: "apps/web", UID: "u1", Blocked: true, Refused: "pod apps/web waits for PodDisruptionBudget web", RetryAt: w.in.Now.Add(time.Hour)}}
	w.nw("nw").Revision = "r2"
	w.uninstall("nw", "pa")
	w.uninstall("nw", "pb")
	w.grantSlot("nw")
	for range 3 {
		w.pass()
	}
	w.wantWait(nodestate.SlotDrainBlocked, "PodDisruptionBudget web")
}

// UN-01: uninstall runs from any stage.
func TestUninstallFromAnyStage_UN01(t *testing.T) {
	for name, arrange := range map[string]func(w *world){
		"running":  func(w *world) { w.pass() },
		"erroring": func(w *world) { w.nw("nw").RetryLimit = 0; w.pass(); w.fail("nw", "pa", "Error", false); w.pass() },
		"back-off": func(w *world) { w.pass(); w.fail("nw", "pa", "Error", false); w.pass() },
		"deleting": func(w *world) { w.pass(); w.nw("nw").Deleting = true },
		"deleting, erroring": func(w *world) {
			w.nw("nw").RetryLimit = 0
			w.pass()
			w.fail("nw", "pa", "Error", false)
			w.pass()
			w.nw("nw").Deleting = true
		},
		"deleting, not selected": func(w *world) { w.finishAll(); w.nw("nw").Deleting, w.nw("nw").Selected = true, false },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makeUninstallable("pa")))
			arrange(w)
			if !w.nw("nw").Deleting {
				w.uninstall("nw", "pa")
			}
			w.grantSlot("nw")
			w.finishAll()
			w.want("nw", "pa", "absent")
			if !slices.ContainsFunc(w.in.Jobs, func(j Job) bool { return j.Identity.Stage == nodestate.StageUninstall && j.State == JobSucceeded }) {
				t.Fatalf("nothing was uninstalled: %v", w.started)
			}
			if w.nw("nw").Deleting && (len(w.in.Record.Status)+len(w.in.Record.Slots)+len(w.in.Record.Packages) != 0) {
				t.Fatalf("left on the node: %+v", w.in.Record.Set)
			}
		})
	}
}

// UN-02: the interrupt that was decided on when an uninstall began is carried out.
func TestUninstallKeepsItsInterrupt_UN02(t *testing.T) {
	p := makeUninstallable("pa")
	p.Interrupt = &nodestate.Interrupt{Type: "reboot"}
	w := newWorld(t, makeNodeWright("nw", p))
	w.finishAll()
	boot := w.in.Node.BootID
	w.uninstall("nw", "pa")
	w.pods = []Pod{{Name: "apps/web", UID: "u1"}}
	for w.at("nw", "pa") != "uninstall/in_progress" {
		w.pass()
	}
	if len(w.pods) != 0 || len(w.in.Record.Cordons) != 1 {
		t.Fatal("the uninstall began on a node that was not drained")
	}
	w.pkg("nw", "pa").Interrupt = nil
	w.finishAll()
	w.want("nw", "pa", "absent")
	if w.in.Node.BootID == boot || len(w.in.Record.Cordons) != 0 {
		t.Fatal("the node was not rebooted, or is still cordoned")
	}
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}

// UN-05: a cancelled uninstall is stopped, then the package is applied; once the
// interrupt has begun it goes to its end first.
func TestCancelledUninstall_UN05(t *testing.T) {
	p := makeUninstallable("pa")
	p.Interrupt = &nodestate.Interrupt{Type: "service"}
	for name, tc := range map[string]struct {
		at   string
		next string
	}{
		"uninstall": {"uninstall/in_progress", "apply/in_progress"},
		"interrupt": {"uninstall-interrupt/in_progress", "uninstall-interrupt/in_progress"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", p))
			w.finishAll()
			w.uninstall("nw", "pa")
			for w.at("nw", "pa") != tc.at {
				for i := range w.in.Jobs {
					w.in.Jobs[i].State = JobSucceeded
				}
				w.pass()
			}
			w.pkg("nw", "pa").Uninstall = false
			w.nw("nw").Revision += "c"
			w.grantSlot("nw")
			w.pass()
			w.pass()
			w.want("nw", "pa", tc.next)
			w.finishAll()
			w.want("nw", "pa", "post-interrupt/complete")
		})
	}
}

// A NodeWright that is being deleted waits for what a user has to allow.
func TestDeletionWaits(t *testing.T) {
	for name, hold := range map[string]func(w *world, on bool){
		"paused":   func(w *world, on bool) { w.nw("nw").Paused = on },
		"disabled": func(w *world, on bool) { w.nw("nw").Disabled = on },
		"ignored":  func(w *world, on bool) { w.in.Node.Ignored = on },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makeUninstallable("pa"), makePackage("pb")))
			w.finishAll()
			w.grantSlot("nw")
			hold(w, true)
			w.nw("nw").Deleting = true
			w.finishAll()
			w.want("nw", "pa", "config/complete")
			hold(w, false)
			w.grantSlot("nw")
			w.finishAll()
			w.want("nw", "pa", "absent")
			w.want("nw", "pb", "absent")
		})
	}
}

// A reboot that was fired ends before the NodeWright leaves the node.
func TestDeletionDuringAReboot(t *testing.T) {
	w := rebooted(t)
	w.nw("nw").Deleting = true
	if p := w.pass(); len(p.Delete) != 0 || len(p.Set.Cordons) != 1 {
		t.Fatalf("the reboot is taken back, or the node uncordoned: %+v", p)
	}
	w.succeed("nw", "pa")
	w.pass()
	w.want("nw", "pa", "interrupt/in_progress")
	w.reboot()
	w.in.Now = w.in.Now.Add(time.Minute)
	w.pass()
	w.want("nw", "pa", "absent")
	if len(w.in.Record.Cordons) != 0 {
		t.Fatal("still cordoned")
	}
}

// UN-03: a package that is to be taken off and is not there is done.
func TestUninstallOfWhatIsNotThere_UN03(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makeUninstallable("pa")))
	w.pkg("nw", "pa").Uninstall = true
	if p := w.pass(); len(p.Create) != 0 {
		t.Fatalf("started %+v", p.Create)
	}
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}
