package rollout

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

// memory is what the controller knows of its own writes before the cache shows
// them. It is lost with the process: then the gate sees to it that the cache
// shows everything. Only the worker uses it.
type memory struct {
	byName map[string]*nodeWrightMemory
}

type nodeWrightMemory struct {
	uid types.UID
	// nextOrder that was persisted.
	nextOrder int64
	// statusAt is the time of the last write of the status.
	statusAt time.Time
	// sweptAt is the time of the last search for ConfigMaps that nobody needs.
	sweptAt time.Time

	mu sync.Mutex
	// grants by UID of the node, until the cache shows them.
	grants map[types.UID]ownGrant
	// promised are orders by UID of the node, until the cache shows a grant.
	promised map[types.UID]int32
	// refusals by UID of the node, until the node changes.
	refusals map[types.UID]refusal
	// readings of nodes, by UID.
	readings readings
}

// readings remember what nodes say of a NodeWright. Every change of any node
// causes a pass over all of them, and few have changed since the last.
type readings map[types.UID]reading

type reading struct {
	// resourceVersion of the node, generation of the NodeWright.
	resourceVersion string
	generation      int64
	deleting        bool
	node            plan.Node
	concerned       bool
}

// of gives what a node says, read anew if the node or the NodeWright has changed,
// and whether it concerns the NodeWright at all. What the pointers and slices in
// it refer to must not be changed.
func (r readings) of(node *corev1.Node, nw *v1alpha1.NodeWright, read func() (plan.Node, bool)) (n plan.Node, concerned bool) {
	known, ok := r[node.UID]
	deleting := nw.DeletionTimestamp != nil
	if ok && node.ResourceVersion != "" && known.resourceVersion == node.ResourceVersion &&
		known.generation == nw.Generation && known.deleting == deleting {
		return known.node, known.concerned
	}
	n, concerned = read()
	n.Unreadable = slices.Clip(n.Unreadable)
	r[node.UID] = reading{node.ResourceVersion, nw.Generation, deleting, n, concerned}
	return n, concerned
}

// ownGrant is a grant that was written, or may have been.
type ownGrant struct {
	node  string
	batch nodestate.Batch
	seq   int64
	// doubt says that nobody knows whether the write took effect.
	doubt bool
}

// refusal is a grant that cannot be written to the node as it is.
type refusal struct {
	resourceVersion string
	message         string
}

func newMemory() *memory { return &memory{byName: map[string]*nodeWrightMemory{}} }

// of gives the memory of the NodeWright; a new one for an object that was
// created anew under the name. Grants for the one before count until the cache
// shows them: the nodes have those slots.
func (m *memory) of(nw *v1alpha1.NodeWright) *nodeWrightMemory {
	before := m.byName[nw.Name]
	if before != nil && before.uid == nw.UID {
		return before
	}
	mem := &nodeWrightMemory{uid: nw.UID, grants: map[types.UID]ownGrant{},
		promised: map[types.UID]int32{}, refusals: map[types.UID]refusal{}, readings: readings{}}
	if before != nil {
		mem.grants = before.grants
	}
	m.byName[nw.Name] = mem
	return mem
}

func (m *memory) drop(name string) { delete(m.byName, name) }

// promise notes the orders of grants before they are written.
func (m *nodeWrightMemory) promise(grants []plan.Grant) {
	for i := range grants {
		m.promised[types.UID(grants[i].UID)] = grants[i].Batch.Order
	}
}

// remember notes a grant, and returns the one that was known before, nil for
// none.
func (m *nodeWrightMemory) remember(node types.UID, g ownGrant) (before *ownGrant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.grants[node]; ok {
		before = &known
	}
	m.grants[node] = g
	delete(m.refusals, node)
	return before
}

// undo forgets a grant that was not written. The one before may still be on its
// way to the cache.
func (m *nodeWrightMemory) undo(node types.UID, before *ownGrant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if delete(m.grants, node); before != nil {
		m.grants[node] = *before
	}
}

func (m *nodeWrightMemory) refused(node types.UID, r refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusals[node] = r
}

// pace spreads the passes that events of nodes cause. A fleet that converges
// sends far more events than passes are useful.
type pace struct {
	clock clock.Clock
	mu    sync.Mutex
	last  map[string]time.Time
}

func newPace(c clock.Clock) *pace { return &pace{clock: c, last: map[string]time.Time{}} }

// began notes that a pass begins.
func (p *pace) began(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[name] = p.clock.Now()
}

// delay is how long an event has to wait for its pass. Events that come while
// one waits need no pass of their own: the queue keeps the earliest.
func (p *pace) delay(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.last[name].Add(passInterval).Sub(p.clock.Now()), 0)
}

func (p *pace) drop(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, name)
}
