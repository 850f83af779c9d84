package apply

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// memory is what a writer remembers of its own writes, by node name. It lives
// as long as the process leads; the barrier makes up for its being empty at the
// start.
type memory struct {
	mu    sync.Mutex
	nodes map[string]nodeMemory
	// epochs counts the begins and ends of writes, over all nodes.
	epochs uint64
}

// nodeMemory is about one node.
type nodeMemory struct {
	// known says that the writer has sent something to the node.
	known bool
	// version is the resourceVersion that no read may be older than.
	version string
	// doubt says that the outcome of the last write is not known.
	doubt bool
	// epoch changes when a write begins and when it ends: a view is usable only
	// if none did since before it was read.
	epoch uint64
}

func newMemory() *memory { return &memory{nodes: make(map[string]nodeMemory)} }

// of is what is remembered of a node; the zero value for one never written.
func (m *memory) of(name string) nodeMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes[name]
}

// update changes what is remembered, and begins a new epoch.
func (m *memory) update(name string, change func(*nodeMemory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.updateLocked(name, change)
}

func (m *memory) updateLocked(name string, change func(*nodeMemory)) {
	n := m.nodes[name]
	change(&n)
	m.epochs++
	n.known, n.epoch = true, m.epochs
	m.nodes[name] = n
}

// begin starts a write that was decided from a view of this epoch. It is false
// if the view is stale.
func (m *memory) begin(name string, epoch uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nodes[name].epoch != epoch {
		return false
	}
	m.updateLocked(name, func(*nodeMemory) {})
	return true
}

// wrote ends a write whose effect has this resourceVersion.
func (m *memory) wrote(name, version string) {
	m.update(name, func(n *nodeMemory) { n.version, n.doubt = version, false })
}

// failed ends a write whose outcome is not known for sure.
func (m *memory) failed(name string) {
	m.update(name, func(n *nodeMemory) { n.doubt = true })
}

// seenLive takes a read from the API server into account that began in the given
// epoch. It ends the doubt, and later reads may not be older than it.
func (m *memory) seenLive(node *corev1.Node, epoch uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok := m.nodes[node.Name]
	if !ok || n.epoch != epoch {
		return
	}
	n.doubt = false
	if older(n.version, node.ResourceVersion) {
		n.version = node.ResourceVersion
	}
	m.nodes[node.Name] = n
}

// reached takes a write beside the sets into account: later reads may not be older
// than it. Views stay usable.
func (m *memory) reached(name, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[name]
	if older(n.version, version) {
		n.known, n.version = true, version
	}
	m.nodes[name] = n
}

// forget drops a node that a live read did not find, unless a write began since.
func (m *memory) forget(name string, epoch uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nodes[name].epoch == epoch {
		delete(m.nodes, name)
	}
}

// older tells whether version a is from before b. An empty b is before
// everything; versions that cannot be compared are taken as older, so that they
// lead to a live read.
func older(a, b string) bool {
	if b == "" || a == b {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || c < 0
}
