package sim

import (
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

var (
	errRefused = errors.New("the API server refused the request for a moment")
	errLost    = errors.New("the answer to the request was lost")
	errGone    = errors.New("the node is gone")
	errFenced  = errors.New("the number does not grow")
	errStale   = errors.New("the node is not as it was read")
)

// fault is what becomes of a request.
type fault int

const (
	faultNone fault = iota
	// faultRefused: no effect, an error.
	faultRefused
	// faultLost: the effect, and an error.
	faultLost
	// faultCrashBefore and faultCrashAfter: the operator is killed around it.
	faultCrashBefore
	faultCrashAfter
)

// fault draws what becomes of a request of the operator.
func (w *world) fault() fault {
	if !w.stormy || !w.chance(0.04) {
		return faultNone
	}
	return fault(1 + w.rng.IntN(4))
}

// request carries a request of the operator out, with what may happen to it.
// late is called where a request of a killed operator is still on its way.
func (w *world) request(what string, do func() error, late func()) error {
	w.meanwhile()
	f := w.fault()
	switch f {
	case faultRefused:
		w.log("  %s: refused for a moment", what)
		return errRefused
	case faultCrashBefore:
		if late != nil && !w.opts.Doomed && w.chance(0.5) {
			w.log("  %s: the operator is killed, the request is on its way", what)
			late()
		} else {
			w.log("  %s: the operator is killed before it", what)
		}
		panic(crash{})
	}
	err := do()
	switch f {
	case faultLost:
		w.log("  %s: the answer is lost (%v)", what, err)
		return errLost
	case faultCrashAfter:
		w.log("  %s: the operator is killed after it (%v)", what, err)
		panic(crash{})
	}
	if err != nil {
		w.log("  %s: %v", what, err)
	}
	return err
}

// lateApply is one whole set of an owner on its way to a node.
type lateApply struct {
	owner       nodestate.Owner
	node        string
	uid         types.UID
	seq         int64
	annotations map[string]string
	labels      map[string]string
	// hold is whether the node controller wants the node cordoned.
	hold bool
	// basis is what the node controller decided from.
	basis basis
	sent  time.Time
}

// basis of a pass of the node controller: the node, its record and the
// NodeWrights, as it read them.
type basis struct {
	at     time.Time
	node   *corev1.Node
	specs  map[string]*v1alpha1.NodeWright
	record nodestate.Record
	// looked says that the workloads were looked at, disturbed is how often somebody
	// had changed them or the cordon by then.
	looked    bool
	disturbed int
}

// land brings an apply to the node, past the fence.
func (w *world) land(r *lateApply) error {
	before := w.api.node(r.node)
	if before == nil || before.UID != r.uid {
		return errGone
	}
	key := r.owner.SeqKey()
	if stands, err := nodestate.ParseSeq(before.Annotations[key]); r.seq > 0 && err == nil && r.seq != stands+1 {
		return errFenced
	}
	w.writes++
	w.api.changeNode(r.node, func(n *corev1.Node) {
		replaceOwned(&n.Annotations, r.annotations, r.owner)
		if r.owner == nodestate.OwnerNode {
			replaceOwned(&n.Labels, r.labels, r.owner)
			holdCordon(n, r.hold)
		}
	})
	w.checks.basis = r.basis
	w.checks.nodeWritten(before, w.api.node(r.node), r.owner)
	return nil
}

// lateFor is how long a request may be on its way: requests time out.
const lateFor = 5 * time.Second

// landAll lets every request arrive that is still on its way.
func (w *world) landAll() {
	for len(w.late) > 0 {
		w.landLate()
	}
}

func (w *world) landLate() bool {
	if len(w.late) == 0 {
		return false
	}
	i := w.rng.IntN(len(w.late))
	r := w.late[i]
	w.late = append(w.late[:i:i], w.late[i+1:]...)
	node := w.api.node(r.node)
	if w.now.After(r.sent.Add(lateFor)) || node != nil && node.Annotations[r.owner.SeqKey()] == "" && r.seq > 1 {
		// A node is given up long after the last request to it has ended.
		return false
	}
	err := w.land(&r)
	w.log("a late apply of %s with number %d lands on %s: %v", r.owner, r.seq, r.node, err)
	return true
}

func replaceOwned(m *map[string]string, want map[string]string, owner nodestate.Owner) {
	if *m == nil {
		*m = map[string]string{}
	}
	maps.DeleteFunc(*m, func(key, _ string) bool { return owns(key, owner) })
	maps.Copy(*m, want)
}

// owners of keys, which are few; empty for those that nobody owns.
var owners sync.Map

func owns(key string, owner nodestate.Owner) bool {
	known, ok := owners.Load(key)
	if !ok {
		o, _ := nodestate.OwnerOf(key)
		known, _ = owners.LoadOrStore(key, o)
	}
	return known == owner
}

// writer stands for a controllers/apply.Writer.
type writer struct {
	op    *operator
	owner nodestate.Owner
	nodes map[string]writerMemory
	// landed looks at what an apply did, whatever becomes of the answer.
	landed func()
}

type writerMemory struct {
	rv    int64
	doubt bool
}

// view is what a writer may decide from.
type view struct {
	node    *corev1.Node
	record  nodestate.Record
	nextSeq int64
}

// read gives a view that is not older than the writer's own last write, nil for
// a node that is gone.
func (wr *writer) read(name string) *view {
	m, known := wr.nodes[name]
	node := wr.op.cache.store.nodes.get(name)
	if known && (m.doubt || node == nil || rvOf(node) < m.rv) {
		node = wr.op.w.api.node(name)
		m.doubt = false
		if node != nil {
			m.rv = max(m.rv, rvOf(node))
		}
	}
	if node == nil {
		delete(wr.nodes, name)
		return nil
	}
	if known {
		wr.nodes[name] = m
	}
	record := wr.op.w.api.record(node)
	return &view{node: node, record: *record, nextSeq: wr.stands(record) + 1}
}

func (wr *writer) stands(record *nodestate.Record) int64 {
	seq := record.Seq[wr.owner]
	if seq > 0 {
		return seq
	}
	switch wr.owner {
	case nodestate.OwnerNode:
		for _, s := range record.Packages {
			seq = max(seq, s.Run)
		}
	case nodestate.OwnerRollout:
		for _, b := range record.Batches {
			if id, err := strconv.ParseInt(b.ID, 10, 64); err == nil {
				seq = max(seq, id)
			}
		}
	}
	return seq
}

// apply brings the whole set of the owner to the node. written is false where
// it stood already.
func (wr *writer) apply(v *view, set nodestate.Set) (written bool, err error) {
	encoded, err := set.Encode(wr.owner, v.nextSeq)
	if err != nil {
		wr.op.w.fail("%s cannot write its set to node %s: %v", wr.owner, v.node.Name, err)
	}
	hold := len(set.Cordons) > 0
	if stands(v.node, &encoded, wr.owner) && (wr.owner != nodestate.OwnerNode || cordonStands(v.node, hold)) {
		return false, nil
	}
	return true, wr.send(&lateApply{
		owner: wr.owner, node: v.node.Name, uid: v.node.UID, seq: v.nextSeq,
		annotations: encoded.Annotations, labels: encoded.Labels, hold: hold,
	})
}

// release gives the node up, the number included.
func (wr *writer) release(v *view) error {
	for key := range v.node.Annotations {
		if owns(key, wr.owner) {
			return wr.send(&lateApply{owner: wr.owner, node: v.node.Name, uid: v.node.UID})
		}
	}
	return nil
}

func (wr *writer) send(r *lateApply) error {
	r.basis, r.sent = wr.op.basis, wr.op.w.now
	m := wr.nodes[r.node]
	m.doubt = true
	wr.nodes[r.node] = m
	var late func()
	if r.seq > 0 {
		late = func() { wr.op.w.late = append(wr.op.w.late, *r) }
	}
	w := wr.op.w
	err := w.request(string(wr.owner)+" applies to "+r.node, func() error {
		err := w.land(r)
		if err == nil && wr.landed != nil {
			wr.landed()
		}
		return err
	}, late)
	if err != nil {
		return err
	}
	m.rv, m.doubt = rvOf(w.api.node(r.node)), false
	wr.nodes[r.node] = m
	return nil
}

// stands tells whether the node is as wanted but for the number.
func stands(node *corev1.Node, want *nodestate.Encoded, owner nodestate.Owner) bool {
	count := 0
	for key, value := range node.Annotations {
		if !owns(key, owner) {
			continue
		}
		count++
		if wanted, ok := want.Annotations[key]; !ok || wanted != value && key != owner.SeqKey() {
			return false
		}
	}
	if count != len(want.Annotations) {
		// Nothing is wanted and nothing was ever written.
		return count == 0 && len(want.Annotations) == 1
	}
	for key, value := range want.Labels {
		if node.Labels[key] != value {
			return false
		}
	}
	return true
}
