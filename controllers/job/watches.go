package job

import (
	"context"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/carry"
)

// nodeChanged lets through what the plan depends on: the record of packages,
// our own reports, and whether the node can be reached. Heartbeats would keep
// all workers busy.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.Node)
			after, okAfter := e.ObjectNew.(*corev1.Node)
			if !okBefore || !okAfter {
				return false
			}
			return before.UID != after.UID || unreachable(before) != unreachable(after) ||
				differ(before.Annotations, after.Annotations) || differ(after.Annotations, before.Annotations) ||
				carry.LeftAlone(before.Annotations, after.Annotations, nodestate.OwnerJob)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// differ tells whether a key that matters here is in a and not the same in b.
func differ(a, b map[string]string) bool {
	for key, value := range a {
		if !strings.HasPrefix(key, nodestate.Prefix) {
			continue
		}
		if other, ok := b[key]; ok && other == value {
			continue
		}
		if k, ours := nodestate.ParseKey(key); ours && (k.Kind == nodestate.KindNodeState || k.Kind == nodestate.KindJobState) {
			return true
		}
	}
	return false
}

// jobChanged lets through Jobs of packages that finish, are about to fail, or
// go.
func jobChanged(namespace string) predicate.Predicate {
	ours := func(o client.Object) bool { return o.GetNamespace() == namespace && packagejob.Owned(o.GetLabels()) }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return ours(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return ours(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*batchv1.Job)
			after, okAfter := e.ObjectNew.(*batchv1.Job)
			if !okBefore || !okAfter || !ours(after) {
				return false
			}
			return before.UID != after.UID || len(before.Status.Conditions) != len(after.Status.Conditions) ||
				packagejob.Recorded(before) && !packagejob.Recorded(after) ||
				before.Annotations[packagejob.AnnotationIdentity] != after.Annotations[packagejob.AnnotationIdentity]
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// podDeleted lets through pods that somebody deletes: of a Job that fails
// thereby no pod is left to say so.
func podDeleted(namespace string) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectNew.GetNamespace() == namespace && packagejob.Owned(e.ObjectNew.GetLabels()) &&
				e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func nodeItself(_ context.Context, o client.Object) []reconcile.Request { return request(o.GetName()) }

// nodeOfJob is the node of the pod template, never a label, whose value may be
// a hash.
func nodeOfJob(_ context.Context, o client.Object) []reconcile.Request {
	job, ok := o.(*batchv1.Job)
	if !ok {
		return nil
	}
	return request(packagejob.NodeName(job))
}

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
