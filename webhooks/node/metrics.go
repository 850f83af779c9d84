package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// decision words in metrics.
const (
	decisionAdmitted   = "admitted"
	decisionRefused    = "refused"
	decisionOverridden = "overridden"
	// decisionFailed: the request could not be read, or what it takes to decide
	// could not.
	decisionFailed = "failed"
	// decisionPatched: mnode changed the node.
	decisionPatched = "patched"
)

// Reasons of mnode, and of failures.
const (
	reasonTainted reason = "tainted"
	reasonStrip   reason = "stripped"
	reasonRequest reason = "request"
	reasonReview  reason = "review"
	reasonList    reason = "list"
)

// decisions counts what came of requests. No user and no node: series stay
// bounded.
var decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "nodewright_node_admissions_total",
	Help: "Writes of nodes that a webhook was asked about, by what came of them and why.",
}, []string{"webhook", "decision", "reason"})

func init() { metrics.Registry.MustRegister(decisions) }

func count(webhook, decision string, r reason) {
	decisions.WithLabelValues(webhook, decision, string(r)).Inc()
}
