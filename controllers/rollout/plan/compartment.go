package plan

import (
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// compartment counts nodes that share a ceiling.
type compartment struct {
	name string
	// matched nodes: selected and not ignored.
	matched int
	// ceiling is the most nodes that may count at once.
	ceiling int
	// counting nodes use the ceiling up.
	counting int
	// slots in use, and those of them that need a share of the ceiling.
	slots    int
	sharing  int
	complete int
}

// countDefault counts the only compartment there is without a policy. Nodes
// that are not selected any more count as long as they hold a slot.
func (p *planner) countDefault() compartment {
	c := compartment{name: v1alpha1.DefaultCompartment}
	for i := range p.members {
		m := &p.members[i]
		c.matched += one(m.active)
		c.counting += one(m.counts)
		c.slots += one(m.slot)
		c.sharing += one(m.slot && !m.free)
		c.complete += one(m.complete)
	}
	c.ceiling = Ceiling(&p.nw.Spec, c.matched)
	if p.deleting() {
		workOn := 0
		for i := range p.members {
			workOn += one(p.members[i].worksOn)
		}
		c.ceiling = Ceiling(&p.nw.Spec, workOn)
		if p.held != "" {
			// What the spec allows is not known: one node at a time is always right,
			// unless it allows none.
			c.ceiling = min(c.ceiling, 1)
		}
	}
	return c
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// Ceiling is how many nodes may be worked on at once under the
// interruptionBudget of the spec, with this number of nodes selected and not
// ignored: the count, or the percentage rounded down but at least 1, where 0
// percent is 0. Without a budget it is every node, but 1 where a package
// interrupts its node. It is 0 where no node is selected.
func Ceiling(spec *v1alpha1.NodeWrightSpec, nodes int) int {
	budget := spec.InterruptionBudget
	switch {
	case nodes == 0:
		return 0
	case budget != nil && budget.Count != nil:
		return int(max(*budget.Count, 0))
	case budget != nil && budget.Percent != nil:
		if *budget.Percent <= 0 {
			return 0
		}
		return max(nodes*int(*budget.Percent)/100, 1)
	case interrupts(spec):
		return 1
	default:
		return nodes
	}
}

func interrupts(spec *v1alpha1.NodeWrightSpec) bool {
	for _, p := range spec.Packages {
		if p.Interrupts() {
			return true
		}
	}
	return false
}
