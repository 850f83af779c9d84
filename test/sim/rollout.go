package sim

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/apis/validation"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

// rolloutMemory is what the rollout controller knows of its own writes of one
// NodeWright before the cache shows them.
type rolloutMemory struct {
	uid       types.UID
	nextOrder int64
	// grants by UID of the node.
	grants map[types.UID]ownGrant
}

type ownGrant struct {
	node  string
	batch nodestate.Batch
	seq   int64
	doubt bool
}

// reconcileRollout is a pass of the rollout controller over one NodeWright.
func (o *operator) reconcileRollout(t task) error {
	o.cache.reach(kindNodeWright, o.written[kindNodeWright][t.key])
	nw := o.cache.store.nodeWrights.get(t.key)
	if nw == nil || nw.DeletionTimestamp != nil && !held(nw) {
		return o.forgetRollout(t.key)
	}
	mem := o.rolloutMemory(nw)
	if nw.DeletionTimestamp == nil {
		if err := o.addFinalizer(nw); err != nil {
			return err
		}
	}
	for name, pkg := range nw.Spec.Packages {
		if hash := revision.ConfigHash(pkg.ConfigMap); hash != "" {
			o.w.configMaps[revision.ConfigMapName(nw.Name, nw.UID, name, hash)] = pkg.ConfigMap
		}
	}
	o.settleGrants(nw.Name, mem)
	in := o.gatherRollout(nw, mem)
	p := o.w.opts.planners.rollout(in)
	if o.w.chance(0.02) && !reflect.DeepEqual(p, o.w.opts.planners.rollout(in)) {
		o.w.fail("equal inputs gave different rollout plans for %s", t.key)
	}
	o.w.checks.planned(nw, &in, &p)
	if err := o.rollOut(nw, mem, &in, &p); err != nil {
		return err
	}
	o.after(t, p.NextCheck)
	return nil
}

// rollOut does what the plan says, in the order that makes a crash at any point
// harmless.
func (o *operator) rollOut(nw *v1alpha1.NodeWright, mem *rolloutMemory, in *plan.Input, p *plan.Plan) error {
	if !p.RemoveFinalizer && !reflect.DeepEqual(nw.Status, p.Status) {
		if err := o.patchNodeWright(nw, "status", func(n *v1alpha1.NodeWright) { n.Status = p.Status }); err != nil {
			return err
		}
	}
	mem.nextOrder = p.NextOrder
	for i := range p.Grants {
		if err := o.grant(nw, mem, in, p, &p.Grants[i]); err != nil {
			return err
		}
	}
	for _, node := range p.Clean {
		if err := o.cleanNode(nw.Name, node); err != nil {
			return err
		}
	}
	if !p.RemoveFinalizer {
		return nil
	}
	o.w.checks.letGo(nw)
	return o.patchNodeWright(nw, "removal of the finalizer", func(n *v1alpha1.NodeWright) {
		n.Finalizers = slices.DeleteFunc(n.Finalizers, func(f string) bool { return f == v1alpha1.Finalizer })
	})
}

func (o *operator) rolloutMemory(nw *v1alpha1.NodeWright) *rolloutMemory {
	mem := o.rollouts[nw.Name]
	if mem == nil || mem.uid != nw.UID {
		grants := map[types.UID]ownGrant{}
		if mem != nil {
			grants = mem.grants
		}
		mem = &rolloutMemory{uid: nw.UID, grants: grants}
		o.rollouts[nw.Name] = mem
	}
	return mem
}

func held(nw *v1alpha1.NodeWright) bool { return slices.Contains(nw.Finalizers, v1alpha1.Finalizer) }

func (o *operator) addFinalizer(nw *v1alpha1.NodeWright) error {
	if held(nw) {
		return nil
	}
	return o.patchNodeWright(nw, "the finalizer", func(n *v1alpha1.NodeWright) {
		if !held(n) {
			n.Finalizers = append(n.Finalizers, v1alpha1.Finalizer)
		}
	})
}

func (o *operator) patchNodeWright(nw *v1alpha1.NodeWright, what string, f func(*v1alpha1.NodeWright)) error {
	return o.w.request("rollout controller writes "+what+" of "+nw.Name, func() error {
		live := o.w.api.nodeWright(nw.Name)
		if live == nil || live.UID != nw.UID {
			return nil
		}
		o.w.api.changeNodeWright(nw.Name, false, f)
		o.written[kindNodeWright][nw.Name] = o.w.api.rv
		return nil
	}, nil)
}

func (o *operator) gatherRollout(nw *v1alpha1.NodeWright, mem *rolloutMemory) plan.Input {
	in := plan.Input{
		Now: o.w.now, NodeWright: nw, NextOrder: mem.nextOrder, Invalid: validation.DependencyProblem(nw.Spec.Packages),
		RuntimeRequired: runtimeRequired[0].ToString(),
	}
	present := map[types.UID]bool{}
	for _, node := range o.cache.store.nodes.all() {
		present[node.UID] = true
		rec := o.w.api.record(node)
		n := o.rolloutNode(nw, node, rec)
		own, granted := mem.grants[node.UID]
		if !n.Selected && !granted && !n.Remains && n.Batch == nil && !n.BatchUnreadable {
			continue
		}
		if granted {
			if rec.Seq[nodestate.OwnerRollout] >= own.seq {
				delete(mem.grants, node.UID)
			} else {
				n.Batch, n.Pending = &own.batch, true
			}
		}
		in.Nodes = append(in.Nodes, n)
	}
	maps.DeleteFunc(mem.grants, func(uid types.UID, g ownGrant) bool { return !present[uid] && !g.doubt })
	return in
}

func (o *operator) rolloutNode(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record) plan.Node {
	n := plan.Node{
		Name: node.Name, UID: string(node.UID), Selected: o.w.selects(nw, node), Ignored: v1alpha1.NodeIgnored(node.Labels),
		Word: rec.Status[nw.Name], Ready: corev1.ConditionTrue,
	}
	n.Ready = node.Status.Conditions[0].Status
	_, n.Cordoned = rec.Cordons[nw.Name]
	if b, ok := rec.Batches[nw.Name]; ok {
		n.Batch = &b
	}
	if s, ok := rec.Slots[nw.Name]; ok {
		n.Slot = &s
	}
	for _, name := range o.w.spec(nw).goes {
		if e, ok := rec.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: name}]; ok {
			n.Uninstalls = append(n.Uninstalls, plan.UninstallOf(&e))
		}
	}
	if nw.DeletionTimestamp != nil {
		readRemains(nw, rec, &n)
	}
	if (n.Selected || len(n.Uninstalls) > 0) && len(node.Spec.Taints) > 0 {
		if taints := gatesOf(node); len(taints) > 0 {
			n.Gated = taints[0].ToString()
		}
		n.Created = node.CreationTimestamp.Time
		n.Intolerable = settings.Intolerable(nw, node.Spec.Taints)
	}
	return n
}

// readRemains reads what is left on a node of a NodeWright that is being deleted.
func readRemains(nw *v1alpha1.NodeWright, rec *nodestate.Record, n *plan.Node) {
	for _, m := range rec.Malformed {
		if key, ok := nodestate.ParseKey(m.Key); ok && key.NodeWright == nw.Name && m.Kind != nodestate.KindBatch {
			n.Unreadable = append(n.Unreadable, m.Key)
		}
	}
	_, status := rec.Status[nw.Name]
	n.Remains = len(n.Unreadable) > 0 || status || n.Slot != nil || hasRef(rec.Packages, nw.Name) ||
		hasRef(rec.JobReports, nw.Name) || hasRef(rec.PodReports, nw.Name)
}

func hasRef[V any](m map[nodestate.PackageRef]V, name string) bool {
	for ref := range m {
		if ref.NodeWright == name {
			return true
		}
	}
	return false
}

// settleGrants finds out about grants whose writes have no known outcome.
func (o *operator) settleGrants(name string, mem *rolloutMemory) {
	for uid, g := range mem.grants {
		if !g.doubt {
			continue
		}
		v := o.writers[nodestate.OwnerRollout].read(g.node)
		stands, granted := nodestate.Batch{}, false
		if v != nil && v.node.UID == uid {
			stands, granted = v.record.Batches[name]
		}
		if !granted {
			delete(mem.grants, uid)
			continue
		}
		g.batch, g.seq, g.doubt = stands, v.record.Seq[nodestate.OwnerRollout], false
		mem.grants[uid] = g
	}
}

func (o *operator) grant(
	nw *v1alpha1.NodeWright, mem *rolloutMemory, in *plan.Input, p *plan.Plan, g *plan.Grant,
) error {
	w := o.writers[nodestate.OwnerRollout]
	v := w.read(g.Node)
	if v == nil || string(v.node.UID) != g.UID || v.record.Batches[nw.Name].ID != g.Over {
		o.after(task{rolloutController, nw.Name}, o.w.now.Add(retryAfter))
		return nil
	}
	set := standing(v)
	batch := g.Batch
	batch.ID = nodestate.FormatSeq(v.nextSeq)
	set.Batches[nw.Name] = batch
	own := ownGrant{node: g.Node, batch: batch, seq: v.nextSeq, doubt: true}
	mem.grants[v.node.UID] = own
	w.landed = func() {
		o.w.log("  %s gets a slot of %s: id %s, order %d, renewal %v", g.Node, nw.Name, batch.ID, batch.Order, g.Renewal)
		o.w.checks.granted(in, p, g)
	}
	defer func() { w.landed = nil }()
	_, err := w.apply(v, set)
	switch {
	case errors.Is(err, errGone):
		delete(mem.grants, v.node.UID)
		return nil
	case err != nil:
		return err
	}
	own.doubt = false
	mem.grants[v.node.UID] = own
	return nil
}

// standing is the whole set of the rollout controller as it stands on a node.
func standing(v *view) nodestate.Set {
	set := nodestate.Set{Batches: maps.Clone(v.record.Batches)}
	if set.Batches == nil {
		set.Batches = map[string]nodestate.Batch{}
	}
	return set
}

func (o *operator) cleanNode(name, node string) error {
	w := o.writers[nodestate.OwnerRollout]
	v := w.read(node)
	if v == nil {
		return nil
	}
	set := standing(v)
	delete(set.Batches, name)
	var err error
	if len(set.Batches) == 0 {
		err = w.release(v)
	} else {
		_, err = w.apply(v, set)
	}
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// forgetRollout takes grants of a NodeWright that is gone off the nodes.
func (o *operator) forgetRollout(name string) error {
	delete(o.rollouts, name)
	if o.w.api.nodeWright(name) != nil {
		return nil
	}
	for _, node := range o.cache.store.nodes.all() {
		if _, ok := o.w.api.record(node).Batches[name]; ok {
			if err := o.cleanNode(name, node.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
