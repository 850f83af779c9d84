package deploymentpolicy

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/webhooks/answer"
)

var decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "nodewright_admission_deploymentpolicy_total",
	Help: "Requests to the webhook of DeploymentPolicies, by operation and decision (admitted, refused). Dry runs count as well.",
}, []string{"operation", "decision"})

func init() { metrics.Registry.MustRegister(decisions) }

// counted counts what the webhook decides.
func counted(hook *admission.Webhook) *admission.Webhook {
	return answer.Noted(hook, func(req *admission.Request, resp *admission.Response) {
		decision := answer.Admitted
		if !resp.Allowed {
			decision = answer.Refused
		}
		decisions.WithLabelValues(string(req.Operation), decision).Inc()
	})
}
