package plan

import (
	"fmt"
	"maps"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// cleanUp takes a NodeWright off the node that is being deleted, or is gone:
// first its Jobs end, then all its keys go in one apply.
func (p *planner) cleanUp(name string, gone bool) {
	for i := range p.in.Jobs {
		job := &p.in.Jobs[i]
		if !job.Unreadable && job.State == JobUnfinished && job.Identity.NodeWright == name {
			p.deleteJob(job, ReasonDeleted, fmt.Sprintf("NodeWright %s is deleted", name))
		}
	}
	if p.unfinishedJobs(name) {
		return
	}
	// Requests would otherwise be for the next NodeWright of this name.
	for i := range p.in.Record.Requests {
		if r := &p.in.Record.Requests[i]; r.NodeWright == name {
			p.out.Answered = append(p.out.Answered, RequestAnswered{Key: r.Key, Value: r.Value})
		}
	}
	set := &p.out.Set
	if p.malformedNW[name] && !gone {
		// What cannot be read may say that something is still installed; it stays
		// until a user removes it, and holds the deletion.
		set.Status[name] = nodestate.StatusUnknown
	} else {
		delete(set.Status, name)
	}
	maps.DeleteFunc(set.Packages, func(r nodestate.PackageRef, _ nodestate.PackageStatus) bool { return r.NodeWright == name })
	delete(set.Slots, name)
	if _, cordoned := set.Cordons[name]; cordoned {
		p.endCordon(name)
	}
	delete(set.DrainStarts, name)
	delete(set.Handled, name)
	delete(set.LegacySeen, name)
}

// standDown is for a NodeWright that no longer selects the node, or whose node
// is ignored: what runs may end, nothing starts, the slot is given back. An
// attempt whose pod cannot start would keep the slot for its whole deadline, and
// one that is suspended for ever: both are ended. The entries stay, since the
// packages are still on the host.
func (p *planner) standDown(nw *NodeWright, reason string) {
	w := newWork(p, nw)
	w.forgetRemoved()
	w.adopt()
	w.answerRequests()
	w.observeAll()
	for i := range nw.Packages {
		e, ok := w.entry(nw.Packages[i].Name)
		job := p.jobOf(&e)
		switch {
		case !ok || job == nil || job.Unreadable || job.State != JobUnfinished:
		case e.State == nodestate.StateErroring:
			p.deleteJob(job, reason, "its pod cannot start, and the node left the rollout")
		case job.Held:
			p.deleteJob(job, reason, "it is suspended, and the node left the rollout")
		}
	}
	delete(p.out.Set.Status, nw.Name)
	if p.unfinishedJobs(nw.Name) || w.interrupts() {
		return
	}
	if _, cordoned := p.out.Set.Cordons[nw.Name]; cordoned {
		w.uncordon()
	}
	delete(p.out.Set.DrainStarts, nw.Name)
	switch {
	case w.batch == nil:
		delete(p.out.Set.Slots, nw.Name)
	case w.holdsSlot():
		p.out.Set.Slots[nw.Name] = nodestate.Slot{
			ID: w.batch.ID, NodeWright: nw.Name, State: nodestate.SlotReleased, Reason: reason,
		}
	}
}
