package demo

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// ledger notes what happens to nodes and to the pods of the workload, from each
// event of a watch: what comes and goes between two looks counts as well.
type ledger struct {
	mu sync.Mutex
	// boots are the boot IDs of each node, in the order in which they were seen.
	boots map[string][]string
	// evicted are the nodes of pods that were evicted.
	evicted map[types.UID]string
	// lost are pods of the workload that went without an eviction.
	lost []string
	// serving are the pods that are ready, least the fewest since load is there.
	serving map[types.UID]bool
	least   int
	load    *workload
}

func newLedger() *ledger {
	return &ledger{boots: map[string][]string{}, evicted: map[types.UID]string{}, serving: map[types.UID]bool{}}
}

// expect begins to count: all pods of the workload are ready.
func (l *ledger) expect(load *workload) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.load, l.least = load, load.replicas
}

func (l *ledger) handlers() (nodes, pods toolscache.ResourceEventHandler) {
	nodes = toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { on(obj, l.node) },
		UpdateFunc: func(_, obj any) { on(obj, l.node) },
	}
	pods = toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { on(obj, l.pod) },
		UpdateFunc: func(_, obj any) { on(obj, l.pod) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			on(obj, l.gone)
		},
	}
	return nodes, pods
}

// on calls f if the object is of its kind.
func on[T any](obj any, f func(T)) {
	if o, ok := obj.(T); ok {
		f(o)
	}
}

func (l *ledger) node(n *corev1.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen, id := l.boots[n.Name], n.Status.NodeInfo.BootID
	if id != "" && (len(seen) == 0 || seen[len(seen)-1] != id) {
		l.boots[n.Name] = append(seen, id)
	}
}

func (l *ledger) pod(p *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(p)
	delete(l.serving, p.UID)
	if serves(p) {
		l.serving[p.UID] = true
	}
	l.count()
}

func (l *ledger) gone(p *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(p)
	delete(l.serving, p.UID)
	if _, evicted := l.evicted[p.UID]; !evicted {
		l.lost = append(l.lost, p.Name)
	}
	l.count()
}

// note remembers an eviction: the API server writes it on the pod before it
// deletes it.
func (l *ledger) note(p *corev1.Pod) {
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI"
	}) {
		l.evicted[p.UID] = p.Spec.NodeName
	}
}

func (l *ledger) count() {
	if l.load != nil {
		l.least = min(l.least, len(l.serving))
	}
}

// fill adds what was noted to the facts.
func (l *ledger) fill(f *facts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range f.nodes {
		n := &f.nodes[i]
		n.reboots = max(len(l.boots[n.name])-1, 0)
		for _, node := range l.evicted {
			if node == n.name {
				n.evicted++
			}
		}
		if l.load != nil {
			n.placed = l.load.placed[n.name]
		}
	}
	f.load, f.least, f.serving = l.load, l.least, len(l.serving)
	f.lost = slices.Sorted(slices.Values(l.lost))
}
