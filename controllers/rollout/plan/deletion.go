package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// DeletionPatience is how long the clean-up of nodes may take before the
// condition DeletionBlocked names those that are not clean.
const DeletionPatience = time.Minute

// delete grants slots to nodes from which packages are uninstalled, waits until
// the other controllers have taken their keys off all nodes, then takes the
// grants off, then lets the NodeWright go. Nodes that are gone are not in the
// input, so nobody waits for them.
func (p *planner) delete() {
	var dirty []*member
	for i := range p.members {
		m := &p.members[i]
		if m.Remains {
			dirty = append(dirty, m)
		}
		if m.Batch != nil || m.BatchUnreadable {
			p.out.Clean = append(p.out.Clean, m.Name)
		}
	}
	if len(dirty) > 0 {
		p.out.Clean = nil
		p.grant()
		p.blockDeletion(dirty)
		return
	}
	p.out.RemoveFinalizer = len(p.out.Clean) == 0
}

// obstruction is why a node is not clean, most pressing first.
type obstruction struct {
	// reason of the condition.
	reason string
	// says what to do about it.
	help   string
	detail Detail
}

// blockDeletion says what holds the deletion up: at once what only a user can
// mend, anything else that does not go on by itself after a while.
func (p *planner) blockDeletion(dirty []*member) {
	due := p.nw.DeletionTimestamp.Add(DeletionPatience)
	late := !p.in.Now.Before(due)
	if !late {
		p.out.NextCheck = due
	}
	found := map[*member]obstruction{}
	var held []*member
	first, rank := obstruction{}, len(pressing)
	for _, m := range dirty {
		o, yes := p.obstruction(m, late)
		if !yes {
			continue
		}
		held, found[m] = append(held, m), o
		if at := slices.Index(pressing, o.reason); at < rank {
			first, rank = o, at
		}
	}
	if len(held) == 0 {
		return
	}
	p.problem(v1alpha1.ConditionDeletionBlocked, held, func(m *member) Detail { return found[m].detail })
	p.set(v1alpha1.ConditionDeletionBlocked, true, first.reason, fmt.Sprintf("%s not clean: %s; %s",
		areNodes(len(held)), p.names(v1alpha1.ConditionDeletionBlocked), first.help))
}

// pressing are the reasons of DeletionBlocked, the most pressing first.
var pressing = []string{
	v1alpha1.ReasonMalformed, v1alpha1.ReasonUninstallFailed, v1alpha1.ReasonPaused, v1alpha1.ReasonDisabled,
	v1alpha1.ReasonDrainBlocked, v1alpha1.ReasonIgnored, v1alpha1.ReasonBudgetUsedUp, v1alpha1.ReasonNodesNotReady,
	v1alpha1.ReasonNodesBlocked,
}

// obstruction tells what keeps a node from being clean. An uninstall that goes
// on, or waits for its turn, is none, however long it takes.
func (p *planner) obstruction(m *member, late bool) (o obstruction, yes bool) {
	uninstalls := len(m.Uninstalls) > 0
	if len(m.Unreadable) > 0 {
		return obstruction{v1alpha1.ReasonMalformed, fmt.Sprintf(
			"records cannot be read, like %s on node %s: look at what is installed there, then remove the annotation", m.Unreadable[0], m.Name),
			Detail{Reason: v1alpha1.ReasonMalformed, Message: unreadableMessage(m)}}, true
	}
	if uninstalls {
		if o := p.uninstallObstruction(m); o.reason != "" {
			return o, true
		}
	}
	if !late || uninstalls && p.proceeds(m) {
		return obstruction{}, false
	}
	d := Detail{Reason: notCleanReason(m), Message: "records of the NodeWright are still on the node"}
	if uninstalls {
		d = blockedDetail(m)
	}
	return obstruction{v1alpha1.ReasonNodesBlocked, "a stage that still runs ends first", d}, true
}

// uninstallObstruction is what keeps packages on a node until somebody mends it;
// without reason if nothing does.
func (p *planner) uninstallObstruction(m *member) obstruction {
	pkg := m.Uninstalls[0].Package
	switch {
	case m.Ignored:
		return obstruction{v1alpha1.ReasonIgnored, fmt.Sprintf("packages are uninstalled once the label %s is gone", v1alpha1.LabelIgnore),
			Detail{Package: pkg, Reason: v1alpha1.ReasonIgnored, Message: "the node is ignored, so packages stay on it"}}
	case m.failedUninstall() != nil:
		return obstruction{v1alpha1.ReasonUninstallFailed, uninstallHelp, uninstallDetail(m)}
	case p.nw.Disabled():
		return obstruction{v1alpha1.ReasonDisabled, "packages are uninstalled once the annotation that disables the NodeWright is gone",
			Detail{Package: pkg, Reason: v1alpha1.ReasonDisabled}}
	case p.nw.Paused():
		return obstruction{v1alpha1.ReasonPaused, "packages are uninstalled once the annotation that pauses the NodeWright is gone",
			Detail{Package: pkg, Reason: v1alpha1.ReasonPaused}}
	case m.drainBlocked():
		return obstruction{v1alpha1.ReasonDrainBlocked, "pods cannot be evicted on " + m.Name + ": " + m.slotMessage(), slotDetail(m)}
	case m.Ready == corev1.ConditionUnknown:
		return obstruction{v1alpha1.ReasonNodesNotReady, "packages are uninstalled once the kubelet reports again; a node that is deleted is not waited for",
			Detail{Reason: ReasonNodeUnreachable, Message: "the Ready condition of the node is Unknown"}}
	case m.wants && m.obstacle == "" && p.usedUp():
		return obstruction{v1alpha1.ReasonBudgetUsedUp, p.usedUpMessage(), Detail{Reason: v1alpha1.ReasonBudgetUsedUp}}
	}
	return obstruction{}
}

// proceeds tells whether an uninstall goes on, or waits for its turn.
func (p *planner) proceeds(m *member) bool {
	return m.obstacle == "" && m.waits() == "" && (m.slot || m.wants)
}

// deletionMessage says what becomes of the packages.
func (p *planner) deletionMessage() string {
	n := 0
	for i := range p.members {
		n += one(len(p.members[i].Uninstalls) > 0)
	}
	if n == 0 {
		return "the records of the NodeWright are taken off the nodes; packages without uninstall stay on the hosts"
	}
	return fmt.Sprintf("packages are uninstalled from %s, %s a slot%s; then the records go", nodes(n), holdNodes(p.compartment.slots), p.struggle())
}

func notCleanReason(m *member) string {
	switch m.Ready {
	case corev1.ConditionUnknown:
		return ReasonNodeUnreachable
	case corev1.ConditionFalse:
		return ReasonNodeNotReady
	default:
		return v1alpha1.ReasonDeleting
	}
}
