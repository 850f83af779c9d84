package job

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/job/plan"
)

// F6: attempts are the count of what an earlier operator counted as restarts.
func TestAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	report := nodestate.JobReport{NodeWright: "metrics", Name: "driver", Stage: nodestate.StageApply}
	lost := report
	lost.Harmless = true
	countSuccess(&packagejob.Identity{NodeWright: "metrics", Package: "driver", Stage: nodestate.StageApply})
	countFailure(&plan.Finding{Report: report, Class: plan.ClassExit})
	countFailure(&plan.Finding{Report: report, Class: plan.ClassExit})
	countFailure(&plan.Finding{Report: lost, Class: plan.ClassRejected})
	for labels, want := range map[[2]string]float64{
		{outcomeSucceeded, ""}: 1, {outcomeFailed, "exit"}: 2, {outcomeLost, "rejected"}: 1, {outcomeFailed, "oom"}: 0,
	} {
		if got := testutil.ToFloat64(attempts.WithLabelValues("metrics", "driver", "apply", labels[0], labels[1])); got != want {
			t.Errorf("attempts with outcome %q and reason %q = %v, want %v", labels[0], labels[1], got, want)
		}
	}
}
