package plan

import (
	"fmt"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// observeReboot brings the entry of a reboot up to date. Only the boot ID decides
// it: the Job may end before the host goes down, be killed by that, or be replaced
// after it. The stage timeout of the package bounds it from when its Job was
// created. byJob tells whether the rest follows from the Job as for other stages.
func (w *work) observeReboot(e nodestate.PackageStatus, pkg *Package) (byJob bool) {
	if w.bootChanged(&e) {
		e.State, e.Reason, e.Message, e.UID = nodestate.StateComplete, "", "", w.nw.UID
		before := e.BootID
		w.put(e)
		w.p.moveBaselines(before)
		return false
	}
	job := w.p.jobOf(&e)
	if e.State == nodestate.StateErroring {
		if w.parked(&e) {
			return false
		}
		e = w.startedAfterAll(e, job)
	}
	if since, err := nodestate.ParseTime(e.Since); err == nil && pkg.StageTimeout > 0 && job != nil && e.State == nodestate.StateInProgress && e.Reason != ReasonBackOff {
		ends := since.Add(pkg.StageTimeout)
		if !w.p.in.Now.Before(ends) {
			w.giveUp(e, ReasonRebootTimeout, fmt.Sprintf("the node reports no new boot within %s of the interrupt; "+
				"it is complete as soon as the node is up again, else look at the host and ask for a rerun", pkg.StageTimeout))
			return false
		}
		w.p.due(ends)
	}
	w.active = true
	if n := &w.p.in.Node; !n.Ready || n.BootID != e.BootID {
		// It goes down, or comes up: what became of the Job does not matter.
		return false
	}
	return job == nil || job.Unreadable || job.State != JobSucceeded
}

// startedAfterAll brings back an entry whose pod could not start, and whose Job
// has ended well since.
func (w *work) startedAfterAll(e nodestate.PackageStatus, job *Job) nodestate.PackageStatus {
	if job.State == JobSucceeded {
		e.State, e.Reason, e.Message = nodestate.StateInProgress, "", ""
		w.put(e)
	}
	return e
}

// bootChanged tells whether the node came up again since the baseline of the
// entry.
func (w *work) bootChanged(e *nodestate.PackageStatus) bool {
	n := &w.p.in.Node
	return n.Ready && e.BootID != "" && n.BootID != "" && n.BootID != e.BootID
}

// moveBaselines notes on all entries that the reboot from this boot was ours.
func (p *planner) moveBaselines(from string) {
	for ref := range p.out.Set.Packages {
		e := p.out.Set.Packages[ref]
		if e.BootID == from && (!e.Stage.Interrupts() || e.State == nodestate.StateComplete) {
			e.BootID = p.in.Node.BootID
			p.out.Set.Packages[ref] = e
		}
	}
}

// rebooted tells whether the package has to be applied anew since the node was
// rebooted by others, as long as the configuration asks for that.
func (w *work) rebooted(e *nodestate.PackageStatus) bool {
	return w.p.in.Config.ReapplyOnReboot && !e.Stage.Interrupts() && w.bootChanged(e)
}

// bootOf is the boot that an entry is to show: of an interrupt that is not over
// the one at its start, and where reboots start packages anew the one since which
// the package was not.
func (w *work) bootOf(e, old *nodestate.PackageStatus) string {
	sameRun := old.Run == e.Run && old.BootID != ""
	switch {
	case sameRun && e.Stage.Interrupts() && old.Stage == e.Stage && e.State != nodestate.StateComplete:
		return old.BootID
	case sameRun && w.rebooted(old):
		return old.BootID
	default:
		return w.p.in.Node.BootID
	}
}
