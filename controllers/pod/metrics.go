package pod

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// startFailures counts pods that cannot start, once per attempt and reason. The
// reasons are the kubelet's, of which there are few.
var startFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "nodewright_pod_start_failures_total",
	Help: "Package pods that could not start, by the kubelet's reason.",
}, []string{"nodewright", "package", "reason"})

func init() { metrics.Registry.MustRegister(startFailures) }
