package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// DeletionPatience is how long the clean-up of nodes may take before the
// condition DeletionBlocked names those that are not clean.
const DeletionPatience = time.Minute

// delete waits until the other controllers have taken their keys off all nodes,
// then takes the grants off, then lets the NodeWright go. Nodes that are gone
// are not in the input, so nobody waits for them.
func (p *planner) delete() {
	var dirty, unreadable []*member
	for i := range p.members {
		m := &p.members[i]
		if m.Remains {
			dirty = append(dirty, m)
		}
		if m.Remains && len(m.Unreadable) > 0 {
			unreadable = append(unreadable, m)
		}
		if m.Batch != nil || m.BatchUnreadable {
			p.out.Clean = append(p.out.Clean, m.Name)
		}
	}
	if len(dirty) > 0 {
		p.out.Clean = nil
		p.blockDeletion(dirty, unreadable)
		return
	}
	p.out.RemoveFinalizer = len(p.out.Clean) == 0
}

// blockDeletion says what holds the deletion up: at once what only a user can
// mend, anything else after a while.
func (p *planner) blockDeletion(dirty, unreadable []*member) {
	due := p.nw.DeletionTimestamp.Add(DeletionPatience)
	switch {
	case len(unreadable) > 0:
		m := unreadable[0]
		p.problem(v1alpha1.ConditionDeletionBlocked, unreadable, func(m *member) Detail {
			return Detail{Reason: v1alpha1.ReasonMalformed, Message: unreadableMessage(m)}
		})
		p.set(v1alpha1.ConditionDeletionBlocked, true, v1alpha1.ReasonMalformed, fmt.Sprintf(
			"records that cannot be read are on %s, first %s on node %s: look at what is installed there, then remove the annotation",
			nodes(len(unreadable)), m.Unreadable[0], m.Name))
	case p.in.Now.Before(due):
		p.out.NextCheck = due
	default:
		p.problem(v1alpha1.ConditionDeletionBlocked, dirty, func(m *member) Detail {
			return Detail{Reason: notCleanReason(m), Message: "records of the NodeWright are still on the node"}
		})
		p.set(v1alpha1.ConditionDeletionBlocked, true, v1alpha1.ReasonNodesBlocked, fmt.Sprintf(
			"%s not clean %s after the deletion: %s; a stage that still runs ends first",
			areNodes(len(dirty)), DeletionPatience, p.names(v1alpha1.ConditionDeletionBlocked)))
	}
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
