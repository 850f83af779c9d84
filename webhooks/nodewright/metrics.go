package nodewright

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/webhooks/answer"
)

// The webhooks, as the metric names them.
const (
	webhookDefault  = "mnodewright"
	webhookValidate = "vnodewright"
)

// Decisions, as the metric counts them, besides those of package answer.
const (
	decisionWarned  = "warned"
	decisionChanged = "changed"
)

var decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "nodewright_admission_nodewright_total",
	Help: "Requests to the webhooks of NodeWrights, by webhook, operation and decision " +
		"(admitted, warned, changed by defaults, refused). Dry runs count as well.",
}, []string{"webhook", "operation", "decision"})

func init() { metrics.Registry.MustRegister(decisions) }

// counted counts what the handler of a webhook decides.
func counted(name string, hook *admission.Webhook) *admission.Webhook {
	return answer.Noted(hook, func(req *admission.Request, resp *admission.Response) {
		decisions.WithLabelValues(name, string(req.Operation), decision(resp)).Inc()
	})
}

func decision(resp *admission.Response) string {
	switch {
	case !resp.Allowed:
		return answer.Refused
	case len(resp.Patches) > 0:
		return decisionChanged
	case len(resp.Warnings) > 0:
		return decisionWarned
	default:
		return answer.Admitted
	}
}
