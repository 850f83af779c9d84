package plan

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// Conditions are the types that this controller sets. Ready and Progressing are
// always there, the others while or after they were true.
func Conditions() []string {
	return []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionProgressing, v1alpha1.ConditionErroring,
		v1alpha1.ConditionBlocked, v1alpha1.ConditionDeletionBlocked,
		v1alpha1.ConditionNodeStateMalformed, v1alpha1.ConditionNodesIgnored,
		v1alpha1.ConditionTaintNotTolerable, v1alpha1.ConditionNodesGated,
		v1alpha1.ConditionDrainBlocked, v1alpha1.ConditionUninstallInProgress, v1alpha1.ConditionUninstallFailed,
	}
}

// set notes a condition; finishConditions gives it its times.
func (p *planner) set(kind string, yes bool, reason, message string) {
	status := metav1.ConditionFalse
	if yes {
		status = metav1.ConditionTrue
	}
	p.out.Status.Conditions = append(p.out.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason,
		Message:            nodestate.CapString(message, maxMessage),
		ObservedGeneration: p.nw.Generation,
	})
}

func (p *planner) conditions(at standing) {
	p.set(v1alpha1.ConditionReady, p.ready(), at.reason, at.message)
	p.set(v1alpha1.ConditionProgressing, p.compartment.slots > 0 || at.reason == v1alpha1.ReasonDeleting, at.reason, at.message)
	if n := p.out.Status.Nodes.Erroring; n > 0 {
		p.set(v1alpha1.ConditionErroring, true, v1alpha1.ReasonNodesErroring,
			fmt.Sprintf("%s erroring: %s", areNodes(int(n)), p.names(v1alpha1.ConditionErroring)))
	}
	if reason, message := p.blocked(at); reason != "" {
		p.set(v1alpha1.ConditionBlocked, true, reason, message)
	}
	p.uninstallInProgress(at)
	for i := range p.out.Status.Problems {
		problem := &p.out.Status.Problems[i]
		switch problem.Type {
		case v1alpha1.ConditionDrainBlocked:
			p.set(problem.Type, true, v1alpha1.ReasonDrainBlocked, withFirst(fmt.Sprintf("pods cannot be evicted on %s: %s",
				nodes(int(problem.Count)), listNames(problem)), problem))
		case v1alpha1.ConditionUninstallFailed:
			p.set(problem.Type, true, v1alpha1.ReasonUninstallFailed, withFirst(fmt.Sprintf("%s on %s: %s",
				uninstallHelp, nodes(int(problem.Count)), listNames(problem)), problem))
		case v1alpha1.ConditionNodesIgnored:
			p.set(problem.Type, true, v1alpha1.ReasonIgnored, fmt.Sprintf("%s left out for the label %s: %s",
				areNodes(int(problem.Count)), v1alpha1.LabelIgnore, listNames(problem)))
		case v1alpha1.ConditionNodesGated:
			p.set(problem.Type, true, v1alpha1.ReasonTaint, p.gatedMessage(problem))
		case v1alpha1.ConditionTaintNotTolerable:
			p.set(problem.Type, true, v1alpha1.ReasonTaint, intolerableMessage(problem))
		case v1alpha1.ConditionNodeStateMalformed:
			p.set(problem.Type, true, v1alpha1.ReasonMalformed, fmt.Sprintf("records on %s cannot be read, on node %s: %s",
				nodes(int(problem.Count)), problem.Nodes[0].Name, problem.Nodes[0].Message))
		}
	}
}

// blocked says what holds up the rollout as a whole, or else single nodes;
// empty if nothing does.
func (p *planner) blocked(at standing) (reason, message string) {
	switch at.reason {
	case v1alpha1.ReasonNotSupported, v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonBudgetUsedUp:
		return at.reason, at.message
	case v1alpha1.ReasonDeleting:
		return "", ""
	}
	return p.blockedReason()
}

// blockedReason sums up what holds single nodes up.
func (p *planner) blockedReason() (reason, message string) {
	i := slices.IndexFunc(p.out.Status.Problems, func(x v1alpha1.Problem) bool { return x.Type == v1alpha1.ConditionBlocked })
	if i < 0 {
		return "", ""
	}
	problem := &p.out.Status.Problems[i]
	reason = v1alpha1.ReasonWaiting
	for _, n := range problem.Nodes {
		switch n.Reason {
		case v1alpha1.ReasonWaiting:
		case ReasonNodeNotReady, ReasonNodeUnreachable:
			if reason == v1alpha1.ReasonWaiting {
				reason = v1alpha1.ReasonNodesNotReady
			}
		default:
			reason = v1alpha1.ReasonNodesBlocked
		}
	}
	return reason, withFirst(fmt.Sprintf("%s held up: %s", areNodes(int(problem.Count)), listNames(problem)), problem)
}

// withFirst adds what the first node of a problem says.
func withFirst(message string, problem *v1alpha1.Problem) string {
	if first := problem.Nodes[0]; first.Message != "" {
		message += "; on " + first.Name + ": " + first.Message
	}
	return message
}

// finishConditions gives conditions their times: what keeps its status keeps
// the time of its last transition. A condition of ours that was there and is
// not true any more is false.
func (p *planner) finishConditions() {
	before := p.nw.Status.Conditions
	for _, kind := range Conditions() {
		old := meta.FindStatusCondition(before, kind)
		if old != nil && meta.FindStatusCondition(p.out.Status.Conditions, kind) == nil {
			p.set(kind, false, v1alpha1.ReasonResolved, "")
		}
		c := meta.FindStatusCondition(p.out.Status.Conditions, kind)
		switch {
		case c == nil:
		case old != nil && old.Status == c.Status:
			c.LastTransitionTime = old.LastTransitionTime
		default:
			c.LastTransitionTime = metav1.NewTime(p.in.Now.UTC()).Rfc3339Copy()
		}
	}
	slices.SortFunc(p.out.Status.Conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	slices.SortFunc(p.out.Status.Problems, func(a, b v1alpha1.Problem) int { return cmp.Compare(a.Type, b.Type) })
}

// findEvents tells what became true since the status that was read.
func (p *planner) findEvents() {
	p.tellIntolerable()
	if c := p.became(v1alpha1.ConditionReady); c != nil && p.compartment.matched > 0 {
		p.out.Events = append(p.out.Events, Event{Reason: v1alpha1.ReasonComplete, Message: c.Message})
	}
	if c := p.became(v1alpha1.ConditionBlocked); c != nil {
		switch c.Reason {
		case v1alpha1.ReasonNotSupported, v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonBudgetUsedUp:
			p.out.Events = append(p.out.Events, Event{Warning: true, Reason: c.Reason, Message: c.Message})
		}
	}
	p.tellWaits()
	if c := p.became(v1alpha1.ConditionDrainBlocked); c != nil && !p.deleting() {
		p.out.Events = append(p.out.Events, Event{Warning: true, Reason: c.Type, Message: c.Message})
	}
	if c := p.became(v1alpha1.ConditionUninstallFailed); c != nil && !p.deleting() {
		p.out.Events = append(p.out.Events, Event{Warning: true, Reason: c.Type, Message: c.Message})
	}
	kind := v1alpha1.ConditionNodeStateMalformed
	if p.nw.DeletionTimestamp != nil {
		kind = v1alpha1.ConditionDeletionBlocked
	}
	if c := p.became(kind); c != nil {
		p.out.Events = append(p.out.Events, Event{Warning: true, Reason: c.Type, Message: c.Message})
	}
}

// became gives the condition if it is true now and was not, or was for another
// reason. Ready is told once per revision.
func (p *planner) became(kind string) *metav1.Condition {
	now := meta.FindStatusCondition(p.out.Status.Conditions, kind)
	old := meta.FindStatusCondition(p.nw.Status.Conditions, kind)
	if now == nil || now.Status != metav1.ConditionTrue ||
		old != nil && old.Status == metav1.ConditionTrue && p.sameCause(old, now) {
		return nil
	}
	return now
}

func (p *planner) sameCause(old, now *metav1.Condition) bool {
	if now.Type == v1alpha1.ConditionReady {
		// Pause and the like change the reason of Ready and nothing else.
		return p.nw.Status.Rollout == p.revision
	}
	return old.Reason == now.Reason
}
