package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// addFinalizer holds the NodeWright until its keys are off the nodes.
func (r *Reconciler) addFinalizer(ctx context.Context, nw *v1alpha1.NodeWright) error {
	if controllerutil.ContainsFinalizer(nw, v1alpha1.Finalizer) {
		return nil
	}
	err := r.patchFinalizers(ctx, nw, func(have []string) []string {
		if slices.Contains(have, v1alpha1.Finalizer) {
			return have
		}
		return append(slices.Clone(have), v1alpha1.Finalizer)
	})
	if err != nil {
		return fmt.Errorf("add finalizer: %w", err)
	}
	return nil
}

// removeFinalizer lets the NodeWright go.
func (r *Reconciler) removeFinalizer(ctx context.Context, nw *v1alpha1.NodeWright) error {
	err := r.patchFinalizers(ctx, nw, func(have []string) []string {
		return slices.DeleteFunc(slices.Clone(have), func(f string) bool { return f == v1alpha1.Finalizer })
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	logf.FromContext(ctx).Info("Nothing is left on nodes, the NodeWright may go", "nodewright", klog.KObj(nw))
	return nil
}

// patchFinalizers changes the finalizers and nothing else: the patch has no
// spec, so what the user wrote stays as it is, byte for byte. The list is
// replaced as a whole, hence the precondition on the version it was made from;
// if that is old, the API server tells the present one, once.
func (r *Reconciler) patchFinalizers(ctx context.Context, nw *v1alpha1.NodeWright, change func([]string) []string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := r.sendFinalizers(ctx, nw, change)
	if !apierrors.IsConflict(err) {
		return err
	}
	now := &v1alpha1.NodeWright{}
	if err := r.opts.Live.Get(ctx, client.ObjectKeyFromObject(nw), now); err != nil {
		return err
	}
	if now.UID != nw.UID {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("nodewrights").GroupResource(), nw.Name)
	}
	return r.sendFinalizers(ctx, now, change)
}

func (r *Reconciler) sendFinalizers(ctx context.Context, nw *v1alpha1.NodeWright, change func([]string) []string) error {
	want := change(nw.Finalizers)
	if slices.Equal(want, nw.Finalizers) {
		return nil
	}
	if want == nil {
		want = []string{}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": nw.UID, "resourceVersion": nw.ResourceVersion, "finalizers": want,
	}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	target := &v1alpha1.NodeWright{}
	target.Name = nw.Name
	return r.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), fieldOwner)
}
