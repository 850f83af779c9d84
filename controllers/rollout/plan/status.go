package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// report makes the status. It comes from one generation of the spec, and says
// complete only of nodes that gave their slot back for the revision of that
// spec, so a gate that waits for it never passes too early.
func (p *planner) report() {
	s := &p.out.Status
	s.ObservedGeneration = p.nw.Generation
	s.Rollout = p.revision
	s.NextOrder = p.out.NextOrder
	if p.nw.Spec.RuntimeRequired {
		s.RuntimeRequiredTaint = p.in.RuntimeRequired
	}
	s.PackageList = strings.Join(p.nw.Spec.PackageNames(), ",")
	for i := range p.members {
		if m := &p.members[i]; m.active {
			s.Nodes.Count(m.word(), 1)
		}
	}
	c := &p.compartment
	s.NodesInProgress = int32(c.slots)
	s.CompleteNodes = fmt.Sprintf("%d/%d", c.complete, c.matched)
	s.Compartments = []v1alpha1.CompartmentStatus{{
		Name: c.name, Matched: int32(c.matched), Ceiling: int32(c.ceiling),
		InProgress: int32(c.counting), Complete: int32(c.complete),
		ProgressPercent: int32(c.complete * 100 / max(c.matched, 1)),
	}}
	p.findProblems()
	standing := p.standing()
	s.Status = p.word(standing)
	p.out.AllComplete = p.ready() && c.slots == 0
	p.conditions(standing)
	p.finishConditions()
	p.findEvents()
}

// ready tells whether every selected node is complete for the present spec, and
// nothing runs any more on those that are ignored. A node that is no longer selected
// and still holds a slot does not matter here, only for the ceiling.
func (p *planner) ready() bool {
	return p.nw.DeletionTimestamp == nil && p.held == "" && p.in.Invalid == "" &&
		p.compartment.complete == p.compartment.matched && !p.left()
}

// left tells whether a node is ignored on which a stage still comes to its end.
func (p *planner) left() bool {
	return slices.ContainsFunc(p.members, func(m member) bool { return m.leaves() })
}

// standing says where the rollout as a whole stands and what it waits for.
type standing struct {
	reason  string
	message string
}

func (p *planner) standing() standing {
	c, n := &p.compartment, &p.out.Status.Nodes
	progress := fmt.Sprintf("%d of %s complete%s", c.complete, nodes(c.matched), p.absent())
	switch {
	case p.nw.DeletionTimestamp != nil:
		return standing{v1alpha1.ReasonDeleting, p.deletionMessage()}
	case p.held != "":
		return standing{v1alpha1.ReasonNotSupported, p.held + p.stillRunning()}
	case p.in.Invalid != "":
		return standing{v1alpha1.ReasonInvalidSpec, p.in.Invalid + p.stillRunning()}
	case p.nw.Disabled():
		return standing{v1alpha1.ReasonDisabled, fmt.Sprintf(
			"disabled by annotation, no stage is started until it is removed; %s%s", progress, p.suspended())}
	case p.nw.Paused():
		return standing{v1alpha1.ReasonPaused, fmt.Sprintf(
			"paused by annotation, no stage is started until it is removed; %s%s", progress, p.suspended())}
	case c.matched == 0 && !p.left():
		return standing{v1alpha1.ReasonNoNodes, "no node is selected, or all that are carry the ignore label"}
	case p.ready():
		return standing{v1alpha1.ReasonComplete, progress}
	case c.slots > 0:
		return standing{v1alpha1.ReasonRollingOut, fmt.Sprintf("%s, %s a slot%s%s", progress, holdNodes(c.slots), p.struggle(), p.placesTaken())}
	case p.usedUp():
		return standing{v1alpha1.ReasonBudgetUsedUp, p.usedUpMessage()}
	case n.Erroring > 0:
		return standing{v1alpha1.ReasonNodesErroring, fmt.Sprintf("%s, %s erroring", progress, areNodes(int(n.Erroring)))}
	case n.Blocked > 0:
		reason, message := p.blockedReason()
		return standing{reason, fmt.Sprintf("%s, %s", progress, message)}
	default:
		return standing{v1alpha1.ReasonRollingOut, progress}
	}
}

// struggle names the nodes on which a stage is tried again or does not start.
func (p *planner) struggle() string {
	i := slices.IndexFunc(p.out.Status.Problems, func(x v1alpha1.Problem) bool { return x.Type == v1alpha1.ConditionProgressing })
	if i < 0 {
		return ""
	}
	drains, others := 0, 0
	for _, n := range p.out.Status.Problems[i].Nodes {
		drains += one(n.Reason == nodestate.SlotDraining)
		others += one(n.Reason != nodestate.SlotDraining)
	}
	text := "; a stage failed or does not start, and is tried again, on "
	switch {
	case others == 0:
		text = "; being drained: "
	case drains > 0:
		text = "; being drained, or a stage failed or does not start, and is tried again, on "
	}
	return text + listNames(&p.out.Status.Problems[i])
}

// placesTaken names the nodes that do not get on and use up places for which
// others wait.
func (p *planner) placesTaken() string {
	if p.waiting == 0 {
		return ""
	}
	var taken v1alpha1.Problem
	for i := range p.members {
		m := &p.members[i]
		if !m.counts || m.slot && !m.drainBlocked() && !m.heldUp() && m.word() != nodestate.StatusErroring {
			continue
		}
		if taken.Count++; taken.Count <= v1alpha1.MaxProblemNodes {
			why := cmp.Or(m.slotReason(), m.obstacle, string(m.word()))
			taken.Nodes = append(taken.Nodes, v1alpha1.ProblemNode{Name: m.Name, Reason: why})
		}
	}
	if taken.Count == 0 {
		return ""
	}
	return fmt.Sprintf("; %s waiting for a place in the budget of %s, used up by %s", areNodes(p.waiting), nodes(p.compartment.ceiling), listNames(&taken))
}

// stillRunning says what goes on although no stage is started any more.
func (p *planner) stillRunning() string {
	if p.compartment.slots == 0 {
		return ""
	}
	return fmt.Sprintf("; %s a slot: a stage that runs there already runs to its end", holdNodes(p.compartment.slots))
}

// suspended says what becomes of stages that had begun before the pause.
func (p *planner) suspended() string {
	if p.compartment.slots == 0 {
		return ""
	}
	return fmt.Sprintf("; %s a slot: a stage that runs there is suspended, an interrupt that runs comes to its end", holdNodes(p.compartment.slots))
}

func holdNodes(n int) string {
	if n == 1 {
		return "1 node holds"
	}
	return fmt.Sprintf("%d nodes hold", n)
}

// usedUp tells whether nodes wait although no slot is in use: all the ceiling
// allows is taken by nodes that nobody works on.
func (p *planner) usedUp() bool { return p.waiting > 0 && p.compartment.slots == 0 }

func (p *planner) usedUpMessage() string {
	c := &p.compartment
	if c.ceiling == 0 {
		return fmt.Sprintf("interruptionBudget allows no node: %s waiting; raise it to go on", areNodes(p.waiting))
	}
	return fmt.Sprintf("interruptionBudget allows %s and %s erroring or cordoned: %s waiting until they are repaired, or the budget is raised",
		nodes(c.ceiling), areNodes(c.counting), areNodes(p.waiting))
}

// word sums all nodes up.
func (p *planner) word(at standing) nodestate.StatusWord {
	n := &p.out.Status.Nodes
	switch at.reason {
	case v1alpha1.ReasonNotSupported, v1alpha1.ReasonInvalidSpec:
		return nodestate.StatusBlocked
	case v1alpha1.ReasonDisabled:
		return nodestate.StatusDisabled
	case v1alpha1.ReasonPaused:
		return nodestate.StatusPaused
	case v1alpha1.ReasonComplete, v1alpha1.ReasonNoNodes:
		return nodestate.StatusComplete
	}
	switch {
	case n.Erroring > 0:
		return nodestate.StatusErroring
	case p.nw.DeletionTimestamp != nil, p.compartment.slots > 0, n.InProgress > 0:
		return nodestate.StatusInProgress
	case n.Unknown > 0:
		return nodestate.StatusUnknown
	case n.Blocked > 0, p.usedUp():
		return nodestate.StatusBlocked
	default:
		return nodestate.StatusWaiting
	}
}
