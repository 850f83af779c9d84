// Package answer has what the webhooks of this operator's own kinds answer with.
package answer

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// Decisions that metrics count.
const (
	Admitted = "admitted"
	Refused  = "refused"
)

// Invalid is the refusal of an object of a kind of this operator; nil if nothing
// is wrong.
func Invalid(kind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), name, errs)
}

// Noted tells note of each request and of what the webhook answers.
func Noted(hook *admission.Webhook, note func(*admission.Request, *admission.Response)) *admission.Webhook {
	handler := hook.Handler
	hook.Handler = admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		resp := handler.Handle(ctx, req)
		note(&req, &resp)
		return resp
	})
	return hook
}
