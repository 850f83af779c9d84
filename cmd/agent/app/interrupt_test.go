package app

import (
	"context"
	"encoding/base64"
	"os"
	"strings"
	"syscall"
	"testing"
)

const restart = `{"type":"service_restart","services":["a"]}`

// A boot ID that is empty is no other boot ID.
func TestEmptyBootID(t *testing.T) {
	tr := newTree(t, nil)
	tr.binary("/usr/bin/reboot")
	tr.file(bootIDFile, "\n")
	contains(t, tr.interrupt(`{"type":"node_restart"}`, ExitHost), "is empty")
	if _, err := os.Stat(tr.path("/calls")); !os.IsNotExist(err) {
		t.Errorf("the host was rebooted: %s", tr.read("/calls"))
	}
}

// A flag that cannot be read says neither that the command was run nor that it
// was not; one that cannot be written is told, and the command runs again.
func TestFlagOfAnInterrupt(t *testing.T) {
	tr := newTree(t, nil)
	tr.binary("/usr/bin/systemctl")
	const flags = "/var/lib/nw/interrupts/flags"
	tr.file(flags, "no directory")
	contains(t, tr.interrupt(restart, ExitHost), "not a directory")
	if _, err := os.Stat(tr.path("/calls")); !os.IsNotExist(err) {
		t.Errorf("something was run: %s", tr.read("/calls"))
	}
	if err := os.Remove(tr.path(flags)); err != nil {
		t.Fatal(err)
	}
	tr.interrupt(restart, ExitOK)
	if got := tr.read("/calls"); strings.Count(got, "\n") != 2 {
		t.Errorf("calls:\n%s", got)
	}
}

func TestInterruptThatIsTold(t *testing.T) {
	tr := newTree(t, nil)
	tr.binary("/usr/bin/systemctl")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, out := tr.run(ctx, "interrupt", tr.dir, copyDir, base64.StdEncoding.EncodeToString([]byte(restart)))
	if code != ExitTerminated || strings.Contains(out, "running") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// Interrupts and stages of one package do not work beside each other.
func TestLockOfAnInterrupt(t *testing.T) {
	tr := newTree(t, map[string][]step{"apply": {newStep("stubborn")}})
	tr.binary("/usr/bin/systemctl")
	first, out := tr.start("apply", tr.dir, copyDir)
	out.wait(t, "ready")
	second, outSecond := tr.start("interrupt", tr.dir, copyDir, base64.StdEncoding.EncodeToString([]byte(restart)))
	outSecond.wait(t, "waiting for /var/lib/nw/tuning.lock")
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = code(t, first)
	if got := code(t, second); got != ExitOK {
		t.Errorf("exit code %d\n%s", got, outSecond.buf.String())
	}
	if got := tr.read("/calls"); got != "systemctl daemon-reload\nsystemctl restart a\n" {
		t.Errorf("calls:\n%s", got)
	}
}
