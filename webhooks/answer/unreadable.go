package answer

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// PastUnreadable lets a hook of a kind judge requests about an object whose stored
// form cannot be decoded: an earlier schema admitted it. Otherwise nobody could
// mend it, nor delete it where deletions are asked about, while the informers of
// the kind stand still because of it. An update is judged as a creation, and a
// deletion by the name alone.
//
// An object that cannot be decoded itself is refused, with what is wrong.
func PastUnreadable(hook *admission.Webhook, scheme *runtime.Scheme, kind string) *admission.Webhook {
	handler, decoder := hook.Handler, admission.NewDecoder(scheme)
	read := func(raw runtime.RawExtension) error {
		into, err := scheme.New(v1alpha1.GroupVersion.WithKind(kind))
		if err != nil {
			return fmt.Errorf("make a %s: %w", kind, err)
		}
		return decoder.DecodeRaw(raw, into)
	}
	hook.Handler = admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		if req.Operation != admissionv1.Delete {
			if err := read(req.Object); err != nil {
				return admission.Errored(http.StatusBadRequest,
					fmt.Errorf("this %s cannot be read, correct the field or leave it out: %w", kind, err))
			}
		}
		if req.Operation == admissionv1.Create {
			return handler.Handle(ctx, req)
		}
		err := read(req.OldObject)
		if err == nil {
			return handler.Handle(ctx, req)
		}
		if req.Operation == admissionv1.Delete {
			req.OldObject.Raw = fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`, v1alpha1.GroupVersion, kind, req.Name)
			return handler.Handle(ctx, req)
		}
		req.Operation, req.OldObject = admissionv1.Create, runtime.RawExtension{}
		// Clients cut a warning at 256 bytes: the point comes first.
		return handler.Handle(ctx, req).WithWarnings(fmt.Sprintf("what changes was not judged, only what is to be stored: the form stored so far cannot be read: %v", err))
	})
	return hook
}
