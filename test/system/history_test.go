package system

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// history follows every change of every node and notes what must never be
// seen: a key that goes back.
type history struct {
	mu     sync.Mutex
	last   map[string]map[nodestate.PackageRef]nodestate.PackageStatus
	seq    map[string]map[nodestate.Owner]int64
	events int
	faults []string
}

// follow watches until ctx ends. The watch loses nothing: it goes on from the
// resourceVersion of the list.
func (h *history) follow(ctx context.Context, cs kubernetes.Interface) error {
	list, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return cs.CoreV1().Nodes().Watch(ctx, o)
		},
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	go func() {
		for e := range w.ResultChan() {
			if node, ok := e.Object.(*corev1.Node); ok {
				h.see(node)
			} else {
				h.fault("watch of nodes was interrupted: %v", e.Object)
			}
		}
	}()
	return nil
}

func (h *history) see(node *corev1.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events++
	rec := nodestate.Decode(node.Annotations, nil)
	for _, m := range rec.Malformed {
		h.faults = append(h.faults, fmt.Sprintf("node %s: %s cannot be read: %v", node.Name, m.Key, m.Err))
	}
	for ref, before := range h.last[node.Name] {
		after, ok := rec.Packages[ref]
		if !ok {
			h.faults = append(h.faults, fmt.Sprintf("node %s: entry of %v is gone after %s", node.Name, ref, place(&before)))
			continue
		}
		if goesBack(&before, &after) {
			h.faults = append(h.faults, fmt.Sprintf("node %s: %v went back from %s to %s", node.Name, ref, place(&before), place(&after)))
		}
	}
	for owner, before := range h.seq[node.Name] {
		if rec.Seq[owner] < before {
			h.faults = append(h.faults, fmt.Sprintf("node %s: fence of %s went back from %d to %d", node.Name, owner, before, rec.Seq[owner]))
		}
	}
	h.last[node.Name], h.seq[node.Name] = rec.Packages, rec.Seq
}

// goesBack tells whether an entry lost ground. Nothing restarts in this test:
// no spec changes, so run and stage only grow, and complete is for ever.
func goesBack(before, after *nodestate.PackageStatus) bool {
	stages := nodestate.Stages()
	from, to := slices.Index(stages, before.Stage), slices.Index(stages, after.Stage)
	switch {
	case before.Run != after.Run, to < from:
		return true
	case to > from:
		return false
	case before.State == nodestate.StateComplete:
		return after.State != nodestate.StateComplete
	default:
		return after.Attempt < before.Attempt || after.Failures < before.Failures
	}
}

func place(s *nodestate.PackageStatus) string {
	return fmt.Sprintf("%s/%s run %d attempt %d failures %d", s.Stage, s.State, s.Run, s.Attempt, s.Failures)
}

func (h *history) fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

func newHistory() *history {
	return &history{
		last: map[string]map[nodestate.PackageRef]nodestate.PackageStatus{},
		seq:  map[string]map[nodestate.Owner]int64{},
	}
}
