package rollout

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// Once its own finalizer is gone, nothing is written for a NodeWright that
// another finalizer keeps, and no node is read for writing.
func TestNothingIsWrittenAfterCleanUp(t *testing.T) {
	t.Run("DR-14", func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
			t.Fatal(err)
		}
		at := metav1.NewTime(time.Unix(1, 0))
		nw := nodeWright("gpu", selecting("gpu"), uninstallable(true))
		nw.DeletionTimestamp, nw.Finalizers = &at, []string{"example.com/keep"}
		writes := 0
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(nw, node("n1", nil, "gpu")).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				writes++
				return nil
			},
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				writes++
				return nil
			},
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				writes++
				return nil
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
				return c.List(ctx, list)
			},
		}).Build()
		if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, &corev1.Node{}); err != nil {
			t.Fatal(err)
		}
		// There is no writer of nodes: a pass that uses one panics.
		r := newReconciler(c, Options{Gate: openGate{}, Live: c, Clock: testingclock.NewFakeClock(time.Unix(9, 0)), Namespace: "nodewright"})
		for range 3 {
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "gpu"}}); err != nil {
				t.Fatal(err)
			}
		}
		if writes != 0 {
			t.Errorf("%d writes", writes)
		}
	})
}
