package plan

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// free tells whether working on the node needs no share of the ceiling: a taint
// has kept workloads off since before the NodeWright was complete there. That is
// known only where the NodeWright itself has to be complete before the taint goes:
// once it is, the taint does not stay.
func (p *planner) free(n *Node) bool {
	return !p.deleting() && n.Gated != "" && n.Selected && !n.Ignored && p.nw.Spec.RuntimeRequired && n.Word != nodestate.StatusComplete
}

// gated are nodes that wait for the NodeWright before they may run workloads.
func (p *planner) gated() []*member {
	var out []*member
	for i := range p.members {
		if m := &p.members[i]; m.free {
			out = append(out, m)
		}
	}
	return out
}

func gatedDetail(m *member) Detail {
	d := m.Detail
	d.Reason = cmp.Or(d.Reason, m.obstacle, string(m.word()))
	return d
}

// gatedMessage names the nodes, and the way out for those who need them before
// they are complete.
func (p *planner) gatedMessage(problem *v1alpha1.Problem) string {
	var oldest *member
	for _, m := range p.gated() {
		if oldest == nil || m.Created.Before(oldest.Created) {
			oldest = m
		}
	}
	return fmt.Sprintf("workloads are kept off %s until complete, off %s since %s; kubectl taint node <name> %s- lets them in all the same: %s",
		nodes(int(problem.Count)), oldest.Name, oldest.Created.UTC().Format(time.RFC3339), oldest.Gated, listNames(problem))
}

// intolerable are nodes that are not complete and whose taints end the pods of
// packages.
func (p *planner) intolerable() []*member {
	if p.held != "" || p.in.Invalid != "" {
		return nil
	}
	var out []*member
	for i := range p.members {
		if m := &p.members[i]; m.active && !m.complete && m.Intolerable != "" {
			out = append(out, m)
		}
	}
	return out
}

func intolerableDetail(m *member) Detail {
	return Detail{
		Reason:  v1alpha1.ConditionTaintNotTolerable,
		Message: fmt.Sprintf("taint %s ends the pods of packages; tolerate it in additionalTolerations, or take it off the node", m.Intolerable),
	}
}

func intolerableMessage(problem *v1alpha1.Problem) string {
	first := problem.Nodes[0]
	return fmt.Sprintf("package pods cannot run on %s: on %s, %s", nodes(int(problem.Count)), first.Name, first.Message)
}

func (p *planner) tellIntolerable() {
	if c := p.became(v1alpha1.ConditionTaintNotTolerable); c != nil {
		p.out.Events = append(p.out.Events, Event{Warning: true, Reason: c.Type, Message: c.Message})
	}
}
