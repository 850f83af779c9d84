package rollout

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/apply"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// nodeWrightChanged lets through what a plan depends on, not the status.
func nodeWrightChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
				(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
				!slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers()) ||
				!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// configMapLost lets through what somebody else did to a ConfigMap of a package.
func configMapLost() predicate.Predicate {
	ours := func(o client.Object) bool { return o.GetLabels()[LabelConfigHash] != "" }
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return ours(e.ObjectOld) || ours(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return ours(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// nodeWrightOf finds the NodeWright of a ConfigMap. The label may hold a hash of
// the name. Of an update this is asked for both states.
func (r *Reconciler) nodeWrightOf(ctx context.Context, o client.Object) []reconcile.Request {
	list, err := r.listNodeWrights(ctx)
	if err != nil {
		logf.FromContext(ctx).Error(err, "Cannot tell whose a ConfigMap is", "configMap", klog.KObj(o))
		return nil
	}
	var out []reconcile.Request
	for i := range list {
		if packagejob.LabelValue(list[i].Name) == o.GetLabels()[packagejob.LabelName] {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: list[i].Name}})
		}
	}
	return out
}

func (r *Reconciler) nodeCreated(ctx context.Context, e event.CreateEvent, q queue) {
	if node, ok := e.Object.(*corev1.Node); ok {
		r.enqueue(ctx, nil, node, q)
	}
}

// roomChanged is for nodes on which a writer found no room, or finds some again.
func (r *Reconciler) roomChanged(ctx context.Context, e event.GenericEvent, q queue) {
	if node, ok := e.Object.(*corev1.Node); ok {
		r.enqueue(ctx, nil, node, q)
	}
}

func (r *Reconciler) nodeDeleted(ctx context.Context, e event.DeleteEvent, q queue) {
	if node, ok := e.Object.(*corev1.Node); ok {
		r.enqueue(ctx, node, nil, q)
	}
}

func (r *Reconciler) nodeUpdated(ctx context.Context, e event.UpdateEvent, q queue) {
	before, okBefore := e.ObjectOld.(*corev1.Node)
	after, okAfter := e.ObjectNew.(*corev1.Node)
	if okBefore && okAfter {
		r.enqueue(ctx, before, after, q)
	}
}

// enqueue asks for a pass over the NodeWrights that a change of a node
// concerns, each at its pace. before is nil for a new node, after for one that
// is gone.
func (r *Reconciler) enqueue(ctx context.Context, before, after *corev1.Node, q queue) {
	if before != nil && after != nil && !nodeChanged(before, after) {
		return
	}
	list, err := r.listNodeWrights(ctx)
	if err != nil {
		logf.FromContext(ctx).Error(err, "Cannot tell which NodeWrights a node concerns")
		return
	}
	for _, name := range concerned(before, after, list) {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, r.pace.delay(name))
	}
}

// nodeChanged tells whether a plan of any NodeWright may depend on the change:
// heartbeats of a fleet are not looked at any further.
func nodeChanged(before, after *corev1.Node) bool {
	return rolloutFacts(before, after) || !maps.Equal(before.Annotations, after.Annotations)
}

// rolloutFacts tells whether what matters to each NodeWright changed.
func rolloutFacts(before, after *corev1.Node) bool {
	return before.UID != after.UID || readiness(before) != readiness(after) || labelsDiffer(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
}

// labelsDiffer compares labels of users; those of the contract repeat an
// annotation.
func labelsDiffer(before, after map[string]string) bool {
	for _, pair := range [][2]map[string]string{{before, after}, {after, before}} {
		for key, value := range pair[0] {
			if other, ok := pair[1][key]; ok && other == value {
				continue
			}
			if _, contract := nodestate.ParseKey(key); !contract {
				return true
			}
		}
	}
	return false
}

// concerned names the NodeWrights whose plan may change, and those with a grant
// on the node that do not exist.
func concerned(before, after *corev1.Node, list []v1alpha1.NodeWright) []string {
	var out []string
	known := make(map[string]bool, len(list))
	broad := before == nil || after == nil || rolloutFacts(before, after) || apply.RoomGrew(before.Annotations, after.Annotations)
	for i := range list {
		nw := &list[i]
		known[nw.Name] = true
		if keysChanged(before, after, nw) || broad && (hasStake(nw, before) || hasStake(nw, after)) {
			out = append(out, nw.Name)
		}
	}
	for _, name := range newGrants(before, after) {
		if !known[name] {
			out = append(out, name)
		}
	}
	return out
}

const batchPrefix = nodestate.Prefix + "batch_"

// newGrants names the NodeWrights of grants on the node that came or changed.
func newGrants(before, after *corev1.Node) []string {
	if after == nil {
		return nil
	}
	var out []string
	for key, value := range after.Annotations {
		if !strings.HasPrefix(key, batchPrefix) || before != nil && before.Annotations[key] == value {
			continue
		}
		if k, ok := nodestate.ParseKey(key); ok && k.Kind == nodestate.KindBatch {
			if b, err := nodestate.DecodeBatch(k, value); err == nil {
				out = append(out, b.NodeWright)
			}
		}
	}
	return out
}

// hasStake tells whether the NodeWright selects the node or has a grant there.
func hasStake(nw *v1alpha1.NodeWright, node *corev1.Node) bool {
	return node != nil && (nw.Selects(node.Labels) || newReader(nw.Name).hasBatch(node.Annotations) || nw.DeletionTimestamp != nil)
}

// keysChanged compares the keys that a count is made from, and all while the
// NodeWright is being deleted.
func keysChanged(before, after *corev1.Node, nw *v1alpha1.NodeWright) bool {
	if before == nil || after == nil {
		return false
	}
	if nw.DeletionTimestamp != nil {
		return !maps.Equal(before.Annotations, after.Annotations)
	}
	k := keysOf(nw.Name)
	all := k.all()
	for _, u := range uninstallKeys(nw) {
		all = append(all, u.name)
	}
	for _, key := range all {
		old, had := before.Annotations[key]
		now, has := after.Annotations[key]
		if had != has || old != now {
			return true
		}
	}
	return false
}
