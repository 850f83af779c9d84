package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/carry"
	"github.com/nodewright/nodewright/controllers/wake"
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
				wake.KeysDiffer(before.Annotations, after.Annotations, nodestate.KindNodeState, nodestate.KindJobState) ||
				carry.LeftAlone(before.Annotations, after.Annotations, nodestate.OwnerJob)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// jobChanged lets through Jobs of packages that finish, are about to fail, or
// go.
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
	ours := wake.Owned(namespace)
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return ours(e.ObjectNew) &&
				e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
