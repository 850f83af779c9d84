package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodewright/nodewright/cmd/agent/host"
	"github.com/nodewright/nodewright/test/poll"
)

// patience is for a process on a busy machine.
const patience = 20 * time.Second

// machine is a host that is this machine, so that nothing needs root.
func machine(t *testing.T) *Host {
	t.Helper()
	r, err := host.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return &Host{Root: r}
}

func shell(script string, out, failed *bytes.Buffer) *Command {
	return &Command{Program: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=" + DefaultPath}, Dir: "/", Out: out, Err: failed}
}

func TestExitCodes(t *testing.T) {
	h := machine(t)
	for script, want := range map[string]int{"true": 0, "exit 7": 7, "kill -KILL $$": 137, "kill -TERM $$": 143} {
		var out, failed bytes.Buffer
		if code, err := h.Run(t.Context(), shell(script, &out, &failed)); code != want || err != nil {
			t.Errorf("%s: exit code %d, want %d (%v)", script, code, want, err)
		}
	}
	var out bytes.Buffer
	_, err := h.Run(t.Context(), &Command{Program: filepath.Join(t.TempDir(), "missing"), Dir: "/", Out: &out, Err: &out})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestWhyItDoesNotStart: the kernel says "no such file" of a script that is
// there.
func TestWhyItDoesNotStart(t *testing.T) {
	h := machine(t)
	dir := t.TempDir()
	for content, want := range map[string]string{
		"#!/no/such/python -u\n": `the interpreter "/no/such/python", which its first line names, is not on the host`,
		"#! /bin/sh\r\n":         `the interpreter "/bin/sh\r", which`,
		"#!" + dir + "/x":        `is not on the host`,
		"echo":                   "neither a binary for this kind of machine nor a script whose first line is as #!/bin/sh",
		"":                       "neither a binary",
		"\x7fELF":                "neither a binary",
	} {
		program := filepath.Join(dir, "step")
		if err := os.WriteFile(program, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		_, err := h.Run(t.Context(), &Command{Program: program, Dir: "/", Out: &out, Err: &out})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "step") > 1 {
			t.Errorf("%q: error %v lacks %q", content, err, want)
		}
	}
	program := filepath.Join(dir, "step")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(program, 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for at, want := range map[string]string{"/": "does not let it run", dir + "/gone": "the directory " + dir + "/gone that it starts in does not exist"} {
		if _, err := h.Run(t.Context(), &Command{Program: program, Dir: at, Out: &out, Err: &out}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("in %s: error %v lacks %q", at, err, want)
		}
	}
}

// TestMissingLoader runs a program of this machine where its loader is not.
func TestMissingLoader(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root changes the root of a program")
	}
	dir := t.TempDir()
	// The test itself is static.
	data, err := os.ReadFile("/bin/ls")
	if err != nil || !bytes.Contains(data[:min(len(data), 4096)], []byte("/ld-")) {
		t.Skipf("/bin/ls is not linked to a loader here: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "step"), data, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := host.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var out bytes.Buffer
	_, err = (&Host{Root: r}).Run(t.Context(), &Command{Program: "/step", Dir: "/", Out: &out, Err: &out})
	if err == nil || !strings.Contains(err.Error(), "the loader that it is linked for is not on the host") {
		t.Errorf("error: %v", err)
	}
}

// What a program left running may print for a moment, and is not waited for.
func TestLeftBehind(t *testing.T) {
	var out, failed bytes.Buffer
	begun := time.Now()
	code, err := machine(t).Run(t.Context(), shell("(sleep 0.3; echo late; exec sleep 600) & echo $! >&2; echo now", &out, &failed))
	if code != 0 || err != nil {
		t.Fatal(code, err)
	}
	if took := time.Since(begun); took > patience {
		t.Errorf("it waited %s for what was left running", took)
	}
	if out.String() != "now\nlate\n" {
		t.Errorf("it printed %q", out.String())
	}
	pid, err := strconv.Atoi(strings.TrimSpace(failed.String()))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("what it left running is gone: %v", err)
	}
}

// The end of the context reaches what the program started as well.
func TestSIGTERMReachesTheGroup(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	var out, failed bytes.Buffer
	script := fmt.Sprintf("sh -c 'trap \"echo child; exit\" TERM; : >%s/ready; while :; do sleep 0.1; done' & trap 'wait; echo parent; exit 5' TERM; wait", dir)
	code, err := machine(t).Run(ctx, shell(script, &out, &failed))
	if code != 5 || err != nil || out.String() != "child\nparent\n" {
		t.Errorf("exit code %d, %v, it printed %q %q", code, err, out.String(), failed.String())
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"plain/tool": 0o644, "first/tool": 0o755, "second/tool": 0o700} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "directory", "tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := machine(t)
	paths := func(names ...string) string {
		for i, name := range names {
			names[i] = filepath.Join(dir, name)
		}
		return "PATH=" + strings.Join(names, ":")
	}
	for name, tc := range map[string]struct {
		program string
		env     []string
		want    string
	}{
		"the first one":        {"tool", []string{paths("first", "second")}, dir + "/first/tool"},
		"in order":             {"tool", []string{paths("second", "first")}, dir + "/second/tool"},
		"not executable":       {"tool", []string{paths("plain", "first")}, dir + "/first/tool"},
		"a directory":          {"tool", []string{paths("directory", "first")}, dir + "/first/tool"},
		"the last PATH counts": {"tool", []string{paths("first"), paths("second")}, dir + "/second/tool"},
		"an empty PATH":        {"sh", []string{"PATH="}, "/bin/sh"},
		"no PATH":              {"sh", nil, "/bin/sh"},
		"a path":               {"./first/tool", nil, "./first/tool"},
		"nowhere":              {"tool", []string{paths("plain", "directory")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := h.find(&Command{Program: tc.program, Env: tc.env})
			if tc.want == "" {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("found %q, %v", got, err)
				}
				return
			}
			// The machine may have both as one directory.
			if err != nil || strings.TrimPrefix(got, "/usr") != tc.want {
				t.Errorf("found %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// The root of a host is no working directory.
func TestFindPassesRelativeEntriesOver(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := host.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for path, found := range map[string]bool{"/": true, ".": false, "": false, ":.:": false} {
		got, err := (&Host{Root: r}).find(&Command{Program: "tool", Env: []string{"PATH=/nowhere:" + path}})
		if (err == nil) != found {
			t.Errorf("PATH %q: found %q, %v", path, got, err)
		}
	}
}

// A program does not outlive an agent that is killed.
func TestProgramDiesWithTheAgent(t *testing.T) {
	const helper = "NODEWRIGHT_TEST_HELPER"
	if os.Getenv(helper) != "" {
		_, _ = machine(t).Run(t.Context(), &Command{
			Program: "/bin/sh", Args: []string{"-c", "echo $$; exec sleep 600"}, Dir: "/", Out: os.Stderr, Err: os.Stderr,
		})
		return
	}
	agent := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	agent.Env = append(os.Environ(), helper+"=1")
	said, err := agent.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanln(said, &pid); err != nil {
		t.Fatal(err)
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the program ended", patience, func() error {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(state, []byte(") Z ")) {
			return nil
		}
		return fmt.Errorf("it is there: %s", state)
	})
	_ = agent.Wait() // It was killed.
}
