package deploymentpolicy

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
	"github.com/nodewright/nodewright/webhooks/answer"
)

// lister lists from the API server.
type lister interface {
	List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error
}

// validator refuses a DeploymentPolicy that cannot work, and the deletion of one
// that is in use.
//
//	failurePolicy  Fail: without its policy a NodeWright stops, with a wrong one it
//	               interrupts more nodes than it should
//	timeout        5 s
//	scope          creations of DeploymentPolicies, updates of the spec, deletions
//	when down      no DeploymentPolicy is created, changed or deleted
type validator struct {
	// live is not a cache: one that lags would refuse a deletion that has become
	// right, or admit one that has become wrong.
	live lister
}

// ValidateCreate checks a new policy.
func (*validator) ValidateCreate(_ context.Context, policy *v1alpha1.DeploymentPolicy) (admission.Warnings, error) {
	return nil, invalid(policy, validation.DeploymentPolicy(policy))
}

// ValidateUpdate checks what a policy becomes.
func (*validator) ValidateUpdate(_ context.Context, _, after *v1alpha1.DeploymentPolicy) (admission.Warnings, error) {
	return nil, invalid(after, validation.DeploymentPolicy(after))
}

// ValidateDelete refuses while a NodeWright names the policy, unless that is
// being deleted itself.
func (v *validator) ValidateDelete(ctx context.Context, policy *v1alpha1.DeploymentPolicy) (admission.Warnings, error) {
	var all v1alpha1.NodeWrightList
	if err := v.live.List(ctx, &all); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("list NodeWrights that name the policy: %w", err))
	}
	var users []string
	for i := range all.Items {
		if nw := &all.Items[i]; nw.Spec.DeploymentPolicy == policy.Name && nw.DeletionTimestamp == nil {
			users = append(users, nw.Name)
		}
	}
	return nil, invalid(policy, validation.DeploymentPolicyDelete(policy.Name, users))
}

func invalid(policy *v1alpha1.DeploymentPolicy, errs field.ErrorList) error {
	return answer.Invalid(v1alpha1.KindDeploymentPolicy, policy.Name, errs)
}
