package e2e

import (
	"strings"
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// A script that fails is tried again; then the package is erroring, with the end
// of its log on the node, until it is mended.
func TestFailingScript(t *testing.T) {
	node := lease(t, first)
	fresh(t, node)
	manifest := func(script string) string {
		return alone(node, "failing", "1.0.0", `      configMap: {apply.sh: "`+script+"\"}\n")
	}
	install(t, "failing", manifest("echo the disk is on fire >&2; exit 7"))
	wantEntry(t, node, "failing", "alpha", "erroring", func(e *nodestate.PackageStatus) bool {
		return e.State == nodestate.StateErroring && e.Failures == 2
	})
	wantReport(t, node, "failing", "the end of its log", func(r *nodestate.JobReport) bool {
		return r.ExitCode != nil && *r.ExitCode != 0 && strings.Contains(r.LogTail, "the disk is on fire")
	})
	if got := journal(t, node, "alpha"); len(got) != 2 {
		t.Errorf("one retry is allowed, it ran: %q", got)
	}
	wantNoFile(t, node, "etc/e2e/alpha")
	wantEvent(t, "failing", "AttemptFailed", node, "alpha")

	apply(t, manifest("true"))
	wantReady(t, "failing")
	wantFile(t, node, "etc/e2e/alpha", "1.0.0")
}

// An image that is nowhere shows with the kubelet's words, and a version that
// exists heals it. JB-01.
func TestMissingImage_JB01(t *testing.T) {
	node := lease(t, first)
	fresh(t, node)
	install(t, "missing", alone(node, "missing", "9.9.9", ""))
	e := wantEntry(t, node, "missing", "alpha", "erroring", func(e *nodestate.PackageStatus) bool {
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

	apply(t, alone(node, "missing", "1.0.0", ""))
	wantReady(t, "missing")
	wantFile(t, node, "etc/e2e/alpha", "1.0.0")
}

// A log of any length and content leaves its end on the node, in the bounds of
// the record. JB-26.
func TestLongLog_JB26(t *testing.T) {
	node := lease(t, first)
	fresh(t, node)
	install(t, "talking", alone(node, "talking", "1.0.0", `      configMap:
        apply.sh: |
          seq 20000 | sed 's/$/ żółta łąka/'
          printf 'no \377\376 text\n'
          exit 3
`))
	wantReport(t, node, "talking", "the end of its log", func(r *nodestate.JobReport) bool {
		return len(r.LogTail) <= nodestate.MaxLogTail && strings.Contains(r.LogTail, "20000 żółta łąka") &&
			strings.Contains(r.LogTail, "no \ufffd") && !strings.Contains(r.LogTail, " 1 żółta")
	})
}

// A stage that takes longer than it may is ended, with SIGKILL if it must be, and
// that is a failure.
func TestStageTimeout(t *testing.T) {
	node := lease(t, first)
	fresh(t, node)
	install(t, "hanging", alone(node, "hanging", "1.0.0", `      stageTimeout: 4s
      gracefulShutdown: 2s
      configMap:
        apply.sh: |
          trap '' TERM
          echo "alpha pid $$" >>/var/lib/e2e/journal
          echo waiting for a disk that never comes
          while :; do sleep 1; done
`))
	e := wantEntry(t, node, "hanging", "alpha", "erroring", func(e *nodestate.PackageStatus) bool {
		return e.State == nodestate.StateErroring
	})
	if e.Failures != 2 || e.Reason != "DeadlineExceeded" {
		t.Errorf("the record is %+v", e)
	}
	wantReport(t, node, "hanging", "a deadline, and the end of the log", func(r *nodestate.JobReport) bool {
		return r.Reason == "DeadlineExceeded" && strings.Contains(r.LogTail, "a disk that never comes")
	})
	wantEvent(t, "hanging", "AttemptFailed", node, "DeadlineExceeded")
	wantNoFile(t, node, "etc/e2e/alpha")
}

// A step that takes more memory than it may fails with the kubelet's word for
// it, and so does an interrupt. JB-25.
func TestOutOfMemory_JB25(t *testing.T) {
	const eat = "x=aaaaaaaa; while :; do x=$x$x; done"
	node := lease(t, second)
	fresh(t, node)
	install(t, "eating", alone(node, "eating", "1.0.0", `      resources: {cpuRequest: 50m, cpuLimit: "1", memoryRequest: 64Mi, memoryLimit: 64Mi}
      configMap: {apply.sh: "`+eat+`"}
      interrupt: {type: service, services: [e2e.service]}
`))
	wantReport(t, node, "eating", "OOMKilled", func(r *nodestate.JobReport) bool {
		return r.Reason == "OOMKilled" && r.Stage == nodestate.StageApply
	})

	put(t, node, "run/systemctl.sh", notes+"mkdir /run/eaten 2>/dev/null || exit 0\n"+eat+"\n")
	t.Cleanup(func() {
		put(t, node, "run/systemctl.sh", notes)
		touch(t, node, "run/eaten", false)
	})
	apply(t, alone(node, "eating", "1.0.0", "      interrupt: {type: service, services: [e2e.service]}\n"))
	wantEvent(t, "eating", "AttemptFailed", node, "interrupt", "OOMKilled")
	wantComplete(t, node, "eating", "alpha", "1.0.0", nodestate.StagePostInterrupt)
	wantFile(t, node, "var/lib/e2e/calls", "systemctl daemon-reload\nsystemctl daemon-reload\nsystemctl restart e2e.service")
	wantOpen(t, node)
}
