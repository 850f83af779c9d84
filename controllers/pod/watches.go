package pod

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/carry"
	"github.com/nodewright/nodewright/controllers/pod/plan"
)

// nodeChanged lets through nodes whose reports somebody changed: all else
// follows from pods.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return differ(e.Object.GetAnnotations(), nil) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
			return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || differ(before, after) || differ(after, before) ||
				carry.LeftAlone(before, after, nodestate.OwnerPod)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// differ tells whether a report is in a and not the same in b.
func differ(a, b map[string]string) bool {
	for key, value := range a {
		if !strings.HasPrefix(key, nodestate.Prefix) {
			continue
		}
		if other, ok := b[key]; ok && other == value {
			continue
		}
		if k, ours := nodestate.ParseKey(key); ours && k.Kind == nodestate.KindPodState {
			return true
		}
	}
	return false
}

// podChanged lets through package pods that begin or cease to wait for
// something, or go. A start that goes well passes unseen but for the moment in
// which the pod is being prepared.
func podChanged(namespace string) predicate.Predicate {
	ours := func(o client.Object) bool { return o.GetNamespace() == namespace && packagejob.Owned(o.GetLabels()) }
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

func nodeItself(_ context.Context, o client.Object) []reconcile.Request { return request(o.GetName()) }

func nodeOfPod(_ context.Context, o client.Object) []reconcile.Request {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	return request(pod.Spec.NodeName)
}

func request(node string) []reconcile.Request {
	if node == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: node}}}
}
