package job

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/job/plan"
)

// Outcomes of an attempt, as the metric counts them.
const (
	outcomeSucceeded = "succeeded"
	// outcomeFailed uses up a retry, outcomeLost does not.
	outcomeFailed = "failed"
	outcomeLost   = "lost"
)

// attempts counts attempts, which take the place of container restarts: each
// attempt is a Job whose containers run once.
var attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "nodewright_package_attempts_total",
	Help: "Attempts of package stages that ended, by outcome (succeeded, failed, lost) and class of reason. " +
		"A lost attempt was ended from outside and uses up no retry.",
}, []string{"nodewright", "package", "stage", "outcome", "reason"})

func init() { metrics.Registry.MustRegister(attempts) }

func countSuccess(id *packagejob.Identity) {
	attempts.WithLabelValues(id.NodeWright, id.Package, string(id.Stage), outcomeSucceeded, "").Inc()
}

func countFailure(f *plan.Finding) {
	outcome := outcomeFailed
	if f.Report.Harmless {
		outcome = outcomeLost
	}
	attempts.WithLabelValues(f.Report.NodeWright, f.Report.Name, string(f.Report.Stage), outcome, string(f.Class)).Inc()
}
