package pod

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/carry"
	"github.com/nodewright/nodewright/controllers/pod/plan"
	"github.com/nodewright/nodewright/controllers/wake"
)

// nodeChanged lets through nodes whose reports somebody changed: all else
// follows from pods.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			return wake.KeysDiffer(e.Object.GetAnnotations(), nil, nodestate.KindPodState)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
			return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || wake.KeysDiffer(before, after, nodestate.KindPodState) ||
				carry.LeftAlone(before, after, nodestate.OwnerPod)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// jobBegan lets through Jobs that are to get a pod.
func jobBegan(namespace string) predicate.Predicate {
	ours := wake.Owned(namespace)
	lacks := func(o client.Object) bool {
		job, ok := o.(*batchv1.Job)
		return ok && ours(job) && plan.MayLackPod(job)
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return lacks(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return !lacks(e.ObjectOld) && lacks(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// lookLater asks for a pass over the node of a Job once it should have a pod.
func (r *Reconciler) lookLater() handler.EventHandler {
	later := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, req := range wake.NodeOfJob(ctx, o) {
			q.AddAfter(req, min(plan.PodPatience, r.opts.Grace))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			later(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			later(ctx, e.ObjectNew, q)
		},
	}
}

// podChanged lets through package pods that begin or cease to wait for
// something, or go. A start that goes well passes unseen but for the moment in
// which the pod is being prepared.
func podChanged(namespace string) predicate.Predicate {
	ours := wake.Owned(namespace)
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || !ours(pod) {
				return false
			}
			_, waits := plan.StartWait(pod)
			return waits
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return ours(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.Pod)
			after, okAfter := e.ObjectNew.(*corev1.Pod)
			if !okBefore || !okAfter || !ours(after) {
				return false
			}
			was, waited := plan.StartWait(before)
			is, waits := plan.StartWait(after)
			return waited != waits || waits && was != is
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
