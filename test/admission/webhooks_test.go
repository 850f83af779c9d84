package admission

import (
	"context"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// answersAreReal says that addWebhooks registers the webhooks of this project,
// not a gate.
const answersAreReal = false

// addWebhooks registers a gate: it refuses what reaches it from those who may not
// break the glass. That shows what the match conditions let through.
func addWebhooks(mgr ctrl.Manager) error {
	for _, path := range []string{pathValidateNode, pathMutateNode, pathValidateNW, pathMutateNW, pathValidatePolicy} {
		mgr.GetWebhookServer().Register(path, &webhook.Admission{Handler: admission.HandlerFunc(
			func(_ context.Context, r admission.Request) admission.Response {
				mayBreakGlass := slices.Contains(r.UserInfo.Groups, "node-repairers") || slices.Contains(r.UserInfo.Groups, "system:masters")
				if path == pathValidateNode && !mayBreakGlass {
					return admission.Denied("this request reaches the webhook")
				}
				return admission.Allowed("")
			})})
	}
	return nil
}
