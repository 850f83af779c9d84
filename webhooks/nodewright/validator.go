package nodewright

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/support"
	"github.com/nodewright/nodewright/apis/validation"
	"github.com/nodewright/nodewright/webhooks/answer"
)

// lister lists from the cache.
type lister interface {
	List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error
}

// getter reads one object.
type getter interface {
	Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error
}

// validator refuses a NodeWright that cannot work, and says what may not be
// meant.
//
//	failurePolicy  Fail: what gets in is run as root on nodes
//	timeout        5 s
//	scope          creations of NodeWrights, and updates that change the spec; not
//	               status, finalizers, annotations
//	when down      no NodeWright is created, no spec changed; those that are there
//	               can be paused and deleted
type validator struct {
	nodes    lister
	policies getter
	// live asks the API server where the cache may not know yet.
	live  getter
	rules validation.Rules
}

// ValidateCreate checks a new NodeWright.
func (v *validator) ValidateCreate(ctx context.Context, nw *v1alpha1.NodeWright) (admission.Warnings, error) {
	return v.warnings(ctx, nw), invalid(nw, validation.NodeWright(nw, v.rules))
}

// ValidateUpdate checks what a NodeWright becomes, and what changes.
func (v *validator) ValidateUpdate(ctx context.Context, before, after *v1alpha1.NodeWright) (admission.Warnings, error) {
	// Whoever takes a finalizer off, or pauses, must not be held up by a rule that
	// is younger than the object. The match condition says the same.
	if equality.Semantic.DeepEqual(&before.Spec, &after.Spec) {
		return nil, nil
	}
	holders, err := v.holders(ctx, before, after)
	if err != nil {
		return nil, err
	}
	warnings := append(v.warnings(ctx, after), validation.NodeWrightUpdateWarnings(before, after)...)
	errs := validation.NodeWright(after, v.rules)
	errs = append(errs, validation.NodeWrightUpdate(before, after, holders)...)
	return warnings, invalid(after, errs)
}

// ValidateDelete never refuses: the finalizer uninstalls before the object goes.
func (*validator) ValidateDelete(context.Context, *v1alpha1.NodeWright) (admission.Warnings, error) {
	return nil, nil
}

// holders lists nodes only for updates that can be judged by them alone. The
// list is the cache's: a node that lost a package a moment ago may still count,
// and the request can be made again.
func (v *validator) holders(ctx context.Context, before, after *v1alpha1.NodeWright) (validation.Holders, error) {
	held := validation.HeldPackages(before, after)
	if len(held) == 0 {
		return nil, nil
	}
	var nodes corev1.NodeList
	if err := v.nodes.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("list nodes that have packages: %w", err))
	}
	return validation.HoldersOf(before.Name, held, nodes.Items), nil
}

func (v *validator) warnings(ctx context.Context, nw *v1alpha1.NodeWright) admission.Warnings {
	out := validation.NodeWrightWarnings(nw)
	if text := v.missingPolicy(ctx, nw.Spec.DeploymentPolicy); text != "" {
		out = append(out, text)
	}
	if text := support.Held(nw); text != "" {
		out = append(out, text)
	}
	return out
}

// missingPolicy warns of a policy that does not exist. It is no error: within
// one file, or one sync from a repository, the policy may come after. The cache
// may not know one that was created a moment before, so a miss is asked again of
// the API server; if that does not answer, there is nothing to say.
func (v *validator) missingPolicy(ctx context.Context, name string) string {
	if name == "" {
		return ""
	}
	var policy v1alpha1.DeploymentPolicy
	key := client.ObjectKey{Name: name}
	if err := v.policies.Get(ctx, key, &policy); err == nil {
		return ""
	}
	err := v.live.Get(ctx, key, &policy)
	if err != nil && !apierrors.IsNotFound(err) {
		log.FromContext(ctx).Error(err, "read deployment policy", "deploymentPolicy", name)
	}
	if !apierrors.IsNotFound(err) {
		return ""
	}
	return fmt.Sprintf("spec.deploymentPolicy: there is no DeploymentPolicy %s: nothing is rolled out until there is", name)
}

func invalid(nw *v1alpha1.NodeWright, errs field.ErrorList) error {
	return answer.Invalid(v1alpha1.KindNodeWright, nw.Name, errs)
}
