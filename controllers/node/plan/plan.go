package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// Compute decides what happens next on the node.
func Compute(in Input) Plan {
	p := newPlanner(&in)
	for _, name := range in.Gone {
		p.cleanUp(name, true)
	}
	for i := range p.order {
		p.planNodeWright(&p.order[i])
	}
	p.planTaints()
	p.endStrayJobs()
	return p.finish()
}

// planner collects the plan of one node.
type planner struct {
	in  *Input
	out Plan
	// order is the NodeWrights by priority, then name.
	order []NodeWright
	// gate names the earlier NodeWright that holds back those after it, if any.
	gate string
	// working names the NodeWright that has begun on the node and is not done.
	working string
	// interrupts are packages for which the node may be being interrupted, begun
	// those for which that is decided in this pass.
	interrupts []nodestate.PackageRef
	begun      []nodestate.PackageRef
	// unreadable are the keys of entries that cannot be read, whether the spec has
	// their packages or not.
	unreadable map[string]bool
	// malformed packages of the spec, and NodeWrights that have one.
	malformed   map[nodestate.PackageRef]bool
	malformedNW map[string]bool
}

func newPlanner(in *Input) *planner {
	p := &planner{
		in:          in,
		order:       slices.Clone(in.NodeWrights),
		malformed:   map[nodestate.PackageRef]bool{},
		malformedNW: map[string]bool{},
	}
	slices.SortFunc(p.order, func(a, b NodeWright) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
	rec := &in.Record
	p.out.Set = nodestate.Set{
		Packages:    maps.Clone(rec.Packages),
		Status:      maps.Clone(rec.Status),
		Slots:       maps.Clone(rec.Slots),
		Cordons:     maps.Clone(rec.Cordons),
		DrainStarts: maps.Clone(rec.DrainStarts),
		Handled:     maps.Clone(rec.Handled),
		LegacySeen:  maps.Clone(rec.LegacySeen),
		Raw:         carried(rec.Raw),
	}
	for ref, e := range rec.Packages {
		if interrupting(&e) {
			p.interrupts = append(p.interrupts, ref)
		}
	}
	fill(&p.out.Set)
	p.findMalformed()
	p.working = p.findWorking()
	return p
}

func fill(s *nodestate.Set) {
	if s.Packages == nil {
		s.Packages = map[nodestate.PackageRef]nodestate.PackageStatus{}
	}
	if s.Status == nil {
		s.Status = map[string]nodestate.StatusWord{}
	}
	if s.Slots == nil {
		s.Slots = map[string]nodestate.Slot{}
	}
}

// carried are the unreadable values of the node controller that stay as they
// are. Status and slot are left out: both follow from the rest, and are
// written anew.
func carried(raw map[string]string) map[string]string {
	out := map[string]string{}
	for full, value := range raw {
		key, ok := nodestate.ParseKey(full)
		if !ok || key.Kind == nodestate.KindStatus || key.Kind == nodestate.KindSlot {
			continue
		}
		if owner, _ := key.Owner(); owner == nodestate.OwnerNode {
			out[full] = value
		}
	}
	return out
}

func (p *planner) entryUnreadable(ref nodestate.PackageRef) bool {
	return p.unreadable[nodestate.NewPackageKey(nodestate.KindNodeState, ref.NodeWright, ref.Package).String()]
}

// findMalformed tells which packages have an unreadable entry: work stops for
// those alone.
func (p *planner) findMalformed() {
	for _, m := range p.in.Record.Malformed {
		if m.Kind == nodestate.KindNodeState {
			if p.unreadable == nil {
				p.unreadable = map[string]bool{}
			}
			p.unreadable[m.Key] = true
			p.malformedNW[m.NodeWright] = true
		}
	}
	if len(p.unreadable) == 0 {
		return
	}
	for i := range p.order {
		nw := &p.order[i]
		for j := range nw.Packages {
			ref := nodestate.PackageRef{NodeWright: nw.Name, Package: nw.Packages[j].Name}
			if p.entryUnreadable(ref) {
				p.malformed[ref] = true
				p.malformedNW[nw.Name] = true
			}
		}
	}
}

// findWorking names the NodeWright that has begun on the node: it is finished
// before an earlier one that came later starts.
func (p *planner) findWorking() string {
	for i := range p.order {
		nw := &p.order[i]
		switch {
		case nw.Disabled, nw.Deleting && !p.uninstallsHere(nw), !nw.Deleting && (!nw.Selected || nw.Held != ""):
			continue
		}
		// The slot may answer the grant before: one that was renewed meanwhile is
		// still at work.
		_, granted := p.in.Record.Batches[nw.Name]
		slot, answered := p.in.Record.Slots[nw.Name]
		if granted && answered && slot.State == nodestate.SlotWorking && !p.stuck(nw.Name) {
			return nw.Name
		}
	}
	return ""
}

// stuck tells whether all that is left of a NodeWright on the node is erroring,
// as for an image that cannot be pulled: others need not wait for that.
func (p *planner) stuck(nodeWright string) bool {
	erroring := false
	for ref, e := range p.in.Record.Packages {
		if ref.NodeWright != nodeWright {
			continue
		}
		if e.State == nodestate.StateInProgress {
			return false
		}
		erroring = erroring || e.State == nodestate.StateErroring
	}
	return erroring
}

func (p *planner) planNodeWright(nw *NodeWright) {
	switch {
	case nw.Deleting:
		p.planDeletion(nw)
	case !nw.Selected:
		p.standDown(nw, ReasonNotSelected)
	case p.in.Node.Ignored:
		p.standDown(nw, ReasonIgnored)
	default:
		w := newWork(p, nw)
		w.run()
		open := nw.Paused || !w.complete() || nw.AllFirst && !nw.Everywhere
		if open && !nw.Disabled && nw.Held == "" && p.gate == "" {
			p.gate = nw.Name
		}
	}
}

// heldBack names the NodeWright that must be done with the node first, if any.
// A paused one holds those after it even if it is complete.
func (p *planner) heldBack(nw *NodeWright) string {
	switch {
	case p.working == nw.Name:
		return ""
	case p.working != "":
		return p.working
	default:
		return p.gate
	}
}

// comesFirst says of a NodeWright that it holds others back, and what it is at.
func (p *planner) comesFirst(by string) string {
	i := slices.IndexFunc(p.order, func(nw NodeWright) bool { return nw.Name == by })
	nw, why := &p.order[i], ""
	switch {
	case nw.Deleting:
		why = ": it is being deleted"
	case nw.Paused:
		why = ": it is paused"
	case nw.AllFirst:
		why = ", nor on all other nodes (its sequencing is all)"
	}
	return fmt.Sprintf("NodeWright %s comes first on this node and is not done there%s", by, why)
}

// due notes a time at which something is to be looked at again.
func (p *planner) due(at time.Time) {
	if p.out.NextCheck.IsZero() || at.Before(p.out.NextCheck) {
		p.out.NextCheck = at
	}
}

func (p *planner) event(e Event) { p.out.Events = append(p.out.Events, e) }

func (p *planner) finish() Plan {
	out := p.out
	slices.SortFunc(out.Create, func(a, b JobCreate) int {
		return cmp.Or(a.Identity.Ref().Compare(b.Identity.Ref()), cmp.Compare(a.Identity.Run, b.Identity.Run))
	})
	slices.Sort(out.Look)
	slices.SortFunc(out.Evict, func(a, b Eviction) int {
		return cmp.Or(cmp.Compare(a.NodeWright, b.NodeWright), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.UID, b.UID))
	})
	slices.SortFunc(out.Patch, func(a, b JobDeadline) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Answered, func(a, b RequestAnswered) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(out.Hold, func(a, b JobHold) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Delete, func(a, b JobDelete) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(out.Events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.NodeWright, b.NodeWright), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return out
}
