package nodewright

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// The webhooks, as the metric names them.
const (
	webhookDefault  = "mnodewright"
	webhookValidate = "vnodewright"
)

// Decisions, as the metric counts them.
const (
	decisionAdmitted = "admitted"
	decisionWarned   = "warned"
	decisionChanged  = "changed"
	decisionRefused  = "refused"
)

var decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "nodewright_admission_nodewright_total",
	Help: "Requests to the webhooks of NodeWrights, by webhook, operation and decision " +
		"(admitted, warned, changed by defaults, refused). Dry runs count as well.",
}, []string{"webhook", "operation", "decision"})

func init() { metrics.Registry.MustRegister(decisions) }

// counted counts what the handler of a webhook decides.
func counted(name string, hook *admission.Webhook) *admission.Webhook {
	handler := hook.Handler
	hook.Handler = admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		resp := handler.Handle(ctx, req)
		decisions.WithLabelValues(name, string(req.Operation), decision(&resp)).Inc()
		return resp
	})
	return hook
}

func decision(resp *admission.Response) string {
	switch {
	case !resp.Allowed:
		return decisionRefused
	case len(resp.Patches) > 0:
		return decisionChanged
	case len(resp.Warnings) > 0:
		return decisionWarned
	default:
		return decisionAdmitted
	}
}
