package plan

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const (
	// problemBytes bounds what the nodes of one problem take in the status, names
	// included, so that the status stays small also with names of 253 bytes.
	problemBytes = 2000
	// maxReason is the limit of the schema.
	maxReason = 128
	// maxMessage is the longest message of a condition.
	maxMessage = 512
	// maxNames is what names of nodes may take in a message of a condition.
	maxNames = 300
)

// problem adds the nodes to the status under a type: at most
// v1alpha1.MaxProblemNodes, the first by name.
func (p *planner) problem(kind string, members []*member, detail func(*member) Detail) {
	if len(members) == 0 {
		return
	}
	out := v1alpha1.Problem{Type: kind, Count: int32(len(members))}
	room := problemBytes
	for _, m := range members[:min(len(members), v1alpha1.MaxProblemNodes)] {
		d := detail(m)
		n := v1alpha1.ProblemNode{
			Name: m.Name, Package: d.Package,
			Reason:  nodestate.CapString(d.Reason, maxReason),
			Message: nodestate.CapString(d.Message, v1alpha1.MaxStatusMessage),
		}
		if room -= len(n.Name) + len(n.Package) + len(n.Reason); room < 0 {
			break
		}
		n.Message = nodestate.CapString(n.Message, room)
		room -= len(n.Message)
		out.Nodes = append(out.Nodes, n)
	}
	p.out.Status.Problems = append(p.out.Status.Problems, out)
}

// names lists the nodes of a problem for a message of a condition.
func (p *planner) names(kind string) string {
	for i := range p.out.Status.Problems {
		if problem := &p.out.Status.Problems[i]; problem.Type == kind {
			return listNames(problem)
		}
	}
	return ""
}

func listNames(problem *v1alpha1.Problem) string {
	var b strings.Builder
	named := 0
	for _, n := range problem.Nodes {
		text := describe(n)
		if named > 0 && b.Len()+len(text) > maxNames {
			break
		}
		if named > 0 {
			b.WriteString(", ")
		}
		b.WriteString(text)
		named++
	}
	if more := int(problem.Count) - named; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// describe is like n1 (driver: ImagePullBackOff).
func describe(n v1alpha1.ProblemNode) string {
	switch {
	case n.Package != "" && n.Reason != "":
		return fmt.Sprintf("%s (%s: %s)", n.Name, n.Package, n.Reason)
	case n.Package+n.Reason != "":
		return fmt.Sprintf("%s (%s)", n.Name, n.Package+n.Reason)
	default:
		return n.Name
	}
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

func areNodes(n int) string {
	if n == 1 {
		return "1 node is"
	}
	return fmt.Sprintf("%d nodes are", n)
}

func unreadableMessage(m *member) string {
	if len(m.Unreadable) == 0 {
		return "a record on the node cannot be read"
	}
	return fmt.Sprintf("the value of annotation %s cannot be read; remove it, or ask for a reset, once you know what is on the host: the package then runs again", m.Unreadable[0])
}

// findProblems names the nodes that need a look.
func (p *planner) findProblems() {
	var erroring, blocked, drainBlocked, struggling, ignored, unreadable []*member
	// What holds all nodes is said of the NodeWright, and not of each of them.
	heldAll := p.held != "" || p.in.Invalid != ""
	for i := range p.members {
		m := &p.members[i]
		switch {
		case m.Selected && m.Ignored:
			ignored = append(ignored, m)
		case !m.active && !m.worksOn:
		case m.drainBlocked():
			drainBlocked = append(drainBlocked, m)
		case m.word() == nodestate.StatusErroring:
			erroring = append(erroring, m)
		case heldAll:
		case m.heldUp():
			blocked = append(blocked, m)
		case m.getsOn():
			struggling = append(struggling, m)
		}
		if len(m.Unreadable) > 0 || m.active && m.Word == nodestate.StatusUnknown {
			unreadable = append(unreadable, m)
		}
	}
	p.problem(v1alpha1.ConditionErroring, erroring, func(m *member) Detail { return m.Detail })
	p.problem(v1alpha1.ConditionBlocked, blocked, blockedDetail)
	p.problem(v1alpha1.ConditionProgressing, struggling, func(m *member) Detail {
		return Detail{Package: m.Detail.Package, Reason: cmp.Or(m.Detail.Reason, m.slotReason()), Message: cmp.Or(m.Detail.Message, m.slotMessage())}
	})
	p.problem(v1alpha1.ConditionDrainBlocked, drainBlocked, slotDetail)
	p.problem(v1alpha1.ConditionUninstallFailed, p.failedUninstalls(), uninstallDetail)
	p.problem(v1alpha1.ConditionTaintNotTolerable, p.intolerable(), intolerableDetail)
	p.problem(v1alpha1.ConditionNodesGated, p.gated(), gatedDetail)
	p.problem(v1alpha1.ConditionNodesIgnored, ignored, func(*member) Detail { return Detail{} })
	p.problem(v1alpha1.ConditionNodeStateMalformed, unreadable, func(m *member) Detail {
		return Detail{Package: m.Detail.Package, Reason: v1alpha1.ReasonMalformed, Message: unreadableMessage(m)}
	})
}

// slotDetail is what the node says of its slot.
func slotDetail(m *member) Detail {
	return Detail{Reason: m.slotReason(), Message: m.slotMessage()}
}

func blockedDetail(m *member) Detail {
	switch m.obstacle {
	case ReasonNodeUnreachable:
		return Detail{Reason: m.obstacle, Message: "the Ready condition of the node is Unknown"}
	case ReasonNodeNotReady:
		return Detail{Reason: m.obstacle, Message: "the Ready condition of the node is False"}
	case v1alpha1.ReasonNoRoom:
		return Detail{Reason: m.obstacle, Message: m.Refused}
	case v1alpha1.ConditionTaintNotTolerable:
		return intolerableDetail(m)
	case v1alpha1.ReasonMalformed:
		return Detail{Reason: m.obstacle, Message: "the grant on the node cannot be read"}
	}
	if m.Slot != nil && m.Slot.Message != "" {
		d := Detail{Reason: m.Slot.Reason, Message: m.Slot.Message}
		if d.Reason == nodestate.SlotBlocked {
			d.Reason = v1alpha1.ReasonWaiting
		}
		return d
	}
	return waitDetail(m)
}

// waitDetail is for a node that says no more than a reason.
func waitDetail(m *member) Detail {
	switch {
	case m.waits() != "":
		return Detail{Reason: m.waits(), Message: "the node waits"}
	case m.Detail.Reason != "":
		return m.Detail
	case m.Slot != nil && m.Slot.Reason == nodestate.SlotNoPath:
		return Detail{Reason: m.Slot.Reason, Message: "a package waits for another one that is not complete on the node at the version that dependsOn names"}
	case m.Slot != nil && m.Slot.Reason != "":
		return Detail{Reason: m.Slot.Reason, Message: "the node gave its slot back"}
	default:
		return Detail{Reason: "Blocked", Message: "the node controller reports the node as blocked"}
	}
}
