package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// kind of an object.
type kind int

const (
	kindNode kind = iota
	kindJob
	kindPod
	kindNodeWright
	kinds
)

// change of an object; before or after is nil for one that comes or goes.
type change struct {
	rv            int64
	name          string
	before, after metav1.Object
}

// api is the API server. Objects are never changed, only replaced, so that
// caches can hold them.
type api struct {
	w    *world
	rv   int64
	uids int
	live store
	// log has what the caches have not seen yet, by kind.
	log [kinds][]change
	// podsOf has the names of the pods of Jobs.
	podsOf map[types.UID][]string
	// records and identities are what objects say, decoded once for each. Identities
	// never change.
	records    map[*corev1.Node]*nodestate.Record
	identities map[types.UID]parsed
	// expiry is not later than the end of the first TTL.
	expiry time.Time
}

type parsed struct {
	id  packagejob.Identity
	err error
}

func newAPI(w *world) *api {
	return &api{
		w: w, live: newStore(), records: map[*corev1.Node]*nodestate.Record{}, identities: map[types.UID]parsed{},
		podsOf: map[types.UID][]string{},
	}
}

// record is what stands on a node, decoded. It must not be changed.
func (a *api) record(n *corev1.Node) *nodestate.Record {
	if rec, ok := a.records[n]; ok {
		return rec
	}
	if len(a.records) > 100+4*len(a.nodes()) {
		// Most are of versions that nobody has any more.
		clear(a.records)
	}
	rec := nodestate.Decode(n.Annotations, nil)
	a.records[n] = &rec
	return &rec
}

// identity is what a Job or pod says that it runs.
func (a *api) identity(o metav1.Object) (packagejob.Identity, error) {
	p, ok := a.identities[o.GetUID()]
	if !ok {
		p.id, p.err = packagejob.Parse(o)
		a.identities[o.GetUID()] = p
	}
	return p.id, p.err
}

func (a *api) uid(prefix string) types.UID {
	a.uids++
	return types.UID(fmt.Sprintf("%s-%d", prefix, a.uids))
}

// put stores an object that nobody else holds.
func (a *api) put(k kind, o metav1.Object) {
	a.rv++
	o.SetResourceVersion(strconv.FormatInt(a.rv, 10))
	before := a.live.get(k, o.GetName())
	if before == nil && k == kindPod {
		owner := metav1.GetControllerOf(o).UID
		a.podsOf[owner] = append(a.podsOf[owner], o.GetName())
	}
	a.live.put(o)
	if job := asJob(o); job != nil {
		if at, ok := expiry(job); ok && (a.expiry.IsZero() || at.Before(a.expiry)) {
			a.expiry = at
		}
	}
	a.log[k] = append(a.log[k], change{rv: a.rv, name: o.GetName(), before: before, after: o})
}

func (a *api) remove(k kind, name string) {
	before := a.live.get(k, name)
	if before == nil {
		return
	}
	a.rv++
	a.live.remove(before)
	if k == kindPod {
		owner := metav1.GetControllerOf(before).UID
		a.podsOf[owner] = slices.DeleteFunc(slices.Clone(a.podsOf[owner]), func(n string) bool { return n == name })
	}
	a.log[k] = append(a.log[k], change{rv: a.rv, name: name, before: before})
}

func rvOf(o metav1.Object) int64 {
	rv, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err)
	}
	return rv
}

func asNode(o metav1.Object) *corev1.Node { n, _ := o.(*corev1.Node); return n }
func asJob(o metav1.Object) *batchv1.Job  { j, _ := o.(*batchv1.Job); return j }
func asPod(o metav1.Object) *corev1.Pod   { p, _ := o.(*corev1.Pod); return p }
func asNodeWright(o metav1.Object) *v1alpha1.NodeWright {
	n, _ := o.(*v1alpha1.NodeWright)
	return n
}

func (a *api) node(name string) *corev1.Node { return a.live.nodes.get(name) }
func (a *api) job(name string) *batchv1.Job  { return a.live.jobs.get(name) }
func (a *api) nodeWright(name string) *v1alpha1.NodeWright {
	return a.live.nodeWrights.get(name)
}

// What there is, sorted by name.
func (a *api) nodes() []*corev1.Node               { return a.live.nodes.all() }
func (a *api) jobs() []*batchv1.Job                { return a.live.jobs.all() }
func (a *api) jobsOn(node string) []*batchv1.Job   { return a.live.jobsOn.on(node) }
func (a *api) openJobs() []*batchv1.Job            { return a.live.openJobs.all() }
func (a *api) pods() []*corev1.Pod                 { return a.live.pods.all() }
func (a *api) podsOn(node string) []*corev1.Pod    { return a.live.podsOn.on(node) }
func (a *api) openPods() []*corev1.Pod             { return a.live.openPods.all() }
func (a *api) nodeWrights() []*v1alpha1.NodeWright { return a.live.nodeWrights.all() }

func (a *api) changeNode(name string, f func(*corev1.Node)) {
	before := a.node(name)
	n := before.DeepCopy()
	f(n)
	if rec, ok := a.records[before]; ok && maps.Equal(before.Annotations, n.Annotations) {
		a.records[n] = rec
	}
	a.put(kindNode, n)
}

func (a *api) changeJob(name string, f func(*batchv1.Job)) {
	j := a.job(name).DeepCopy()
	f(j)
	a.put(kindJob, j)
}

func (a *api) changePod(p *corev1.Pod, f func(*corev1.Pod)) {
	p = p.DeepCopy()
	f(p)
	a.put(kindPod, p)
}

// changeNodeWright changes one; spec says that the generation grows with it.
func (a *api) changeNodeWright(name string, spec bool, f func(*v1alpha1.NodeWright)) {
	n := a.nodeWright(name).DeepCopy()
	f(n)
	if spec {
		n.Generation++
	}
	if n.DeletionTimestamp != nil && len(n.Finalizers) == 0 {
		a.remove(kindNodeWright, name)
		return
	}
	a.put(kindNodeWright, n)
}

// deleteNodeWright is what kubectl delete does.
func (a *api) deleteNodeWright(name string) {
	if len(a.nodeWright(name).Finalizers) == 0 {
		a.remove(kindNodeWright, name)
		return
	}
	a.changeNodeWright(name, true, func(n *v1alpha1.NodeWright) {
		n.DeletionTimestamp = &metav1.Time{Time: a.w.now}
	})
}

// cache is what the informers of one process have seen. Events of one kind come
// in order; kinds are not ordered.
type cache struct {
	a     *api
	store store
	// pos is how much of the log it has seen.
	pos [kinds]int
	// seen handles what comes in.
	seen func(kind, change)
}

// newCache shows all that there is; nothing is left to be seen.
func newCache(a *api, seen func(kind, change)) *cache {
	c := &cache{a: a, store: a.live.clone(), seen: seen}
	clear(a.log[:])
	return c
}

func (c *cache) behind(k kind) bool { return c.pos[k] < len(c.a.log[k]) }

// deliver brings in the next event of a kind.
func (c *cache) deliver(k kind) {
	ch := c.a.log[k][c.pos[k]]
	c.a.log[k][c.pos[k]] = change{}
	if c.pos[k]++; !c.behind(k) {
		c.a.log[k], c.pos[k] = c.a.log[k][:0], 0
	}
	if ch.after == nil {
		c.store.remove(ch.before)
	} else {
		c.store.put(ch.after)
	}
	c.seen(k, ch)
}

// reach waits until the cache shows a write.
func (c *cache) reach(k kind, rv int64) {
	for c.behind(k) && c.a.log[k][c.pos[k]].rv <= rv {
		c.deliver(k)
	}
}
