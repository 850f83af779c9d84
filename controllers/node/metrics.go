package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// transitions counts records by what they say. No node name: series stay
// bounded in a fleet of any size.
var transitions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "nodewright_package_transitions_total",
	Help: "Entries recorded on nodes, by the stage and state they came to.",
}, []string{"nodewright", "package", "stage", "state"})

// evictions counts answers to evictions. Pods that budgets keep are asked for
// again and again, so Blocked grows while a drain waits.
var evictions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "nodewright_evictions_total",
	Help: "Evictions asked for, by the NodeWright whose drain did so and by what came of it.",
}, []string{"nodewright", "outcome"})

func init() { metrics.Registry.MustRegister(transitions, evictions, cordoned) }

// observeTransitions counts the entries that an apply changed.
func observeTransitions(before, after *nodestate.Set) {
	for ref, e := range after.Packages {
		old, had := before.Packages[ref]
		if had && old.Stage == e.Stage && old.State == e.State && old.Run == e.Run && old.Attempt == e.Attempt {
			continue
		}
		transitions.WithLabelValues(ref.NodeWright, ref.Package, string(e.Stage), string(e.State)).Inc()
	}
}
