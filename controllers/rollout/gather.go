package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

// gather reads what a plan follows from. Nodes come from the cache without
// waiting for it: what this controller wrote itself is in its memory, and what
// others wrote may be old without harm.
func (r *Reconciler) gather(ctx context.Context, nw *v1alpha1.NodeWright, mem *nodeWrightMemory) (*plan.Input, error) {
	if err := r.settle(ctx, nw.Name, mem); err != nil {
		return nil, err
	}
	nodes, err := r.listNodes(ctx)
	if err != nil {
		return nil, err
	}
	in := &plan.Input{Now: r.opts.Clock.Now(), NodeWright: nw, NextOrder: mem.nextOrder,
		Invalid: validation.DependencyProblem(nw.Spec.Packages)}
	selector, err := metav1.LabelSelectorAsSelector(&nw.Spec.NodeSelectors)
	if err != nil {
		selector = labels.Nothing()
		in.Invalid = fmt.Sprintf("spec.nodeSelectors cannot be read: %s; correct it", err)
	}
	found := collect(nodes, nw, selector, mem, in)
	r.noteRefusals(in.Nodes)
	r.noteTaints(nw, in, found)
	explain(nw, in.Nodes, found)
	return in, nil
}

func (r *Reconciler) listNodes(ctx context.Context) ([]corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var list corev1.NodeList
	if err := r.client.List(ctx, &list, client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list.Items, nil
}

// collect adds the nodes that the NodeWright selects or has keys on to the
// input. It returns them in the same order.
func collect(nodes []corev1.Node, nw *v1alpha1.NodeWright, selector labels.Selector, mem *nodeWrightMemory, in *plan.Input) []*corev1.Node {
	read, uninstalls := newReader(nw.Name), uninstallKeys(nw)
	in.Nodes = make([]plan.Node, 0, len(nodes))
	found := make([]*corev1.Node, 0, len(nodes))
	seen := make(map[types.UID]bool, len(mem.grants))
	for i := range nodes {
		node := &nodes[i]
		own, granted := mem.grants[node.UID]
		seen[node.UID] = true
		n, concerned := mem.readings.of(node, nw, func() (plan.Node, bool) {
			n := plan.Node{Name: node.Name, UID: string(node.UID), Selected: selector.Matches(labels.Set(node.Labels))}
			if nw.DeletionTimestamp != nil {
				n.Remains, n.Unreadable = remains(node, nw)
			}
			n.Uninstalls = readUninstalls(uninstalls, node.Annotations)
			n.Ignored = v1alpha1.NodeIgnored(node.Labels)
			n.Ready = readiness(node)
			read.read(node.Annotations, &n)
			return n, n.Selected || n.Remains || read.hasBatch(node.Annotations)
		})
		if !concerned && !granted {
			continue
		}
		if granted {
			if shows(node, own.seq) {
				delete(mem.grants, node.UID)
			} else {
				n.Batch, n.BatchUnreadable, n.Pending = &own.batch, false, true
			}
		}
		if order, ok := mem.promised[node.UID]; ok {
			n.Promised = &order
		}
		if refused, ok := mem.refusals[node.UID]; ok {
			if refused.resourceVersion == node.ResourceVersion {
				n.Refused = refused.message
			} else {
				delete(mem.refusals, node.UID)
			}
		}
		in.Nodes = append(in.Nodes, n)
		found = append(found, node)
	}
	mem.forgetNodes(seen)
	return found
}

// noteRefusals says of nodes at work whose controllers cannot write for want of
// room: the node itself cannot say so.
func (r *Reconciler) noteRefusals(nodes []plan.Node) {
	for i := range nodes {
		n := &nodes[i]
		if n.Refused == "" && n.Batch != nil && n.Batch.Holds(n.Slot) {
			n.Refused = r.opts.Refusals.Of(types.UID(n.UID))
		}
	}
}

// shows tells whether the node, as cached, is not older than the write with
// this number.
func shows(node *corev1.Node, seq int64) bool {
	have, err := nodestate.ParseSeq(node.Annotations[nodestate.OwnerRollout.SeqKey()])
	return err == nil && have >= seq
}

// forgetNodes drops what is remembered of nodes that are gone.
func (m *nodeWrightMemory) forgetNodes(present map[types.UID]bool) {
	for uid, g := range m.grants {
		if !present[uid] && !g.doubt {
			delete(m.grants, uid)
		}
	}
	for uid := range m.promised {
		if !present[uid] {
			delete(m.promised, uid)
		}
	}
	for uid := range m.refusals {
		if !present[uid] {
			delete(m.refusals, uid)
		}
	}
	maps.DeleteFunc(m.readings, func(uid types.UID, _ reading) bool { return !present[uid] })
}

func readiness(node *corev1.Node) corev1.ConditionStatus {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// nodesWithGrant are the names of nodes with a grant of the NodeWright.
func (r *Reconciler) nodesWithGrant(ctx context.Context, name string) ([]string, error) {
	nodes, err := r.listNodes(ctx)
	if err != nil {
		return nil, err
	}
	read := newReader(name)
	var out []string
	for i := range nodes {
		if read.hasBatch(nodes[i].Annotations) {
			out = append(out, nodes[i].Name)
		}
	}
	return out, nil
}

// explain looks closer at the few nodes that the status is going to name.
func explain(nw *v1alpha1.NodeWright, nodes []plan.Node, found []*corev1.Node) {
	if nw.DeletionTimestamp != nil {
		return
	}
	named := map[nodestate.StatusWord][]int{}
	for i := range nodes {
		if !nodes[i].Selected || nodes[i].Ignored {
			continue
		}
		switch word := nodes[i].Word; word {
		case nodestate.StatusErroring, nodestate.StatusBlocked, nodestate.StatusUnknown:
			named[word] = append(named[word], i)
		default:
			if plan.Struggles(nodes[i].Slot) {
				named[nodestate.StatusInProgress] = append(named[nodestate.StatusInProgress], i)
			}
		}
	}
	for _, indices := range named {
		slices.SortFunc(indices, func(a, b int) int { return cmp.Compare(nodes[a].Name, nodes[b].Name) })
		for _, i := range indices[:min(len(indices), v1alpha1.MaxProblemNodes)] {
			describe(found[i], nw, &nodes[i])
		}
	}
}

func (r *Reconciler) listNodeWrights(ctx context.Context) ([]v1alpha1.NodeWright, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var list v1alpha1.NodeWrightList
	if err := r.client.List(ctx, &list, client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodewrights: %w", err)
	}
	return list.Items, nil
}
