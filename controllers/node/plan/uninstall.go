package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// uninstalls tells whether the package is to be taken off the host.
func (w *work) uninstalls(pkg *Package) bool {
	return pkg.CanUninstall && (pkg.Uninstall || w.nw.Deleting)
}

// nextUninstall decides for a package that is to be taken off the host, from
// whatever stage it is in.
func (w *work) nextUninstall(pkg *Package, e *nodestate.PackageStatus, recorded bool) step {
	switch {
	case !recorded:
		return step{}
	case !e.Stage.Uninstalls():
		return restart(nodestate.StageUninstall, "its uninstall was asked for")
	case e.State == nodestate.StateComplete:
		stage, more := nextStage(e)
		if !more {
			return step{}
		}
		return step{stage: stage, reason: "the stage before is complete"}
	case e.State == nodestate.StateSkipped:
		return step{}
	case e.UID != w.nw.UID || e.State == nodestate.StateUnknown:
		return restart(nodestate.StageUninstall, "nobody knows how far the uninstall came")
	case e.Stage == nodestate.StageUninstall && (e.SpecHash != pkg.SpecHash || otherImage(pkg, e)):
		return restart(nodestate.StageUninstall, "the package changed while its uninstall was not complete")
	case e.SpecHash != pkg.SpecHash:
		// The interrupt was decided on when the uninstall began.
		return step{stage: e.Stage, again: true, reason: "the package changed while its uninstall was not complete"}
	case w.mayRetry(e):
		return step{stage: e.Stage, again: true, reason: "the retry limit allows another attempt"}
	default:
		return step{}
	}
}

// otherImage tells whether the spec has another image of the version that is on
// the host, as after one that could not be pulled.
func otherImage(pkg *Package, e *nodestate.PackageStatus) bool {
	return nodestate.SameVersion(pkg.Version, e.Version) && (pkg.Image != e.Image || pkg.ContainerSHA != e.ContainerSHA)
}

// nextCancelled decides for a package whose uninstall is not wanted any more. Once
// the node is interrupted for it, it goes to its end, unless that was given up.
func (w *work) nextCancelled(e *nodestate.PackageStatus) step {
	if e.Stage == nodestate.StageUninstallInterrupt &&
		(e.State == nodestate.StateSkipped || e.State == nodestate.StateComplete || e.State == nodestate.StateErroring && !w.parked(e)) {
		return step{}
	}
	return restart(nodestate.StageApply, "its uninstall was cancelled")
}

// dependents names the packages that have to be taken off before this one.
func (w *work) dependents(pkg *Package) string {
	var names []string
	for i := range w.nw.Packages {
		other := &w.nw.Packages[i]
		if _, depends := other.DependsOn[pkg.Name]; !depends || other.Name == pkg.Name || !w.uninstalls(other) {
			continue
		}
		if _, recorded := w.entry(other.Name); recorded {
			names = append(names, other.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// finishUninstalls takes the entries off whose uninstall is over. The Job keeps
// its time to live.
func (w *work) finishUninstalls() {
	var names []string
	for _, ref := range w.p.refsOf(w.nw.Name) {
		e := w.p.out.Set.Packages[ref]
		if !e.Stage.Uninstalls() || e.State != nodestate.StateComplete {
			continue
		}
		if _, more := nextStage(&e); more {
			continue
		}
		delete(w.p.out.Set.Packages, ref)
		names = append(names, e.Name)
	}
	if len(names) > 0 {
		w.p.event(Event{w.nw.Name, "", false, ReasonUninstalled, fmt.Sprintf("taken off the host: %s", strings.Join(names, ", "))})
	}
}

// planDeletion takes the packages of a NodeWright that is being deleted off the
// node, as far as they can be, and then all that it left here.
func (p *planner) planDeletion(nw *NodeWright) {
	w := newWork(p, nw)
	w.observeAll()
	if !p.uninstallsHere(nw) && !w.interrupts() {
		p.cleanUp(nw.Name, false)
		return
	}
	for _, ref := range p.refsOf(nw.Name) {
		if pkg := w.specOf(ref.Package); pkg == nil || !pkg.CanUninstall {
			w.abandon(ref)
		}
	}
	w.advance()
	if !nw.Disabled && p.gate == "" {
		p.gate = nw.Name
	}
}

// abandon ends what runs for a package that stays on the host of a NodeWright that
// is being deleted. Only an interrupt goes to its end, once it has its Job.
func (w *work) abandon(ref nodestate.PackageRef) {
	e := w.p.out.Set.Packages[ref]
	if interrupting(&e) && w.p.jobOf(&e) != nil || w.p.stopExecutors(ref, ReasonDeleted, fmt.Sprintf("NodeWright %s is deleted", w.nw.Name)) {
		return
	}
	if e.State == nodestate.StateInProgress {
		e.State, e.Reason = nodestate.StateUnknown, ReasonDeleted
		w.put(e)
	}
}

// uninstallsHere tells whether a package that can be taken off is on the node.
func (p *planner) uninstallsHere(nw *NodeWright) bool {
	return slices.ContainsFunc(nw.Packages, func(pkg Package) bool {
		_, recorded := p.out.Set.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: pkg.Name}]
		return recorded && pkg.CanUninstall
	})
}

// interrupts tells whether the node is being interrupted for the NodeWright.
func (w *work) interrupts() bool {
	return slices.ContainsFunc(w.p.refsOf(w.nw.Name), func(ref nodestate.PackageRef) bool {
		e := w.p.out.Set.Packages[ref]
		return interrupting(&e) && w.p.interruptLasts(&e)
	})
}
