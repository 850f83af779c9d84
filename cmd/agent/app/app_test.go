package app

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodewright/nodewright/controllers/node/stagejob"
)

func TestExitCodeIsTheOperators(t *testing.T) {
	if ExitTerminated != stagejob.ExitTerminated {
		t.Errorf("the agent ends with %d, the operator ignores %d", ExitTerminated, stagejob.ExitTerminated)
	}
}

func TestArguments(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		args, env []string
		want      int
	}{
		"done":             {[]string{"done"}, nil, ExitOK},
		"nothing":          {nil, nil, ExitUsage},
		"done and more":    {[]string{"done", "x"}, nil, ExitUsage},
		"too few":          {[]string{"apply", dir}, nil, ExitUsage},
		"unknown mode":     {[]string{"polish", dir, "/x"}, nil, ExitOK},
		"interrupt":        {[]string{"interrupt", dir, "/x"}, nil, ExitUsage},
		"relative copy":    {[]string{"apply", dir, "x"}, nil, ExitUsage},
		"no root":          {[]string{"apply", dir + "/no", "/x"}, nil, ExitHost},
		"no package":       {[]string{"apply", dir, "/x"}, nil, ExitPackage},
		"run":              {[]string{"apply", dir, "/x"}, []string{"NODEWRIGHT_RUN=x"}, ExitUsage},
		"resource":         {[]string{"apply", dir, "/x"}, []string{"SKYHOOK_RESOURCE_ID=a_b"}, ExitUsage},
		"resource leaves":  {[]string{"apply", dir, "/x"}, []string{"SKYHOOK_RESOURCE_ID=a_.._1"}, ExitUsage},
		"interrupt data":   {[]string{"interrupt", dir, "/x", "%"}, nil, ExitUsage},
		"interrupt by who": {[]string{"interrupt", dir, "/x", "eyJ0eXBlIjoibm9fb3AifQ=="}, nil, ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if got := Run(context.Background(), tc.args, tc.env, &b, &b); got != tc.want {
				t.Errorf("exit code %d, want %d: %s", got, tc.want, b.String())
			}
		})
	}
}

func TestStage(t *testing.T) {
	tr := newTree(t, map[string][]step{
		"apply": {
			newStep("sub/say", "arguments", []string{"env:A", "b"}, "env", map[string]string{"K": "v", "SKYHOOK_DIR": "mine"}),
			newStep("fail", "returncodes", []int{0, 3}),
		},
		"apply-check": {newStep("say", "on_host", false)},
	})
	tr.set("A", "from the container")
	out := tr.stage("apply", ExitOK)
	contains(t, out, "[out]", "args [from the container b] dir "+copyDir+" <nil>",
		"env v "+copyDir+"/skyhook_dir "+copyDir+" "+copyDir, "[err]", "to stderr", "SUCCEEDED: sub/say env:A b", "SUCCEEDED: fail")
	logs, err := filepath.Glob(tr.path("/var/log/nw/tuning/1.0.0/sub/say-*.log*"))
	if err != nil || len(logs) != 2 {
		t.Errorf("logs %v, %v", logs, err)
	}
	contains(t, tr.stage("apply", ExitOK), "skipping sub/say", "skipping fail")
	contains(t, tr.stage("apply-check", ExitOK), "SUCCEEDED: say")
	contains(t, tr.read("/var/lib/nw/history/tuning.json"), `"current-version":"1.0.0"`)
	contains(t, tr.stage("config", ExitOK), "warning: the package has no steps for config")

	tr.set("OVERLAY_ALWAYS_RUN_STEP", "true")
	contains(t, tr.stage("apply", ExitOK), "SUCCEEDED: sub/say")
	tr.set("OVERLAY_ALWAYS_RUN_STEP", "false")
	tr.set("NODEWRIGHT_RUN", "8")
	contains(t, tr.stage("apply", ExitOK), "SUCCEEDED: sub/say")
}

func TestWhichStepsRunAgain(t *testing.T) {
	for mode, again := range map[string]bool{
		"apply": false, "post-interrupt": false, "config": true, "upgrade": true, "uninstall": true, "config-check": true,
	} {
		tr := newTree(t, map[string][]step{mode: {newStep("say"), newStep("fail", "returncodes", []int{3}, "idempotence", true)}})
		tr.set("SKYHOOK_AGENT_WRITE_LOGS", "false")
		tr.stage(mode, ExitOK)
		out := tr.stage(mode, ExitOK)
		if strings.Contains(out, "SUCCEEDED: say") != again || !strings.Contains(out, "SUCCEEDED: fail") {
			t.Errorf("%s, want again: %v\n%s", mode, again, out)
		}
		if _, err := os.Stat(tr.path("/var/log/nw")); !os.IsNotExist(err) {
			t.Errorf("logs are off: %v", err)
		}
	}
}

func TestFailures(t *testing.T) {
	tr := newTree(t, map[string][]step{
		"apply":       {newStep("say"), newStep("fail"), newStep("never")},
		"apply-check": {newStep("fail"), newStep("say"), newStep("broken")},
		"config":      {newStep("say", "arguments", []string{"env:NO_A", "env:NO_B"})},
	})
	tr.file(copyDir+"/skyhook_dir/broken", "no program")
	out := tr.stage("apply", ExitFailed)
	contains(t, out, "step fail ended with 3, want one of [0]")
	if strings.Contains(out, "running never") {
		t.Error("a step ran after one that failed")
	}
	out = tr.stage("apply", ExitFailed)
	contains(t, out, "skipping say", "running fail")
	contains(t, tr.stage("apply-check", ExitFailed), "SUCCEEDED: say", "failed: fail, broken", "exec format error")
	contains(t, tr.stage("config", ExitFailed), "NO_A, NO_B")
	if _, err := os.Stat(tr.path("/var/lib/nw/history")); !os.IsNotExist(err) {
		t.Errorf("a failed check wrote history: %v", err)
	}
	tr.config(map[string][]step{"apply": {newStep("gone")}}, []string{"a.conf"})
	contains(t, tr.stage("apply", ExitPackage), "skyhook_dir/gone", "configmaps/a.conf")
	tr.config(map[string][]step{"apply": {newStep("../../x")}}, nil)
	contains(t, tr.stage("apply", ExitPackage), "modes.apply[0].path")
}

func TestUpgradeAndUninstall(t *testing.T) {
	tr := newTree(t, map[string][]step{
		"upgrade":         {newStep("say", "upgrade_step", true)},
		"upgrade-check":   {newStep("say", "upgrade_step", true)},
		"uninstall":       {newStep("say")},
		"uninstall-check": {newStep("say")},
	}, copyDir+"/root_dir/etc/x")
	tr.config(map[string][]step{"upgrade": {newStep("say", "upgrade_step", true)},
		"upgrade-check": {newStep("say", "upgrade_step", true)}, "uninstall": {newStep("say")}, "apply": {newStep("say")}}, []string{"a"})
	contains(t, tr.stage("uninstall", ExitOK), "SUCCEEDED")
	if _, err := os.Stat(tr.path("/etc/x")); !os.IsNotExist(err) {
		t.Errorf("uninstall copied root_dir: %v", err)
	}
	tr.file(copyDir+"/configmaps/a", "")
	tr.file("/var/lib/nw/history/tuning.json", `{"current-version": "0.9.0", "history": [{"version": "0.9.0", "time": "x"}]}`)
	older := []string{"tuning-0.9.0-" + uid + "-6", "tuning-1.0.0-rc.1-" + uid + "-5"}
	newer := []string{"tuning-1.0.0-" + uid + "-8", "other-0.9.0-" + uid + "-6", "tuning-x-0.9.0-" + uid + "-6", "tuning-0.9.0-6"}
	for _, name := range append(older, newer...) {
		tr.file("/var/lib/nw/"+name+"/f", "")
	}
	for range 2 {
		contains(t, tr.stage("upgrade", ExitOK), "args [0.9.0 1.0.0]", "0.9.0 1.0.0\n")
		contains(t, tr.stage("upgrade-check", ExitOK), "args [0.9.0 1.0.0]")
	}
	if got := tr.read("/etc/x"); got != "content" {
		t.Errorf("root_dir was not copied: %s", got)
	}
	for _, name := range older {
		if _, err := os.Stat(tr.path("/var/lib/nw/" + name)); !os.IsNotExist(err) {
			t.Errorf("%s stays: %v", name, err)
		}
	}
	for _, name := range append(newer, filepath.Base(copyDir)) {
		if _, err := os.Stat(tr.path("/var/lib/nw/" + name)); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
	tr.stage("apply", ExitOK)
	tr.stage("uninstall-check", ExitOK)
	contains(t, tr.read("/var/lib/nw/history/tuning.json"), `"current-version":"uninstalled"`)
	contains(t, tr.stage("apply", ExitOK), "SUCCEEDED: say")
}

func TestInterrupts(t *testing.T) {
	tr := newTree(t, nil)
	for _, name := range []string{"reboot", "systemctl", "service"} {
		tr.binary("/usr/bin/" + name)
	}
	calls := func(want string) {
		t.Helper()
		if got := strings.ReplaceAll(tr.read("/calls"), " \n", "\n"); got != want {
			t.Errorf("calls:\n%swant:\n%s", got, want)
		}
		_ = os.Remove(tr.path("/calls"))
	}
	if err := os.RemoveAll(tr.path(copyDir)); err != nil {
		t.Fatal(err)
	}
	tr.interrupt(`{"type":"no_op"}`, ExitOK)
	if _, err := os.Stat(tr.path(copyDir)); err != nil {
		t.Error(err)
	}
	contains(t, tr.interrupt(`{"type":"service_restart","services":["a","broken","b"]}`, ExitFailed), "systemctl restart broken ended with 5")
	calls("systemctl daemon-reload\nsystemctl restart a\nsystemctl restart broken\n")
	// What was done is not done again; flags are of commands, not of places.
	tr.interrupt(`{"type":"service_restart","services":["a","c"]}`, ExitOK)
	calls("systemctl restart c\n")
	tr.interrupt(`{"type":"restart_all_services"}`, ExitOK)
	contains(t, tr.interrupt(`{"type":"restart_all_services"}`, ExitOK), "skipping service procps force-reload")
	calls("service procps force-reload\n")
	tr.set("SKYHOOK_RESOURCE_ID", "nw-"+uid+"-8_tuning_1.0.0")
	tr.interrupt(`{"type":"restart_all_services"}`, ExitOK)
	calls("service procps force-reload\n")
}

func TestReboot(t *testing.T) {
	tr := newTree(t, nil)
	const reboot = `{"type":"node_restart"}`
	contains(t, tr.interrupt(reboot, ExitHost), "boot ID")
	tr.file(bootIDFile, "boot-1\n")
	contains(t, tr.interrupt(reboot, ExitFailed), "find reboot")
	tr.binary("/usr/bin/reboot")
	// Asked for and not yet down: the next agent asks again.
	tr.interrupt(reboot, ExitOK)
	tr.interrupt(reboot, ExitOK)
	if got := tr.read("/calls"); strings.Count(got, "reboot") != 2 {
		t.Errorf("calls: %s", got)
	}
	_ = os.Remove(tr.path("/calls"))
	tr.file(bootIDFile, "boot-2\n")
	contains(t, tr.interrupt(reboot, ExitOK), "the host was rebooted")
	tr.file(bootIDFile, "boot-1\n")
	tr.set("NODEWRIGHT_BOOT_ID", "")
	contains(t, tr.interrupt(reboot, ExitUsage), "NODEWRIGHT_BOOT_ID is required")
	if _, err := os.Stat(tr.path("/calls")); !os.IsNotExist(err) {
		t.Errorf("a host was rebooted under another boot ID: %s", tr.read("/calls"))
	}
}

func TestRootDirFollowsLinksOfTheHost(t *testing.T) {
	tr := newTree(t, map[string][]step{"apply": {}}, copyDir+"/root_dir/var/run/x", copyDir+"/root_dir/escape/outside", "/run/keep")
	for link, target := range map[string]string{"/var/run": "/run", "/escape": "../../../../../.."} {
		if err := os.Symlink(target, tr.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	tr.stage("apply", ExitOK)
	if tr.read("/run/x") != "content" || tr.read("/outside") != "content" {
		t.Errorf("run/x %q, outside %q", tr.read("/run/x"), tr.read("/outside"))
	}
}

// start runs the agent as a process of its own.
func (tr *tree) start(args ...string) (*exec.Cmd, *lineWatch) {
	tr.t.Helper()
	needRoot(tr.t)
	self, err := os.Executable()
	if err != nil {
		tr.t.Fatal(err)
	}
	out := &lineWatch{seen: make(chan string, 1000)}
	cmd := &exec.Cmd{Path: self, Args: append([]string{"agent"}, args...), Env: tr.env, Stdout: out, Stderr: out}
	if err := cmd.Start(); err != nil {
		tr.t.Fatal(err)
	}
	tr.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}

type lineWatch struct {
	all  locked
	buf  bytes.Buffer
	seen chan string
}

func (w *lineWatch) Write(p []byte) (int, error) {
	w.all.mu.Lock()
	w.buf.Write(p)
	w.all.mu.Unlock()
	w.seen <- string(p)
	return len(p), nil
}

func (w *lineWatch) wait(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case s := <-w.seen:
			if strings.Contains(s, text) {
				return
			}
		case <-deadline:
			t.Fatalf("no %q in the output", text)
		}
	}
}

func code(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Logf("the agent ended: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("the agent does not end")
	}
	return cmd.ProcessState.ExitCode()
}

func TestSIGTERM(t *testing.T) {
	tr := newTree(t, map[string][]step{"apply": {newStep("grandchild"), newStep("say")}})
	cmd, out := tr.start("apply", tr.dir, copyDir)
	out.wait(t, "ready")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := code(t, cmd); got != ExitTerminated {
		t.Errorf("exit code %d, want %d\n%s", got, ExitTerminated, out.buf.String())
	}
	// The signal reached the whole group, and what ended well is done.
	contains(t, out.buf.String(), "child ended", "parent ended", "SUCCEEDED: grandchild")
	if strings.Contains(out.buf.String(), "running say") {
		t.Error("a step was begun after SIGTERM")
	}
	contains(t, tr.stage("apply", ExitOK), "skipping grandchild", "SUCCEEDED: say")
}

func TestLock(t *testing.T) {
	tr := newTree(t, map[string][]step{"apply": {newStep("stubborn")}, "config": {newStep("say")}})
	first, out := tr.start("apply", tr.dir, copyDir)
	out.wait(t, "ready")
	second, outSecond := tr.start("config", tr.dir, copyDir)
	outSecond.wait(t, "waiting for /var/lib/nw/tuning.lock")
	third, outThird := tr.start("config", tr.dir, copyDir)
	outThird.wait(t, "waiting for")
	if err := third.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := code(t, third); got != ExitTerminated {
		t.Errorf("an agent that waits ends with %d", got)
	}
	if strings.Contains(outSecond.buf.String(), "running") {
		t.Error("two agents worked at once")
	}
	// Killed, the agent takes its step along, and the lock is free.
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = code(t, first)
	if got := code(t, second); got != ExitOK {
		t.Errorf("exit code %d\n%s", got, outSecond.buf.String())
	}
}

func TestStepThatLeavesAProgram(t *testing.T) {
	tr := newTree(t, map[string][]step{"apply": {newStep("leave")}})
	out := tr.stage("apply", ExitOK)
	contains(t, out, "left")
	var pid int
	if _, rest, ok := strings.Cut(out, "left "); ok {
		for _, r := range rest {
			if r < '0' || r > '9' {
				break
			}
			pid = pid*10 + int(r-'0')
		}
	}
	if pid == 0 || syscall.Kill(pid, 0) != nil {
		t.Errorf("what the step left, %d, does not run", pid)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}
