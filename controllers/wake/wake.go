package wake

import (
	"context"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

const (
	// MaxBackoff ends the back-off of a request that fails.
	MaxBackoff = time.Minute
	// minBackoff begins it.
	minBackoff = 50 * time.Millisecond
)

// RateLimiter backs off each request alone, doubling up to MaxBackoff.
func RateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, MaxBackoff)
}

// At asks for another pass at the given time; the zero time asks for none.
func At(next, now time.Time) reconcile.Result {
	if next.IsZero() {
		return reconcile.Result{}
	}
	// A time that has come by now is due at once; zero would mean never.
	return reconcile.Result{RequeueAfter: max(next.Sub(now), time.Nanosecond)}
}

// Node is the request for the object itself.
func Node(_ context.Context, o client.Object) []reconcile.Request { return Named(o.GetName()) }

// NodeOfJob is the request for the node of the pod template, never of a label,
// whose value may be a hash.
func NodeOfJob(_ context.Context, o client.Object) []reconcile.Request {
	job, ok := o.(*batchv1.Job)
	if !ok {
		return nil
	}
	return Named(packagejob.NodeName(job))
}

// NodeOfPod is the request for the node that the pod is bound to.
func NodeOfPod(_ context.Context, o client.Object) []reconcile.Request {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	return Named(pod.Spec.NodeName)
}

// Named is the request for a node; none for the empty name.
func Named(node string) []reconcile.Request {
	if node == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: node}}}
}

// Owned tells whether an object is a Job or pod of a package in the namespace.
func Owned(namespace string) func(client.Object) bool {
	return func(o client.Object) bool { return o.GetNamespace() == namespace && packagejob.Owned(o.GetLabels()) }
}

// KeysDiffer tells whether a key of the contract differs between two sets of
// annotations; kinds narrows it to keys of these kinds.
func KeysDiffer(a, b map[string]string, kinds ...nodestate.Kind) bool {
	return missing(a, b, kinds) || missing(b, a, kinds)
}

// missing tells whether a key that matters is in a and not the same in b.
func missing(a, b map[string]string, kinds []nodestate.Kind) bool {
	for key, value := range a {
		if !strings.HasPrefix(key, nodestate.Prefix) {
			continue
		}
		if other, ok := b[key]; ok && other == value {
			continue
		}
		if k, ours := nodestate.ParseKey(key); ours && (len(kinds) == 0 || slices.Contains(kinds, k.Kind)) {
			return true
		}
	}
	return false
}
