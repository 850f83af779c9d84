package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/node/drain"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

const (
	// maxEvictions is how many evictions of a node are under way at once.
	maxEvictions = 8
	// evictionTime is for how long a pass begins evictions. Each may take as long as
	// its requests do, and other nodes need the worker: the rest comes with the next
	// pass.
	evictionTime = 20 * time.Second
	// retryStep is the wait after a refusal, longer by as much after each further
	// one, up to retryMax. The API server may ask for more, up to retryMax too. What a
	// pass takes comes on top, and each try is to come within 30 seconds.
	retryStep = 10 * time.Second
	retryMax  = 25 * time.Second
	// soon is when a node is planned again after something that the record does not
	// show yet.
	soon = time.Second
)

// refusal is why the last eviction of a pod did not begin its end.
type refusal struct {
	kind    drain.OutcomeKind
	message string
	retryAt time.Time
	// times in a row.
	times int
}

type refusalKey struct {
	nodeWright string
	pod        types.UID
}

// refusals remembers what came of evictions, by node. It holds pods that are on
// their node, of nodes that are being drained: who forgets it all, as a new
// leader does, evicts once more.
type refusals struct {
	mu     sync.Mutex
	byNode map[string]map[refusalKey]refusal
}

// of is the refusal of a pod, the zero value if there is none.
func (s *refusals) of(node, nodeWright string, pod types.UID) refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byNode[node][refusalKey{nodeWright, pod}]
}

// note remembers an outcome. fresh tells whether the pod was not refused like
// that before.
func (s *refusals) note(node string, e *plan.Eviction, o *drain.Outcome, now time.Time) (fresh bool) {
	key := refusalKey{e.NodeWright, types.UID(e.UID)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Kind == drain.Started || o.Kind == drain.Gone {
		delete(s.byNode[node], key)
		return false
	}
	last := s.byNode[node][key]
	if s.byNode == nil {
		s.byNode = map[string]map[refusalKey]refusal{}
	}
	if s.byNode[node] == nil {
		s.byNode[node] = map[refusalKey]refusal{}
	}
	wait := min(max(o.RetryAfter, time.Duration(last.times+1)*retryStep), retryMax)
	s.byNode[node][key] = refusal{kind: o.Kind, message: o.Message, retryAt: now.Add(wait), times: last.times + 1}
	return last.kind != o.Kind || last.message != o.Message
}

// keep forgets what is not about the pods that were seen on the node. Where
// nobody looked, nothing is drained.
func (s *refusals) keep(node string, seen seenPods) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.byNode[node] {
		if _, there := seen[key.nodeWright][key.pod]; !there {
			delete(s.byNode[node], key)
		}
	}
	if len(s.byNode[node]) == 0 {
		delete(s.byNode, node)
	}
}

// eviction is one that was asked for.
type eviction struct {
	*plan.Eviction
	pod      *drain.Pod
	settings v1alpha1.DrainSettings
	// done says that outcome is an answer.
	done    bool
	outcome drain.Outcome
}

// evict begins the ends of pods, after the record was written. Answers that are
// expected, such as that of a budget, and faults of one pod are no errors: they
// are remembered for the plan, which says them and the time of the next try. An
// error would put off all work on the node.
func (r *Reconciler) evict(ctx context.Context, in *gathered, p *plan.Plan) error {
	if len(p.Evict) == 0 {
		return nil
	}
	// Without a cordon the pods would come straight back.
	if !in.Node.Unschedulable || len(p.Set.Cordons) == 0 {
		return fmt.Errorf("evict pods of node %s: it is not cordoned", in.Node.Name)
	}
	all := make([]eviction, len(p.Evict))
	for i := range p.Evict {
		e := &p.Evict[i]
		pod := in.seen[e.NodeWright][types.UID(e.UID)]
		if pod == nil {
			return fmt.Errorf("evict pod %s for nodewright %s: it was not seen on node %s", e.Pod, e.NodeWright, in.Node.Name)
		}
		all[i] = eviction{Eviction: e, pod: pod, settings: in.specs[e.NodeWright].Spec.DrainSettings()}
	}
	r.sendEvictions(ctx, all)
	for i := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !all[i].done {
			in.again = true
			continue
		}
		r.noteEviction(ctx, in, &all[i])
	}
	return nil
}

// sendEvictions sends as many as there is time for.
func (r *Reconciler) sendEvictions(ctx context.Context, all []eviction) {
	begin := r.opts.Clock.Now()
	next := make(chan *eviction)
	var workers sync.WaitGroup
	for range min(maxEvictions, len(all)) {
		workers.Go(func() {
			for e := range next {
				e.outcome = r.opts.Drain.Evict(ctx, e.pod, &e.settings)
				e.done = true
			}
		})
	}
	for i := range all {
		if ctx.Err() != nil || r.opts.Clock.Since(begin) >= evictionTime {
			break
		}
		next <- &all[i]
	}
	close(next)
	workers.Wait()
}

func (r *Reconciler) noteEviction(ctx context.Context, in *gathered, e *eviction) {
	log := logf.FromContext(ctx).WithValues("pod", e.Pod, "nodewright", e.NodeWright, "outcome", e.outcome.Kind)
	evictions.WithLabelValues(e.NodeWright, string(e.outcome.Kind)).Inc()
	fresh := r.refusals.note(in.Node.Name, e.Eviction, &e.outcome, r.opts.Clock.Now())
	switch {
	case e.outcome.Kind == drain.Started:
		log.Info("evicted pod")
	case !fresh:
		log.V(2).Info("pod was not evicted again", "reason", e.outcome.Message)
	case e.outcome.Kind == drain.Failed || e.outcome.Kind == drain.Forbidden:
		log.Error(e.outcome.Err, "evict pod")
	default:
		log.Info("pod is not evicted yet", "reason", e.outcome.Message)
	}
	// The record is to say so, and nothing else brings the node back before the next
	// try.
	in.again = in.again || fresh
}
