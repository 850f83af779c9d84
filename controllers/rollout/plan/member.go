package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// Reasons why a node gets no slot, besides those of v1alpha1.
const (
	// ReasonNodeUnreachable: the Ready condition is Unknown.
	ReasonNodeUnreachable = "NodeUnreachable"
	// ReasonNodeNotReady: the Ready condition is False.
	ReasonNodeNotReady = "NodeNotReady"
)

// member is a node with what follows from it.
type member struct {
	*Node
	// active: selected and not ignored.
	active bool
	// worksOn: slots are granted for it: active, or, while the NodeWright is being
	// deleted, with something to uninstall and not ignored.
	worksOn bool
	// slot: a slot is in use.
	slot bool
	// complete for the present revision.
	complete bool
	// counts against the ceiling.
	counts bool
	// free: needs no share of the ceiling.
	free bool
	// obstacle is the reason why the node gets no slot; empty for none.
	obstacle string
	// wants a grant: it never had one for this revision, or asks for another.
	wants bool
}

func (p *planner) classify(n *Node) member {
	active := n.Selected && !n.Ignored
	m := member{Node: n, active: active, worksOn: active, slot: slotInUse(n)}
	if p.deleting() {
		m.worksOn = len(n.Uninstalls) > 0 && !n.Ignored
		m.slot = m.slot && answers(n)
	}
	// A slot in use means that the word may be about an earlier revision.
	m.complete = m.active && !m.slot && p.ours(n.Batch) && saysComplete(n)
	m.free = p.free(n)
	m.counts = !m.free && (m.slot || m.disturbs())
	if m.worksOn && (!m.complete || p.deleting()) {
		m.obstacle = p.obstacle(n)
		m.wants = !m.slot && (!p.ours(n.Batch) || retryWanted(n))
	}
	return m
}

// disturbs tells whether a node without a slot is not fit for workloads on account
// of the NodeWright.
func (m *member) disturbs() bool {
	return (m.active || m.worksOn) && !m.complete && (m.Word == nodestate.StatusErroring || m.Cordoned)
}

// answers tells whether the node may answer a grant while the NodeWright is being
// deleted: one that was cleaned does not any more.
func answers(n *Node) bool { return n.Remains || n.Pending }

// saysComplete tells whether the node is complete and gave its slot back as such,
// for the very revision that the slot was for.
func saysComplete(n *Node) bool {
	return n.Word == nodestate.StatusComplete && n.Slot != nil && n.Slot.ID == n.Batch.ID && n.Slot.Reason == nodestate.SlotComplete
}

func slotInUse(n *Node) bool {
	if n.BatchUnreadable {
		// It may be in use, unless the node gave a slot back.
		return n.Slot == nil || n.Slot.ID == "" || n.Slot.State != nodestate.SlotReleased
	}
	return n.Batch != nil && n.Batch.Holds(n.Slot)
}

// retryWanted tells whether the node gave its slot back and asks for another
// one for the same revision.
func retryWanted(n *Node) bool {
	return n.Slot != nil && n.Slot.ID == n.Batch.ID && n.Slot.Reason == nodestate.SlotRetryWanted
}

// waits is what holds up a node that works and does not pass by itself, as the
// node says; empty if nothing does, or the user does for all nodes.
func (m *member) waits() string {
	if m.struggles() || m.draining() || m.drainBlocked() {
		return ""
	}
	switch reason := m.slotReason(); reason {
	case nodestate.SlotPackageWaits, nodestate.SlotPaused, nodestate.SlotDisabled:
		return ""
	default:
		return reason
	}
}

// leaves tells whether a node that is ignored has not given its slot back, and can:
// what runs there comes to its end.
func (m *member) leaves() bool {
	return m.slot && m.Selected && m.Ignored && m.Ready != corev1.ConditionUnknown && !m.BatchUnreadable && m.Refused == ""
}

// heldUp tells whether something outside of the packages holds the node up.
func (m *member) heldUp() bool {
	return m.obstacle != "" || m.word() == nodestate.StatusBlocked || m.waits() != ""
}

// getsOn tells whether the node is at work and takes long for a known reason.
func (m *member) getsOn() bool { return m.struggles() || m.draining() }

// draining tells whether the node is being emptied, and gets on with it.
func (m *member) draining() bool { return m.slotReason() == nodestate.SlotDraining }

// drainBlocked tells whether pods on the node cannot be evicted.
func (m *member) drainBlocked() bool { return m.slotReason() == nodestate.SlotDrainBlocked }

func (m *member) slotMessage() string {
	if m.slotReason() == "" {
		return ""
	}
	return m.Slot.Message
}

// struggles tells whether a stage on a node that works failed and is tried again,
// or its pod does not start yet.
func (m *member) struggles() bool {
	return m.slot && Struggles(m.Slot)
}

// Struggles tells whether a node says with its slot that a stage failed and is
// tried again, or that its pod does not start yet.
func Struggles(slot *nodestate.Slot) bool {
	return slot != nil && slot.State == nodestate.SlotWorking &&
		(slot.Reason == nodestate.SlotBackOff || slot.Reason == nodestate.SlotPodNotStarting)
}

func (m *member) slotReason() string {
	if m.slot && m.Slot != nil && m.Slot.State == nodestate.SlotWorking {
		return m.Slot.Reason
	}
	return ""
}

func (p *planner) obstacle(n *Node) string {
	switch {
	case n.BatchUnreadable:
		return v1alpha1.ReasonMalformed
	case n.Ready == corev1.ConditionUnknown:
		return ReasonNodeUnreachable
	case n.Ready == corev1.ConditionFalse && !p.nw.Spec.RuntimeRequired:
		// A package may be what makes a new node ready, where nothing else may run
		// before it.
		return ReasonNodeNotReady
	case n.Intolerable != "":
		return v1alpha1.ConditionTaintNotTolerable
	case n.Word == nodestate.StatusBlocked:
		return v1alpha1.ReasonNodesBlocked
	case n.Refused != "":
		return v1alpha1.ReasonNoRoom
	default:
		return ""
	}
}

// word is what the node counts as. It is the node's own word, but for a word
// that is about an earlier revision and for what the node cannot know.
func (m *member) word() nodestate.StatusWord {
	switch m.Word {
	case nodestate.StatusErroring, nodestate.StatusBlocked, nodestate.StatusPaused,
		nodestate.StatusDisabled, nodestate.StatusUnknown:
		return m.Word
	}
	switch {
	case m.complete:
		return nodestate.StatusComplete
	case m.slot, m.Word == nodestate.StatusInProgress:
		return nodestate.StatusInProgress
	case m.obstacle != "":
		return nodestate.StatusBlocked
	default:
		return nodestate.StatusWaiting
	}
}
