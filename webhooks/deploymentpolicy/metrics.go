package deploymentpolicy

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Decisions, as the metric counts them.
const (
	decisionAdmitted = "admitted"
	decisionRefused  = "refused"
)

var decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "nodewright_admission_deploymentpolicy_total",
	Help: "Requests to the webhook of DeploymentPolicies, by operation and decision (admitted, refused). Dry runs count as well.",
}, []string{"operation", "decision"})

func init() { metrics.Registry.MustRegister(decisions) }

// counted counts what the webhook decides.
func counted(hook *admission.Webhook) *admission.Webhook {
	handler := hook.Handler
	hook.Handler = admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		resp := handler.Handle(ctx, req)
		decision := decisionAdmitted
		if !resp.Allowed {
			decision = decisionRefused
		}
		decisions.WithLabelValues(string(req.Operation), decision).Inc()
		return resp
	})
	return hook
}
