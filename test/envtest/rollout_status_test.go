package envtest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/test/faults"
)

// statuses counts the writes of statuses by NodeWright, and lets them fail.
type statuses struct {
	mu     sync.Mutex
	writes map[string]int
	fails  bool
}

func (s *statuses) plan(req *http.Request) faults.Fault {
	if !faults.IsWrite(statusWrite)(req) {
		return faults.None
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.Split(strings.TrimSuffix(req.URL.Path, "/status"), "/")
	s.writes[path[len(path)-1]]++
	if s.fails {
		return faults.Fail
	}
	return faults.None
}

// begin counts anew.
func (s *statuses) begin(fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes, s.fails = map[string]int{}, fails
}

func (s *statuses) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.writes))
}

// ST-06: what happens for one NodeWright writes the status of no other one,
// statuses are in nobody's way, and one that cannot be written keeps no node
// waiting.
func TestStatusOfOneNodeWrightAlone_ST06(t *testing.T) {
	b := newRolloutBed(t)
	seen := &statuses{}
	seen.begin(false)
	b.injector.Plan(seen.plan)
	node := b.createNode(t).Name
	var all []string
	for _, suffix := range []string{"-a", "-b", "-c", "-d", "-e"} {
		all = append(all, b.createNodeWright(t, suffix, nil).Name)
	}
	for _, name := range all {
		b.awaitGrant(t, node, name)
		b.answer(t, node, name, nodestate.SlotWorking, nodestate.StatusInProgress)
		b.awaitStatus(t, name, nodestate.StatusInProgress)
	}
	b.settle(t)
	seen.begin(false)
	b.complete(t, node, all[0])
	b.awaitStatus(t, all[0], nodestate.StatusComplete)
	b.settle(t)
	if got := seen.written(); !slices.Equal(got, all[:1]) {
		t.Errorf("statuses of %v were written, want that of %s alone", got, all[0])
	}

	// Nodes join while all five write statuses: none is in the way of another one.
	for range 6 {
		joined := b.createNode(t).Name
		for _, nw := range all {
			b.awaitGrant(t, joined, nw)
		}
	}
	b.settle(t)
	if n := b.counter.Snapshot().Conflicts(); n != 0 {
		t.Errorf("%d writes were answered %d", n, http.StatusConflict)
	}

	// An order is stored in the status before it is given; whatever else there is to
	// do for a node does not wait for the status.
	seen.begin(true)
	before := map[string]nodestate.Batch{}
	for _, nw := range all {
		before[nw] = recordOn(t, node, nw).Batches[nw]
		b.edit(t, nw, func(nw *v1alpha1.NodeWright) {
			nw.Spec.Packages["driver"] = v1alpha1.Package{Version: "2.0.0", Image: "registry.example.com/driver"}
		})
	}
	for _, nw := range all {
		eventually(t, "the node gets the slot for the new version", func() bool {
			got := recordOn(t, node, nw).Batches[nw]
			return got.Rollout != before[nw].Rollout && got.Order == before[nw].Order
		})
	}
	eventually(t, "all statuses were tried", func() bool { return len(seen.written()) == len(all) })
	seen.begin(false)
	for _, nw := range all {
		b.awaitStatus(t, nw, nodestate.StatusInProgress)
	}
}
