package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// noOrder sorts nodes that never had an order behind those that have.
const noOrder = math.MaxInt64

// grant renews slots for a new revision, then spends what the ceiling leaves.
func (p *planner) grant() {
	if p.stopped() {
		return
	}
	for _, m := range p.byOrder(func(m *member) bool { return m.worksOn && m.slot && m.Batch != nil && !p.ours(m.Batch) }) {
		p.add(m, m.Batch.Order)
	}
	c := &p.compartment
	candidates := p.byOrder(func(m *member) bool { return m.wants && m.obstacle == "" })
	for _, m := range candidates {
		// A node that counts already takes nothing from the ceiling, but no more
		// nodes are worked on at once than it allows.
		full := c.sharing >= c.ceiling || !m.counts && c.counting >= c.ceiling
		if full && !m.free || !p.addNew(m) {
			p.waiting++
			continue
		}
		c.counting += one(!m.counts && !m.free)
		c.sharing += one(!m.free)
		c.slots++
		m.slot, m.counts, m.wants = true, !m.free, false
	}
}

// byOrder picks members: first those that count against the ceiling already, so
// that a repaired spec can reach them, then in the order of the rollout so far,
// then by name.
func (p *planner) byOrder(pick func(*member) bool) []*member {
	var picked []*member
	for i := range p.members {
		if pick(&p.members[i]) {
			picked = append(picked, &p.members[i])
		}
	}
	slices.SortStableFunc(picked, func(a, b *member) int {
		return cmp.Or(cmp.Compare(one(b.counts), one(a.counts)), cmp.Compare(order(a), order(b)))
	})
	return picked
}

func order(m *member) int64 {
	if order, ok := ownOrder(m); ok {
		return int64(order)
	}
	return noOrder
}

// ownOrder is the order that the node has, or was promised.
func ownOrder(m *member) (order int32, ok bool) {
	switch {
	case m.Batch != nil:
		return m.Batch.Order, true
	case m.Promised != nil:
		return *m.Promised, true
	default:
		return 0, false
	}
}

// addNew grants a slot; the node keeps the order it has. It returns false where
// no order is left.
func (p *planner) addNew(m *member) bool {
	if order, ok := ownOrder(m); ok {
		p.add(m, order)
		return true
	}
	if p.out.NextOrder > math.MaxInt32 {
		return false
	}
	p.add(m, int32(p.out.NextOrder))
	p.out.NextOrder++
	return true
}

func (p *planner) add(m *member, order int32) {
	g := Grant{
		Node: m.Name, UID: m.UID, Renewal: m.slot,
		Batch: nodestate.Batch{
			Batch: 1, Compartment: p.compartment.name, NodeWright: p.nw.Name,
			Order: order, Rollout: p.revision, UID: string(p.nw.UID),
		},
	}
	if m.Batch != nil {
		g.Over = m.Batch.ID
	}
	p.out.Grants = append(p.out.Grants, g)
}
