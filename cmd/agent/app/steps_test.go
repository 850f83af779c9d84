package app

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A step becomes executable for all and keeps the rest of its mode.
func TestModesOfSteps(t *testing.T) {
	for before, want := range map[fs.FileMode]fs.FileMode{0o644: 0o755, 0o600: 0o711, 0o744: 0o755, 0o755: 0o755, 0o466: 0o577} {
		tr := newTree(t, map[string][]step{"apply": {newStep("say")}})
		program := tr.path(copyDir + "/skyhook_dir/say")
		if err := os.Chmod(program, before); err != nil {
			t.Fatal(err)
		}
		tr.stage("apply", ExitOK)
		info, err := os.Stat(program)
		if err != nil || info.Mode() != want {
			t.Errorf("%o became %v, want %v (%v)", before, info.Mode(), want, err)
		}
	}
}

// Versions are told in modes of upgrades only.
func TestVersionsAreToldInUpgrades(t *testing.T) {
	modes := map[string][]step{}
	for _, mode := range []string{"apply", "apply-check", "config", "post-interrupt", "uninstall", "upgrade", "upgrade-check"} {
		modes[mode] = []step{newStep("say", "upgrade_step", true, "idempotence", true)}
	}
	tr := newTree(t, modes)
	for mode := range modes {
		out := tr.stage(mode, ExitOK)
		told := strings.Contains(out, "args [unknown 1.0.0]") && strings.Contains(out, copyDir+" unknown 1.0.0\n")
		if upgrade := strings.HasPrefix(mode, "upgrade"); told != upgrade || !upgrade && (!strings.Contains(out, "args []") || !strings.Contains(out, copyDir+"  \n")) {
			t.Errorf("%s:\n%s", mode, out)
		}
	}
}

// A check leaves no flag: it is no work that is done.
func TestChecksLeaveNoFlags(t *testing.T) {
	tr := newTree(t, map[string][]step{"apply": {newStep("say")}, "apply-check": {newStep("say", "arguments", []string{"check"})}})
	tr.stage("apply", ExitOK)
	before, err := filepath.Glob(tr.path("/var/lib/nw/flags/tuning/1.0.0/*"))
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}
	tr.stage("apply-check", ExitOK)
	if after, err := filepath.Glob(tr.path("/var/lib/nw/flags/tuning/1.0.0/*")); err != nil || len(after) != 1 {
		t.Errorf("after a check there are flags %q, %v", after, err)
	}
}

// A step whose flag cannot be set would run twice: that is said, and not taken for
// success.
func TestFlagThatCannotBeSet(t *testing.T) {
	tr := newTree(t, map[string][]step{"apply": {newStep("say"), newStep("fail", "returncodes", []int{3})}})
	tr.file("/var/lib/nw/flags", "in the way")
	out := tr.stage("apply", ExitHost)
	contains(t, out, "flag of step say")
	if strings.Contains(out, "running fail") {
		t.Errorf("it went on:\n%s", out)
	}
}

// Told to end, the agent says so whatever its step did, begins no other one, and
// does not report a failure that the signal was the cause of.
func TestSIGTERMIsNoFailure(t *testing.T) {
	tr := newTree(t, map[string][]step{
		"apply":  {newStep("grandchild", "returncodes", []int{9})},
		"config": {newStep("grandchild")},
	})
	for _, mode := range []string{"apply", "config"} {
		cmd, out := tr.start(mode, tr.dir, copyDir)
		out.wait(t, "ready")
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if got := code(t, cmd); got != ExitTerminated {
			t.Errorf("%s: exit code %d, want %d\n%s", mode, got, ExitTerminated, out.buf.String())
		}
	}
}

// The end of a mode that had begun nothing is told as such.
func TestEndedBeforeTheFirstStep(t *testing.T) {
	tr := newTree(t, map[string][]step{"apply": {newStep("say")}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, out := tr.run(ctx, "apply", tr.dir, copyDir); code != ExitTerminated || strings.Contains(out, "running") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// Copies of older runs also go where no version is new, and nothing else does that
// has a name of that kind.
func TestCopiesOfOlderRuns(t *testing.T) {
	tr := newTree(t, map[string][]step{"config-check": {newStep("say")}})
	tr.file("/var/lib/nw/tuning-1.0.0-"+uid+"-6/f", "")
	tr.file("/var/lib/nw/tuning-1.0.0-"+uid+"-5", "a file of somebody")
	kept := []string{"tuning-1.0.0-" + uid + "-6x", "tuning-1.0.0-" + uid + "-10", "tuning-1.0.0-" + uid + "-6-6", "tuning-1.0.0-" + uid + "-a"}
	for _, name := range kept {
		tr.file("/var/lib/nw/"+name+"/f", "")
	}
	tr.stage("config-check", ExitOK)
	for name, stays := range map[string]bool{
		"tuning-1.0.0-" + uid + "-6": false, "tuning-1.0.0-" + uid + "-5": true,
		kept[0]: true, kept[1]: true, kept[2]: true, kept[3]: true,
	} {
		if _, err := os.Stat(tr.path("/var/lib/nw/" + name)); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", name, err, stays)
		}
	}
}

// An agent that is not told for which package it works goes by config.json, and
// removes no copy, since it cannot tell whose it would be.
func TestWithoutResourceID(t *testing.T) {
	tr := newTree(t, map[string][]step{"apply": {newStep("say")}, "apply-check": {newStep("say")}})
	tr.set("SKYHOOK_RESOURCE_ID", "")
	tr.file("/var/lib/nw/-1.0.0-"+uid+"-6/f", "")
	tr.stage("apply", ExitOK)
	tr.stage("apply-check", ExitOK)
	contains(t, tr.read("/var/lib/nw/history/tuning.json"), `"current-version":"1.0.0"`)
	if _, err := os.Stat(tr.path("/var/lib/nw/-1.0.0-" + uid + "-6/f")); err != nil {
		t.Error(err)
	}
}

// A history that cannot be read is said to be put aside, and the upgrade goes on.
func TestUnreadableHistoryIsSaid(t *testing.T) {
	tr := newTree(t, map[string][]step{"upgrade": {newStep("say")}})
	tr.file("/var/lib/nw/history/tuning.json", "{")
	contains(t, tr.stage("upgrade", ExitOK), "warning: the history of the package cannot be read", "tuning.json.backup", "unknown 1.0.0")
}

// uninstall-check is a part of uninstall: it needs no configMap and copies nothing.
func TestUninstallCheckNeedsNoConfiguration(t *testing.T) {
	modes := map[string][]step{"uninstall-check": {newStep("say")}, "config-check": {newStep("say")}}
	tr := newTree(t, modes, copyDir+"/root_dir/etc/x")
	tr.config(modes, []string{"a.conf"})
	tr.stage("uninstall-check", ExitOK)
	if _, err := os.Stat(tr.path("/etc/x")); !os.IsNotExist(err) {
		t.Errorf("uninstall-check copied root_dir: %v", err)
	}
	contains(t, tr.stage("config-check", ExitPackage), "configmaps/a.conf")
}

// A host that does not let the agent prepare a step is not the step's failure.
func TestStepThatCannotBeMadeExecutable(t *testing.T) {
	tr := newTree(t, map[string][]step{"apply": {newStep("say")}})
	needRoot(t)
	dir := tr.path(copyDir + "/skyhook_dir")
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	contains(t, tr.stage("apply", ExitHost), "step say: make it executable", "read-only file system")
}
