package node

import (
	"context"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/wake"
)

// nodeChanged lets through what a plan can depend on: heartbeats of a fleet
// would keep all workers busy.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.Node)
			after, okAfter := e.ObjectNew.(*corev1.Node)
			if !okBefore || !okAfter {
				return true
			}
			return before.UID != after.UID || nodeFacts(before) != nodeFacts(after) ||
				!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
				!maps.Equal(before.Labels, after.Labels) || wake.KeysDiffer(before.Annotations, after.Annotations) ||
				apply.RoomGrew(before.Annotations, after.Annotations)
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// jobChanged lets through the ends of Jobs of the operator, and what a user
// did to them.
func jobChanged(namespace string) predicate.Predicate {
	ours := wake.Owned(namespace)
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return ours(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return ours(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*batchv1.Job)
			after, okAfter := e.ObjectNew.(*batchv1.Job)
			if !okBefore || !okAfter || !ours(after) {
				return false
			}
			return !equality.Semantic.DeepEqual(jobFacts(before), jobFacts(after))
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// podChanged lets through pods that stop being an executor.
func podChanged(namespace string) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(e event.DeleteEvent) bool {
			return e.Object.GetNamespace() == namespace && packagejob.Owned(e.Object.GetLabels())
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.Pod)
			after, okAfter := e.ObjectNew.(*corev1.Pod)
			return okBefore && okAfter && after.Namespace == namespace && packagejob.Owned(after.Labels) &&
				!podEnded(before) && podEnded(after)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// nodeWrightChanged lets through changes of spec, annotations and deletion. Of
// the status it lets through the one thing that others may wait for.
func nodeWrightChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
				(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil) ||
				!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
				completionChanged(e.ObjectOld, e.ObjectNew)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// completionChanged tells whether a NodeWright that holds back others until it is
// complete everywhere became so, or is no more.
func completionChanged(before, after client.Object) bool {
	was, okWas := before.(*v1alpha1.NodeWright)
	is, okIs := after.(*v1alpha1.NodeWright)
	return okWas && okIs && allFirst(is) && everywhere(was) != everywhere(is)
}

// nodesOf are the nodes that a NodeWright selects or has keys on.
func (r *Reconciler) nodesOf(ctx context.Context, o client.Object) []reconcile.Request {
	nw, ok := o.(*v1alpha1.NodeWright)
	if !ok {
		return nil
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy); err != nil {
		logf.FromContext(ctx).Error(err, "list nodes of nodewright", "nodewright", nw.Name)
		return nil
	}
	status := nodestate.NewKey(nodestate.KindStatus, nw.Name).String()
	slot := nodestate.NewKey(nodestate.KindSlot, nw.Name).String()
	var out []reconcile.Request
	for i := range nodes.Items {
		node := &nodes.Items[i]
		_, hasStatus := node.Annotations[status]
		_, hasSlot := node.Annotations[slot]
		if hasStatus || hasSlot || nw.Selects(node.Labels) || hasEntries(node, nw.Name) {
			out = append(out, wake.Named(node.Name)...)
		}
	}
	return out
}

func hasEntries(node *corev1.Node, nodeWright string) bool {
	for key := range node.Annotations {
		if k, ok := nodestate.ParseKey(key); ok && k.Package != "" && (k.NodeWright == nodeWright || k.Hash != "") {
			return true
		}
	}
	return false
}
