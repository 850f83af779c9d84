package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// A script that fails is tried again; then the package is erroring, with the end
// of its log on the node, until it is mended.
func TestFailingScript(t *testing.T) {
	fresh(t)
	manifest := func(script string) string {
		return alone("failing", "1.0.0", `      configMap: {apply.sh: "`+script+"\"}\n")
	}
	install(t, "failing", manifest("echo the disk is on fire >&2; exit 7"))
	wantEntry(t, second, "failing", "alpha", "erroring", func(e *nodestate.PackageStatus) bool {
		return e.State == nodestate.StateErroring && e.Failures == 2
	})
	eventually(t, "the end of the log is on the node", func(ctx context.Context) error {
		_, r, err := record(ctx, second)
		if err != nil {
			return err
		}
		report := r.JobReports[nodestate.PackageRef{NodeWright: "failing", Package: "alpha"}]
		if report.ExitCode == nil || *report.ExitCode == 0 || !strings.Contains(report.LogTail, "the disk is on fire") {
			return fmt.Errorf("the evidence is %+v", report)
		}
		return nil
	})
	if got := journal(t, second, "alpha"); len(got) != 2 {
		t.Errorf("one retry is allowed, it ran: %q", got)
	}
	wantNoFile(t, second, "etc/e2e/alpha")
	wantEvent(t, "failing", "AttemptFailed", second, "alpha")

	apply(t, manifest("true"))
	wantReady(t, "failing")
	wantFile(t, second, "etc/e2e/alpha", "1.0.0")
}

// An image that is nowhere shows with the kubelet's words, and a version that
// exists heals it. JB-01.
func TestMissingImage_JB01(t *testing.T) {
	fresh(t)
	install(t, "missing", alone("missing", "9.9.9", ""))
	e := wantEntry(t, second, "missing", "alpha", "erroring", func(e *nodestate.PackageStatus) bool {
		return e.State == nodestate.StateErroring
	})
	if e.Reason != "ErrImagePull" && e.Reason != "ImagePullBackOff" {
		t.Errorf("the reason is %q: %s", e.Reason, e.Message)
	}
	if !strings.Contains(e.Message, "registry.invalid") {
		t.Errorf("the message does not say what the kubelet said: %q", e.Message)
	}
	if e.Failures != 0 {
		t.Errorf("nothing ran, but %d failures are counted", e.Failures)
	}

	apply(t, alone("missing", "1.0.0", ""))
	wantReady(t, "missing")
	wantFile(t, second, "etc/e2e/alpha", "1.0.0")
}
