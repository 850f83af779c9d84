package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// due is a package with the step that it waits to take.
type due struct {
	pkg  *Package
	step step
}

// decide says which interrupt the run of the step ends in, nil for none, and
// whether the run only brings another configMap. It is decided when the run
// begins, from what the spec has then.
func (w *work) decide(pkg *Package, s step) (interrupt *nodestate.Interrupt, configOnly bool) {
	old, _ := w.entry(pkg.Name)
	switch {
	case !s.newRun:
		return old.Interrupt, old.ConfigOnly
	case s.stage == nodestate.StageUninstall && old.Stage.Uninstalls():
		return old.Interrupt, false
	case s.stage == nodestate.StageApply, s.stage == nodestate.StageUpgrade, s.stage == nodestate.StageUninstall:
		return pkg.Interrupt, false
	case s.stage == nodestate.StageConfig && beforeInterrupt(&old):
		return pkg.Interrupt, false
	case s.stage == nodestate.StageConfig:
		return w.decideConfig(pkg, &old), true
	case old.ConfigOnly:
		return old.Interrupt, true
	default:
		return pkg.Interrupt, false
	}
}

// decideConfig is the interrupt of a run that only brings another configMap: what
// the keys that changed ask for, and what an unfinished run before was to end in.
func (w *work) decideConfig(pkg *Package, old *nodestate.PackageStatus) *nodestate.Interrupt {
	var all []nodestate.Interrupt
	if changed, ok := w.p.in.ConfigInterrupts[w.ref(pkg.Name)]; ok {
		all = append(all, changed)
	}
	pending := old.Stage == nodestate.StageConfig || old.Stage == nodestate.StageInterrupt && old.State != nodestate.StateComplete
	if old.Interrupt != nil && pending {
		all = append(all, *old.Interrupt)
	}
	if strongest, ok := nodestate.StrongestInterrupt(all); ok {
		return &strongest
	}
	return nil
}

// refreshInterrupt takes over another interrupt of the spec, or none, while the
// package waits for its own: nothing was interrupted yet.
func (w *work) refreshInterrupt(pkg *Package, e nodestate.PackageStatus) {
	if e.Stage != nodestate.StageConfig || e.State != nodestate.StateComplete || e.Interrupt == nil ||
		e.ConfigOnly || e.SpecHash == pkg.SpecHash || e.UID != w.nw.UID {
		return
	}
	e.Interrupt, e.SpecHash = pkg.Interrupt, pkg.SpecHash
	w.put(e)
}

// resolveSkipped lets packages that share the interrupt of another one follow it:
// complete when it is, back to where they waited when it did not come to that. It
// follows from what stands, whenever that is looked at.
func (w *work) resolveSkipped() {
	for _, ref := range w.p.refsOf(w.nw.Name) {
		e := w.p.out.Set.Packages[ref]
		if e.State != nodestate.StateSkipped || !e.Stage.Interrupts() {
			continue
		}
		carrier, ok := w.entry(e.Carrier)
		switch {
		case w.p.entryUnreadable(w.ref(e.Carrier)):
			// The interrupt may have been, or be under way: to plan another one now could
			// interrupt the node twice.
			continue
		case ok && carrier.Stage.Interrupts() && carrier.State == nodestate.StateComplete,
			ok && carrier.Stage == nodestate.StagePostInterrupt:
			e.State, e.Carrier, e.Message = nodestate.StateComplete, "", ""
		case ok && carrier.Stage.Interrupts() && (carrier.State == nodestate.StateInProgress || carrier.State == nodestate.StateErroring):
			continue
		case e.Stage == nodestate.StageUninstallInterrupt:
			e.Stage, e.State, e.Carrier, e.Message = nodestate.StageUninstall, nodestate.StateComplete, "", ""
		default:
			e.Stage, e.State, e.Carrier, e.Message = nodestate.StageConfig, nodestate.StateComplete, "", ""
		}
		w.put(e)
	}
}

// startInterrupts begins the one interrupt that all packages share which wait for
// one, once no package of the NodeWright can go on without it, nothing of any
// NodeWright runs on the node, and the node is empty.
func (w *work) startInterrupts() {
	if len(w.atInterrupt) == 0 || w.advancing || w.goesOn() {
		return
	}
	if other := w.p.runsAnything(); other != "" {
		w.wait(nodestate.SlotInterruptWaits, "the interrupt of the node waits for the end of "+other)
		w.p.holdStalled(w.nw.Name)
		return
	}
	carrier, interrupt := w.carrier()
	reboot := interrupt.Type == nodestate.InterruptReboot
	if reboot && w.p.in.Node.BootID == "" {
		w.wait(nodestate.SlotNoBootID, "the kubelet reports no boot ID, so nobody could tell that the node was rebooted")
		return
	}
	if !w.quiet() {
		w.awaitQuiet = append(w.awaitQuiet, w.atInterrupt...)
		return
	}
	var names []string
	for _, d := range w.atInterrupt {
		names = append(names, d.pkg.Name)
		if d.pkg != carrier.pkg {
			w.skip(d, carrier.pkg.Name)
		}
	}
	w.begin(carrier.pkg, carrier.step)
	e, _ := w.entry(carrier.pkg.Name)
	e.Interrupt = &interrupt
	w.put(e)
	w.p.interrupts, w.p.begun = append(w.p.interrupts, e.Ref()), append(w.p.begun, e.Ref())
	w.p.event(Event{w.nw.Name, "", false, ReasonInterrupt, fmt.Sprintf("the node is interrupted (%s) for %s",
		describeInterrupt(&interrupt), strings.Join(names, ", "))})
}

// carrier is the package whose Job interrupts the node, the first by name of
// those that ask for the strongest interrupt, and what that Job does for all.
func (w *work) carrier() (due, nodestate.Interrupt) {
	all := make([]nodestate.Interrupt, len(w.atInterrupt))
	for i, d := range w.atInterrupt {
		if wanted, _ := w.decide(d.pkg, d.step); wanted != nil {
			all[i] = *wanted
		}
	}
	strongest, _ := nodestate.StrongestInterrupt(all)
	i := slices.IndexFunc(all, func(x nodestate.Interrupt) bool { return x.Type == strongest.Type })
	return w.atInterrupt[i], strongest
}

// skip lets a package share the interrupt of another one.
func (w *work) skip(d due, carrier string) {
	e, _ := w.entry(d.pkg.Name)
	e.Interrupt, e.ConfigOnly = w.decide(d.pkg, d.step)
	e.Stage, e.State, e.Carrier = d.step.stage, nodestate.StateSkipped, carrier
	e.SpecHash, e.Rollout, e.Reason = d.pkg.SpecHash, w.nw.Revision, ""
	e.Message = fmt.Sprintf("shares the interrupt of package %s", carrier)
	w.put(e)
}

// goesOn tells whether an attempt of the NodeWright runs, or is due to.
func (w *work) goesOn() bool {
	for i := range w.nw.Packages {
		pkg := &w.nw.Packages[i]
		e, ok := w.entry(pkg.Name)
		// One that has to start anew either did so in this pass, or waits for others.
		if !ok || e.State != nodestate.StateInProgress || w.p.malformed[w.ref(pkg.Name)] || w.next(pkg).stage != "" {
			continue
		}
		if job := w.p.jobOf(&e); job == nil || !job.Idle {
			return true
		}
	}
	return false
}

// holdStalled suspends Jobs whose pods cannot start, so that an image that cannot
// be pulled holds up no interrupt. They go on once the node was interrupted.
func (p *planner) holdStalled(nodeWright string) {
	for i := range p.in.Jobs {
		job := &p.in.Jobs[i]
		if job.Unreadable || job.State != JobUnfinished || job.Suspended || job.Deleting || string(job.Identity.NodeUID) != p.in.Node.UID {
			continue
		}
		e := p.out.Set.Packages[job.Identity.Ref()]
		if e.State == nodestate.StateErroring && identityOf(&p.in.Node, &e) == job.Identity {
			p.hold(job, true, fmt.Sprintf("its pod cannot start, and NodeWright %s interrupts the node", nodeWright))
		}
	}
}

// interruptDue tells whether a NodeWright that may go on waits to interrupt the
// node, or does so: nothing that is suspended goes on before.
func (p *planner) interruptDue() bool {
	for i := range p.order {
		nw := &p.order[i]
		w := newWork(p, nw)
		if w.stopped() || nw.Held != "" || !w.holdsSlot() {
			continue
		}
		for j := range nw.Packages {
			// Also an interrupt that failed, and that another attempt is allowed of now:
			// what it suspends would go on again at once.
			if w.next(&nw.Packages[j]).stage.Interrupts() {
				return true
			}
		}
	}
	return p.interrupted(nodestate.PackageRef{})
}

// runsAnything names a Job or a package with a pod that has not ended on the
// node, of any NodeWright, or a record that does not tell; empty for none.
func (p *planner) runsAnything() string {
	for i := range p.in.Jobs {
		job := &p.in.Jobs[i]
		if job.State != JobUnfinished || job.Idle {
			continue
		}
		if job.Unreadable {
			return "Job " + job.Name
		}
		return fmt.Sprintf("Job %s of NodeWright %s", job.Name, job.Identity.NodeWright)
	}
	if len(p.in.Executors) > 0 {
		e := p.in.Executors[0]
		return fmt.Sprintf("a pod of package %s of NodeWright %s", e.Package, e.NodeWright)
	}
	for _, key := range slices.Sorted(maps.Keys(p.unreadable)) {
		// A Job that was just created may not be seen yet, and no record names it.
		return "what may run for the record " + key + ", which cannot be read"
	}
	return ""
}

// interrupted tells whether the node is being interrupted for another package.
func (p *planner) interrupted(but nodestate.PackageRef) bool {
	return slices.ContainsFunc(p.interrupts, func(ref nodestate.PackageRef) bool {
		e := p.out.Set.Packages[ref]
		return ref != but && interrupting(&e) && (p.underway(&e) || slices.Contains(p.begun, ref))
	})
}

// underway tells whether the node is being interrupted for the entry. Between two
// attempts it is not.
func (p *planner) underway(e *nodestate.PackageStatus) bool {
	return e.Reason != ReasonBackOff && p.interruptLasts(e)
}

// interruptLasts tells whether the Job of an interrupt runs, or the node may go
// down for it any time.
func (p *planner) interruptLasts(e *nodestate.PackageStatus) bool {
	job := p.jobOf(e)
	return job != nil && (job.State == JobUnfinished || rebooting(e))
}

func describeInterrupt(i *nodestate.Interrupt) string {
	if len(i.Services) == 0 {
		return i.Type
	}
	return i.Type + " " + strings.Join(i.Services, ", ")
}
