package plan

import (
	"cmp"
	"slices"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/apis/support"
)

// Compute plans one NodeWright.
func Compute(in Input) Plan {
	p := newPlanner(in)
	if in.NodeWright.DeletionTimestamp != nil {
		p.delete()
	} else {
		p.grant()
	}
	p.report()
	return p.out
}

type planner struct {
	in       Input
	nw       *v1alpha1.NodeWright
	revision string
	// held names what this version does not carry out; empty for nothing.
	held string
	// members are all nodes of the input, sorted by name.
	members []member
	// compartment counts the selected nodes.
	compartment compartment
	// waiting is how many nodes would get a slot but for the ceiling.
	waiting int
	out     Plan
}

func newPlanner(in Input) *planner {
	p := &planner{
		in: in, nw: in.NodeWright,
		revision: revision.Of(in.NodeWright),
		held:     support.Held(in.NodeWright),
		members:  make([]member, 0, len(in.Nodes)),
	}
	for i := range in.Nodes {
		p.members = append(p.members, p.classify(&in.Nodes[i]))
	}
	slices.SortFunc(p.members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	p.compartment = p.countDefault()
	p.out.NextOrder = max(in.NextOrder, p.nw.Status.NextOrder)
	for i := range p.members {
		if order, ok := ownOrder(&p.members[i]); ok {
			p.out.NextOrder = max(p.out.NextOrder, int64(order)+1)
		}
	}
	return p
}

func (p *planner) deleting() bool { return p.nw.DeletionTimestamp != nil }

// stopped tells whether no slot is granted or renewed at all.
func (p *planner) stopped() bool {
	if p.deleting() {
		// What is installed comes off also where the spec cannot be carried out any
		// more: the user could not delete the NodeWright otherwise.
		return p.nw.Paused() || p.nw.Disabled()
	}
	return p.held != "" || p.in.Invalid != "" || p.nw.Paused() || p.nw.Disabled()
}

// ours tells whether the grant is for what the NodeWright asks for now.
func (p *planner) ours(b *nodestate.Batch) bool {
	return b != nil && b.UID == string(p.nw.UID) && b.Rollout == p.revision
}
