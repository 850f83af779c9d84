package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// Input is everything a plan for one NodeWright follows from. It is read-only.
type Input struct {
	Now time.Time
	// NodeWright as read. Its status is what the next one is compared with.
	NodeWright *v1alpha1.NodeWright
	// Invalid says what in the spec cannot be read; empty if all can.
	Invalid string
	// NextOrder is the lowest order that was never given to a node, as far as the
	// controller itself knows: what it persisted last. The plan takes what the
	// status and the nodes show into account as well.
	NextOrder int64
	// RuntimeRequired is the taint that keeps workloads off new nodes.
	RuntimeRequired string
	// Nodes that the NodeWright selects or has keys on, in any order.
	Nodes []Node
}

// Node is a node as far as the NodeWright is concerned.
type Node struct {
	Name string
	UID  string
	// Selected says that the selector matches the labels.
	Selected bool
	// Ignored says that the node carries the ignore label.
	Ignored bool
	// Ready is the status of the node's Ready condition; empty if nothing was
	// reported yet.
	Ready corev1.ConditionStatus
	// Word is the status word that the node controller wrote; empty means that it
	// has nothing to say, so the node waits.
	Word nodestate.StatusWord
	// Batch is the last grant: what stands on the node, or a later one that the
	// cache does not show yet. nil if there was none.
	Batch *nodestate.Batch
	// Promised is the order of an earlier grant that could not be written, nil if
	// there is none: the next one takes it, so that retries leave no gaps.
	Promised *int32
	// BatchUnreadable says that a grant stands on the node that cannot be read.
	BatchUnreadable bool
	// Slot is the node's answer to a grant, nil if there is none.
	Slot *nodestate.Slot
	// Gated is the runtime-required taint that keeps workloads off the node; empty
	// for none. Created is when a node with one came into being.
	Gated   string
	Created time.Time
	// Intolerable is a taint that the pods of packages cannot live with; empty for
	// none.
	Intolerable string
	// Cordoned says that the NodeWright holds a cordon on the node.
	Cordoned bool
	// Refused says why the last grant could not be written and will not be until
	// the node changes, or, of a node with a slot, why its record cannot; empty if
	// they can.
	Refused string
	// Unreadable are keys of the NodeWright on the node whose values cannot be
	// read, as far as they were looked at.
	Unreadable []string
	// Detail says more of a node that has a problem, for those that are named.
	Detail Detail
	// Remains says, while the NodeWright is being deleted, that keys of other
	// controllers are still on the node.
	Remains bool
	// Pending says that Batch is a grant that the cache does not show yet.
	Pending bool
	// Uninstalls are the packages on the node that are to be taken off, sorted by
	// name: those that the spec says, or all that can be while the NodeWright is
	// being deleted.
	Uninstalls []Uninstall
}

// Uninstall is a package on a node that is to be taken off it.
type Uninstall struct {
	Package string
	// Failed says that the uninstall has failed for good.
	Failed bool
	// Reason and Message are those of the entry.
	Reason  string
	Message string
}

// Detail says what is wrong on a node.
type Detail struct {
	Package string
	Reason  string
	Message string
}

// Plan is what to do, in this order: persist NextOrder, then Grants; for a
// NodeWright that is being deleted, Clean and then RemoveFinalizer. Status is
// the status once the grants are made.
type Plan struct {
	// Grants in the order in which they were decided.
	Grants []Grant
	// NextOrder has to be persisted before the grants, so that no order is given
	// twice.
	NextOrder int64
	// Status has the conditions of this controller only.
	Status v1alpha1.NodeWrightStatus
	// Events are told once the status is written.
	Events []Event
	// Clean are the names of nodes from which the grant is to be removed, sorted.
	Clean []string
	// RemoveFinalizer says that nothing of the NodeWright is left on any node.
	RemoveFinalizer bool
	// AllComplete says that every selected node is complete for Revision and no
	// slot is in use anywhere.
	AllComplete bool
	// NextCheck is the nearest time at which something is due, zero for none.
	NextCheck time.Time
}

// Grant gives a node a slot, or renews the one it has.
type Grant struct {
	// Node and UID say which node; one that was created anew under the name gets
	// nothing.
	Node string
	UID  string
	// Batch is what to write, without ID: the id is the number of the write.
	Batch nodestate.Batch
	// Renewal says that the node holds a slot already. It gets a new id all the
	// same: a node that gives its slot back at this moment, for the revision
	// before, does not give back the one for the new revision.
	Renewal bool
	// Over is the id of the grant that this one takes the place of; empty if there
	// was none.
	Over string
}

// Event is told to the user on the NodeWright.
type Event struct {
	Warning bool
	Reason  string
	Message string
}
