package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewright/nodewright/apis/nodestate"
)

func TestInterruptedInstall(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "service")))
	w.pods = []Pod{{Name: "apps/web", UID: "u1"}}
	p := w.pass()
	w.want("nw", "pa", "absent")
	if len(p.Evict)+len(p.Create) != 0 || len(p.Set.Cordons) != 1 {
		t.Fatalf("the first pass only cordons: %+v", p)
	}
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, nodestate.SlotDraining)
	p = w.pass()
	if len(p.Evict) != 1 || len(p.Create) != 0 || len(p.Set.DrainStarts) != 1 {
		t.Fatalf("the second pass evicts: %+v", p)
	}
	w.pass()
	w.want("nw", "pa", "apply/in_progress")
	if len(w.in.Record.DrainStarts) != 0 {
		t.Fatal("the drain is over, and its start still stands")
	}
	w.finishAll()
	w.want("nw", "pa", "post-interrupt/complete")
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
	if len(w.in.Record.Cordons) != 0 {
		t.Fatal("the node is complete and still cordoned")
	}
	want := []string{
		"nw/pa apply run 10 attempt 1", "nw/pa config run 10 attempt 1",
		"nw/pa interrupt run 10 attempt 1", "nw/pa post-interrupt run 10 attempt 1",
	}
	if diff := cmp.Diff(want, w.started); diff != "" {
		t.Fatalf("jobs (-want +got):\n%s", diff)
	}
	for _, reason := range []string{ReasonCordoned, ReasonInterrupt, ReasonUncordoned, ReasonNodeComplete} {
		if !w.told(reason) {
			t.Errorf("no event %s", reason)
		}
	}
}

// All that wait share the strongest interrupt; services are merged only among
// services.
func TestPackagesShareOneInterrupt(t *testing.T) {
	a, b := makeInterrupting("pa", "service"), makeInterrupting("pb", "reboot")
	a.Interrupt.Services = []string{"x.service"}
	w := newWorld(t, makeNodeWright("nw", a, b, makeInterrupting("pc", "noop"), makePackage("pd", "pa")))
	w.finishAll()
	interrupts := 0
	for _, j := range w.in.Jobs {
		if j.Identity.Interrupts() {
			interrupts++
			if j.Identity.Package != "pb" {
				t.Errorf("%s carries the interrupt, want pb", j.Identity.Package)
			}
		}
	}
	if interrupts != 1 {
		t.Fatalf("%d interrupts, want one: %v", interrupts, w.started)
	}
	for _, pkg := range []string{"pa", "pb", "pc"} {
		w.want("nw", pkg, "post-interrupt/complete")
	}
	w.want("nw", "pd", "config/complete")
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
}

func TestServicesAreMerged(t *testing.T) {
	a, b := makeInterrupting("pa", "service"), makeInterrupting("pb", "service")
	a.Interrupt.Services, b.Interrupt.Services = []string{"b.service"}, []string{"a.service", "b.service"}
	w := newWorld(t, makeNodeWright("nw", a, b))
	for range 10 {
		p := w.pass()
		for _, c := range p.Create {
			if c.Identity.Interrupts() {
				if diff := cmp.Diff(&nodestate.Interrupt{Type: "service", Services: []string{"a.service", "b.service"}}, c.Interrupt); diff != "" {
					t.Fatalf("interrupt (-want +got):\n%s", diff)
				}
				return
			}
		}
		for i := range w.in.Jobs {
			w.in.Jobs[i].State = JobSucceeded
		}
	}
	t.Fatalf("no interrupt: %v", w.started)
}

// ST-15, ST-17: who shares an interrupt follows its carrier from what stands.
func TestSkippedFollowsItsCarrier_ST15_ST17(t *testing.T) {
	carrier := nodestate.PackageRef{NodeWright: "nw", Package: "pa"}
	interrupt := &nodestate.Interrupt{Type: "service", Services: []string{"x.service"}}
	entry := func(name string, stage nodestate.Stage, state nodestate.State) nodestate.PackageStatus {
		return nodestate.PackageStatus{
			Name: name, NodeWright: "nw", UID: "nw-uid", Version: "1.0.0", Image: "reg/" + name, SpecHash: "s1",
			Stage: stage, State: state, Run: 2, Attempt: 1, Interrupt: interrupt, BootID: "boot-1", Since: "2026-01-01T11:59:00Z",
		}
	}
	unreadable := func(w *world) {
		key := nodestate.NewPackageKey(nodestate.KindNodeState, "nw", "pa").String()
		delete(w.in.Record.Packages, carrier)
		w.in.Record.Malformed = []nodestate.Malformed{{Key: key, Value: "{junk", NodeWright: "nw", Package: "pa", Kind: nodestate.KindNodeState}}
	}
	for name, tc := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"complete":    {func(w *world) { w.set(entry("pa", nodestate.StageInterrupt, nodestate.StateComplete)) }, "post-interrupt/in_progress"},
		"further":     {func(w *world) { w.set(entry("pa", nodestate.StagePostInterrupt, nodestate.StateComplete)) }, "post-interrupt/in_progress"},
		"gone":        {func(w *world) { delete(w.in.Record.Packages, carrier) }, "config/complete"},
		"restarted":   {func(w *world) { w.set(entry("pa", nodestate.StageApply, nodestate.StateInProgress)) }, "config/complete"},
		"still at it": {func(w *world) { w.set(entry("pa", nodestate.StageInterrupt, nodestate.StateInProgress)) }, "interrupt/skipped"},
		"given up":    {func(w *world) { w.set(failed(entry("pa", nodestate.StageInterrupt, nodestate.StateErroring))) }, "interrupt/skipped"},
		// Whether the interrupt was is not known: another one could be the second.
		"unreadable":             {unreadable, "interrupt/skipped"},
		"unreadable and removed": {func(w *world) { unreadable(w); w.nw("nw").Packages = w.nw("nw").Packages[1:] }, "interrupt/skipped"},
		"leader without Job":     {func(w *world) { w.set(entry("pa", nodestate.StageInterrupt, nodestate.StateComplete)); w.in.Jobs = nil }, "post-interrupt/in_progress"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := makeInterrupting("pa", "service"), makeInterrupting("pb", "service")
			a.Interrupt, b.Interrupt = interrupt, interrupt
			w := newWorld(t, makeNodeWright("nw", a, b))
			w.in.Record.Cordons = map[string]time.Time{"nw": w.in.Now.Add(-time.Hour)}
			skipped := entry("pb", nodestate.StageInterrupt, nodestate.StateSkipped)
			skipped.Carrier = "pa"
			w.set(skipped)
			tc.change(w)
			w.pass()
			w.want("nw", "pb", tc.want)
		})
	}
}

// Nobody knows what runs for a record that cannot be read: the node is not
// interrupted beside it, for any NodeWright, and says so.
func TestNoInterruptBesideAnUnreadableRecord(t *testing.T) {
	for name, ref := range map[string]nodestate.PackageRef{
		"of the NodeWright": {NodeWright: "nw", Package: "pb"},
		"of another":        {NodeWright: "zz", Package: "pz"},
		"of nobody":         {NodeWright: "gone", Package: "pg"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "service"), makePackage("pb")), makeNodeWright("zz", makePackage("pz")))
			w.in.Record.Malformed = []nodestate.Malformed{{
				Key:   nodestate.NewPackageKey(nodestate.KindNodeState, ref.NodeWright, ref.Package).String(),
				Value: "{junk", NodeWright: ref.NodeWright, Package: ref.Package, Kind: nodestate.KindNodeState,
			}}
			for range 20 {
				for _, c := range w.pass().Create {
					if c.Identity.Interrupts() {
						t.Fatal("the node is interrupted")
					}
				}
				for i := range w.in.Jobs {
					w.in.Jobs[i].State = JobSucceeded
				}
			}
			w.want("nw", "pa", "config/complete")
			w.wantWait(nodestate.SlotInterruptWaits, "which cannot be read")
			w.in.Record.Malformed = nil
			w.finishAll()
			w.want("nw", "pa", "post-interrupt/complete")
		})
	}
}

func failed(e nodestate.PackageStatus) nodestate.PackageStatus {
	e.Failures, e.Reason = 4, "BackoffLimitExceeded"
	return e
}

// A node that is being interrupted runs nothing else, whoever asks for it.
func TestNothingRunsDuringAnInterrupt(t *testing.T) {
	first := makeNodeWright("first", makeInterrupting("pa", "service"))
	second := makeNodeWright("second", makePackage("pb"))
	w := newWorld(t, first, second)
	for w.at("first", "pa") != "interrupt/in_progress" {
		w.pass()
		for i := range w.in.Jobs {
			if !w.in.Jobs[i].Identity.Interrupts() {
				w.in.Jobs[i].State = JobSucceeded
			}
		}
	}
	w.nw("first").Disabled = true
	w.grantSlot("second")
	w.pass()
	w.want("second", "pb", "absent")
	w.wantStatus("second", nodestate.StatusInProgress, nodestate.SlotWorking, nodestate.SlotInterruptWaits)
	if j := w.running("first", "pa"); j.Suspended {
		t.Fatal("an interrupt that was begun is suspended")
	}
	w.succeed("first", "pa")
	w.pass()
	w.want("second", "pb", "apply/in_progress")
}

// JB-17: an interrupt waits for Jobs that run, of other NodeWrights too, and not
// for those that have ended.
func TestInterruptWaitsForJobsThatRun_JB17(t *testing.T) {
	w := newWorld(t, makeNodeWright("a", makeInterrupting("pa", "noop")), makeNodeWright("b", makePackage("pb")))
	w.nw("a").Disabled = true
	w.pass()
	w.want("b", "pb", "apply/in_progress")
	w.nw("a").Disabled, w.nw("b").Disabled = false, true
	w.in.Jobs[0].Held, w.in.Jobs[0].Suspended = true, true
	for range 4 {
		w.pass()
		for i := range w.in.Jobs {
			if w.in.Jobs[i].Identity.NodeWright == "a" {
				w.in.Jobs[i].State = JobSucceeded
			}
		}
	}
	w.want("a", "pa", "config/complete")
	w.wantStatus("a", nodestate.StatusInProgress, nodestate.SlotWorking, nodestate.SlotInterruptWaits)
	w.in.Jobs = w.in.Jobs[1:]
	w.pass()
	w.want("a", "pa", "interrupt/in_progress")
}

// A change of the spec during an interrupt waits for its end, then starts over
// under the same cordon.
func TestChangeDuringInterrupt(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "service")))
	w.toInterrupt("nw", "pa")
	cordon := w.in.Record.Cordons["nw"]
	w.pkg("nw", "pa").Version = "2.0.0"
	w.in.Now = w.in.Now.Add(time.Minute)
	w.pass()
	w.want("nw", "pa", "interrupt/in_progress")
	w.succeed("nw", "pa")
	w.pass()
	w.want("nw", "pa", "upgrade/in_progress")
	if !w.in.Record.Cordons["nw"].Equal(cordon) {
		t.Fatal("the cordon did not stay")
	}
}

// The interrupt is decided when the run begins, and follows the spec until then.
func TestInterruptFollowsTheSpecUntilItBegins(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "reboot"), makePackage("pb")))
	for w.at("nw", "pa") != "config/complete" {
		w.pass()
		for i := range w.in.Jobs {
			if w.in.Jobs[i].Identity.Package == "pa" {
				w.in.Jobs[i].State = JobSucceeded
			}
		}
	}
	w.pkg("nw", "pa").Interrupt, w.pkg("nw", "pa").SpecHash = nil, "s2"
	w.finishAll()
	w.want("nw", "pa", "config/complete")
	w.wantStatus("nw", nodestate.StatusComplete, nodestate.SlotReleased, ReasonComplete)
	if w.in.Node.BootID != "boot-1" || len(w.in.Record.Cordons) != 0 {
		t.Fatal("the node was rebooted for an interrupt that was taken back, or is still cordoned")
	}
	// On a complete package a new interrupt does nothing.
	w.pkg("nw", "pa").Interrupt, w.pkg("nw", "pa").SpecHash = &nodestate.Interrupt{Type: "reboot"}, "s3"
	if p := w.pass(); len(p.Create)+len(p.Set.Cordons) != 0 {
		t.Fatalf("a complete package started again: %+v", p.Create)
	}
}

func TestConfigInterrupts(t *testing.T) {
	for name, tc := range map[string]struct {
		match *nodestate.Interrupt
		last  string
	}{
		"no key matches": {nil, "config/complete"},
		"a key matches":  {&nodestate.Interrupt{Type: "service", Services: []string{"x.service"}}, "post-interrupt/complete"},
	} {
		t.Run(name, func(t *testing.T) {
			// The interrupt of the package itself is for installs alone.
			w := newWorld(t, makeNodeWright("nw", makeInterrupting("pa", "reboot")))
			w.finishAll()
			boot := w.in.Node.BootID
			w.pkg("nw", "pa").ConfigHash = "c2"
			w.nw("nw").Revision = "r2"
			w.grantSlot("nw")
			if tc.match != nil {
				w.in.ConfigInterrupts = map[nodestate.PackageRef]nodestate.Interrupt{{NodeWright: "nw", Package: "pa"}: *tc.match}
			}
			w.started = nil
			w.finishAll()
			w.want("nw", "pa", tc.last)
			if w.in.Node.BootID != boot {
				t.Fatal("a change of the configMap rebooted the node")
			}
			if got, want := len(w.started), map[bool]int{true: 3, false: 1}[tc.match != nil]; got != want {
				t.Fatalf("jobs %v, want %d", w.started, want)
			}
		})
	}
}

// set puts an entry on the node.
func (w *world) set(e nodestate.PackageStatus) {
	if w.in.Record.Packages == nil {
		w.in.Record.Packages = map[nodestate.PackageRef]nodestate.PackageStatus{}
	}
	w.in.Record.Packages[e.Ref()] = e
}

// toInterrupt passes until the package interrupts the node.
func (w *world) toInterrupt(nw, pkg string) {
	w.t.Helper()
	for range 20 {
		w.pass()
		if w.at(nw, pkg) == "interrupt/in_progress" || w.at(nw, pkg) == "uninstall-interrupt/in_progress" {
			return
		}
		for i := range w.in.Jobs {
			w.in.Jobs[i].State = JobSucceeded
		}
	}
	w.t.Fatalf("%s/%s never interrupted the node: %v", nw, pkg, w.started)
}
