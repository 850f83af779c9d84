package apply

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Words for the outcome of an apply in metrics, besides those of Outcome.
const (
	// outcomeInvalid: the set could not be encoded; nothing was sent.
	outcomeInvalid = "invalid"
	// outcomeNoRoom: other annotations leave no room.
	outcomeNoRoom = "noroom"
	// outcomeRefused: the API server refused, and the node is there.
	outcomeRefused = "refused"
	// outcomeUnknown: a timeout, a broken connection or a failure of the server.
	outcomeUnknown = "unknown"
)

// liveReason is why a node was read from the API server.
type liveReason string

const (
	// reasonDoubt: the outcome of the last write was not known.
	reasonDoubt liveReason = "doubt"
	// reasonStale: the cache was older than the last write.
	reasonStale liveReason = "stale"
	// reasonUnreadable: the cache has values that cannot be read, which a user may
	// have removed by now.
	reasonUnreadable liveReason = "unreadable"
	// reasonTaints: the taints of the node changed while they were written.
	reasonTaints liveReason = "taints"
	// reasonVerify: the answer to a write may mean that the node is gone.
	reasonVerify liveReason = "verify"
)

var (
	applies = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nodewright_node_applies_total",
		Help: "Sets of keys that a field manager brought to a node, by outcome.",
	}, []string{"manager", "outcome"})

	reclaims = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nodewright_node_reclaims_total",
		Help: "Removals of keys that other managers held too, by our field manager.",
	}, []string{"manager"})

	liveReads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nodewright_node_live_reads_total",
		Help: "Reads of nodes that went to the API server instead of the cache, by reason.",
	}, []string{"manager", "reason"})
)

func init() { metrics.Registry.MustRegister(applies, reclaims, liveReads) }
