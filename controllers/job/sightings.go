package job

import (
	"sync"

	"github.com/nodewright/nodewright/controllers/job/plan"
)

// sightings remembers, by node and Job UID, what attempts showed before they
// ended. It is a help and no more: after a restart an attempt whose pod is gone
// counts as failed with its evidence lost.
type sightings struct {
	mu     sync.Mutex
	byNode map[string]map[string]plan.Sighting
}

// of gives what was seen on the node. It must not be changed.
func (s *sightings) of(node string) map[string]plan.Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byNode[node]
}

// set replaces what was seen on the node.
func (s *sightings) set(node string, seen map[string]plan.Sighting) {
	if len(seen) == 0 {
		s.forget(node)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNode == nil {
		s.byNode = make(map[string]map[string]plan.Sighting)
	}
	s.byNode[node] = seen
}

func (s *sightings) forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byNode, node)
}
