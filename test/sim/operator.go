package sim

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	jobplan "github.com/nodewright/nodewright/controllers/job/plan"
)

// The controllers.
const (
	nodeController    = "node"
	jobController     = "job"
	podController     = "pod"
	rolloutController = "rollout"
)

// retryAfter is the wait after a pass that failed.
const retryAfter = time.Second

// task is a key in the queue of a controller.
type task struct{ controller, key string }

// operator is one process of the operator, with what it forgets when it dies.
type operator struct {
	w      *world
	cache  *cache
	queue  []task
	queued map[task]bool
	// timers of tasks; next is not later than the first of them.
	timers  map[task]time.Time
	next    time.Time
	writers map[nodestate.Owner]*writer
	// written are the versions of Jobs and NodeWrights after own writes, which
	// reads of a single object are not older than.
	written [kinds]map[string]int64
	// sightings of Jobs, by UID.
	sightings map[types.UID]jobplan.Sighting
	// rollouts is the memory of the rollout controller, by NodeWright.
	rollouts map[string]*rolloutMemory
	// refusals of evictions, by UID of the pod.
	refusals map[types.UID]refusal
	// basis of the running pass of the node controller.
	basis basis
}

func (w *world) startOperator() {
	o := &operator{
		w: w, queued: map[task]bool{}, timers: map[task]time.Time{}, writers: map[nodestate.Owner]*writer{},
		sightings: map[types.UID]jobplan.Sighting{}, rollouts: map[string]*rolloutMemory{}, refusals: map[types.UID]refusal{},
	}
	for _, owner := range []nodestate.Owner{nodestate.OwnerNode, nodestate.OwnerJob, nodestate.OwnerPod, nodestate.OwnerRollout} {
		o.writers[owner] = &writer{op: o, owner: owner, nodes: map[string]writerMemory{}}
	}
	for k := range o.written {
		o.written[k] = map[string]int64{}
	}
	w.op = o
	o.cache = newCache(w.api, o.seen)
	// NodeWrights first: handlers of nodes look them up.
	for _, nw := range o.cache.store.nodeWrights.all() {
		o.seen(kindNodeWright, change{name: nw.Name, after: nw})
	}
	for _, node := range o.cache.store.nodes.all() {
		o.seen(kindNode, change{name: node.Name, after: node})
	}
	for _, job := range o.cache.store.jobs.all() {
		o.seen(kindJob, change{name: job.Name, after: job})
	}
	for _, pod := range o.cache.store.pods.all() {
		o.seen(kindPod, change{name: pod.Name, after: pod})
	}
}

func (o *operator) enqueue(controller, key string) {
	if t := (task{controller, key}); !o.queued[t] {
		o.queue, o.queued[t] = append(o.queue, t), true
	}
}

// after asks for a pass at a time. Only the last answer of a pass counts, so
// that each pass has to name the time.
func (o *operator) after(t task, at time.Time) {
	if at.IsZero() {
		return
	}
	o.timers[t] = at
	if o.next.IsZero() || at.Before(o.next) {
		o.next = at
	}
}

// fire moves what is due into the queue.
func (o *operator) fire() {
	if o.next.IsZero() || o.next.After(o.w.now) {
		return
	}
	o.next = time.Time{}
	for _, t := range o.timersByTime() {
		if at := o.timers[t]; at.After(o.w.now) {
			o.next = at
			return
		}
		delete(o.timers, t)
		o.enqueue(t.controller, t.key)
	}
}

func (o *operator) timersByTime() []task {
	return slices.SortedFunc(maps.Keys(o.timers), func(a, b task) int {
		return cmp.Or(o.timers[a].Compare(o.timers[b]), cmp.Compare(a.controller, b.controller), cmp.Compare(a.key, b.key))
	})
}

// operatorPlays are what the operator's process does.
func (w *world) operatorPlays() []play {
	plays := []play{
		{40, w.deliverSome},
		{40, w.runSome},
	}
	if !w.opts.Calm {
		plays = append(plays, play{1, func() bool {
			w.log("the operator is killed")
			w.startOperator()
			return true
		}})
	}
	return plays
}

// deliverSome lets the caches catch up a little, runSome lets a few passes run.
func (w *world) deliverSome() bool { return w.some(6, w.deliverOne) }
func (w *world) runSome() bool     { return w.some(4, w.runOne) }

func (w *world) some(most int, do func() bool) bool {
	acted := false
	for range 1 + w.rng.IntN(most) {
		acted = do() || acted
	}
	return acted
}

func (w *world) deliverOne() bool {
	var late []kind
	for k := range kinds {
		if w.op.cache.behind(k) {
			late = append(late, k)
		}
	}
	if len(late) == 0 {
		return false
	}
	k := pick(w, late)
	for range 1 + w.rng.IntN(4) {
		if w.op.cache.behind(k) {
			w.op.cache.deliver(k)
		}
	}
	return true
}

// runOne runs one pass of one controller.
func (w *world) runOne() bool {
	o := w.op
	o.fire()
	if len(o.queue) == 0 {
		return false
	}
	w.runTask(w.rng.IntN(len(o.queue)))
	return true
}

// runBut runs one pass of another controller.
func (w *world) runBut(controller string) bool {
	o := w.op
	o.fire()
	i := slices.IndexFunc(o.queue, func(t task) bool { return t.controller != controller })
	if i < 0 {
		return false
	}
	w.runTask(i)
	return true
}

// runTask runs a pass that is in the queue.
func (w *world) runTask(i int) {
	o := w.op
	t := o.queue[i]
	o.queue = slices.Delete(o.queue, i, i+1)
	delete(o.queued, t)
	delete(o.timers, t)
	defer func() {
		if v := recover(); v != nil {
			if _, killed := v.(crash); !killed {
				panic(v)
			}
			w.nested = false
			w.startOperator()
		}
	}()
	if err := o.reconcile(t); err != nil && !errors.Is(err, errGone) {
		if !errors.Is(err, errRefused) && !errors.Is(err, errLost) && !errors.Is(err, errFenced) && !errors.Is(err, errStale) {
			w.fail("pass of %s controller over %s: %v", t.controller, t.key, err)
		}
		o.after(t, w.now.Add(retryAfter))
	}
}

func (o *operator) reconcile(t task) error {
	switch t.controller {
	case nodeController:
		return o.reconcileNode(t)
	case jobController:
		return o.reconcileJobs(t)
	case podController:
		return o.reconcilePods(t)
	default:
		return o.reconcileRollout(t)
	}
}
