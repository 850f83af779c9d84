package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	uid     = "0c5a0e9a-1111-4222-8333-0123456789ab"
	copyDir = "/var/lib/nw/tuning-1.0.0-" + uid + "-7"
	helpers = "AGENT_TEST_HELPERS"
)

// TestMain makes the test binary a step as well: it is the only program that
// runs in a tree without a shell and libraries. Its name says what it does.
func TestMain(m *testing.M) {
	if os.Getenv(helpers) != "" {
		os.Exit(program(filepath.Base(os.Args[0]), os.Args[1:]))
	}
	os.Exit(m.Run())
}

func program(name string, args []string) int {
	switch name {
	case "say":
		dir, err := os.Getwd()
		fmt.Println("args", args, "dir", dir, err)
		fmt.Println("env", os.Getenv("K"), os.Getenv("STEP_ROOT"), os.Getenv("SKYHOOK_DIR"), os.Getenv("NODEWRIGHT_DIR"),
			os.Getenv("PREVIOUS_VERSION"), os.Getenv("CURRENT_VERSION"))
		fmt.Fprintln(os.Stderr, "to stderr")
		return 0
	case "fail":
		return 3
	case "agent":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		return Run(ctx, args, os.Environ(), os.Stdout, os.Stderr)
	case "grandchild", "stubborn":
		return wait(name)
	case "leave":
		// Something keeps the output open.
		c := exec.Command(os.Args[0])
		c.Args[0], c.Stdin, c.Stdout, c.Stderr = "sleeper", os.Stdin, os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			return 9
		}
		fmt.Println("left", c.Process.Pid)
		return 0
	case "sleeper":
		time.Sleep(time.Minute)
		return 0
	default:
		// reboot, systemctl, service: what was called, in a file.
		f, err := os.OpenFile("/calls", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return 9
		}
		_, _ = fmt.Fprintln(f, name, strings.Join(args, " "))
		if len(args) > 1 && args[1] == "broken" {
			return 5
		}
		return 0
	}
}

// wait ends on SIGTERM, after the child that it starts did.
func wait(name string) int {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGTERM)
	if name == "grandchild" && os.Getenv("CHILD") == "" {
		c := exec.Command(os.Args[0])
		c.Args[0], c.Env = name, append(os.Environ(), "CHILD=1")
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			return 9
		}
		<-got
		_ = c.Wait()
		fmt.Println("parent ended")
		return 0
	}
	fmt.Println("ready")
	<-got
	fmt.Println("child ended")
	return 0
}

// tree is a host with a package on it.
type tree struct {
	t   *testing.T
	dir string
	env []string
}

type step map[string]any

func newStep(path string, more ...any) step {
	s := step{
		"name": "s", "path": path, "arguments": []string{}, "returncodes": []int{0}, "on_host": true, "idempotence": false,
		"upgrade_step": false,
	}
	for i := 0; i < len(more); i += 2 {
		s[more[i].(string)] = more[i+1]
	}
	return s
}

func newTree(t *testing.T, modes map[string][]step, files ...string) *tree {
	t.Helper()
	tr := &tree{t: t, dir: t.TempDir(), env: []string{
		"PATH=/usr/bin", helpers + "=1", "SKYHOOK_ROOT_DIR=/var/lib/nw", "SKYHOOK_LOG_DIR=/var/log/nw",
		"SKYHOOK_RESOURCE_ID=nw-" + uid + "-7_tuning_1.0.0", "NODEWRIGHT_RUN=7", "NODEWRIGHT_BOOT_ID=boot-1", "COPY_RESOLV=false",
	}}
	tr.config(modes, nil)
	for _, list := range modes {
		for _, s := range list {
			tr.binary(copyDir + "/skyhook_dir/" + s["path"].(string))
		}
	}
	for _, f := range files {
		tr.file(f, "content")
	}
	return tr
}

func (tr *tree) config(modes map[string][]step, expected []string) {
	tr.t.Helper()
	data, err := json.Marshal(map[string]any{
		"schema_version": "v1", "package_name": "tuning", "package_version": "1.0.0",
		"expected_config_files": append([]string{}, expected...), "modes": modes,
	})
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.file(copyDir+"/config.json", string(data))
}

func (tr *tree) path(p string) string { return filepath.Join(tr.dir, p) }

func (tr *tree) file(p, content string) {
	tr.t.Helper()
	if err := os.MkdirAll(filepath.Dir(tr.path(p)), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(tr.path(p), []byte(content), 0o644); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) read(p string) string {
	data, err := os.ReadFile(tr.path(p))
	if err != nil {
		return "error: " + err.Error()
	}
	return string(data)
}

// binary puts the test binary at a path.
func (tr *tree) binary(p string) {
	tr.t.Helper()
	if err := os.MkdirAll(filepath.Dir(tr.path(p)), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		tr.t.Fatal(err)
	}
	// Steps are not executable when they come.
	mode := os.FileMode(0o644)
	if strings.HasPrefix(p, "/usr/bin/") {
		mode = 0o755
	}
	from, err := os.Open(self)
	if err != nil {
		tr.t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(tr.path(p), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		tr.t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		tr.t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) set(name, value string) { tr.env = append(tr.env, name+"="+value) }

// run runs the agent on the tree.
func (tr *tree) run(ctx context.Context, args ...string) (code int, output string) {
	tr.t.Helper()
	needRoot(tr.t)
	var b bytes.Buffer
	out := &locked{to: &b}
	code = Run(ctx, args, tr.env, out, out)
	return code, b.String()
}

func (tr *tree) stage(mode string, want int) string {
	tr.t.Helper()
	code, out := tr.run(context.Background(), mode, tr.dir, copyDir)
	if code != want {
		tr.t.Fatalf("%s: exit code %d, want %d\n%s", mode, code, want, out)
	}
	return out
}

func (tr *tree) interrupt(data string, want int) string {
	tr.t.Helper()
	code, out := tr.run(context.Background(), "interrupt", tr.dir, copyDir, base64.StdEncoding.EncodeToString([]byte(data)))
	if code != want {
		tr.t.Fatalf("interrupt %s: exit code %d, want %d\n%s", data, code, want, out)
	}
	return out
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("programs run with the tree as their root, which only root may do")
	}
}

func contains(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("output lacks %q:\n%s", w, out)
		}
	}
}
