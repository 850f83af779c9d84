package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nodewright/nodewright/cmd/agent/app"
)

const asAgent = "AGENT_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestSignals: the program ends by its own exit code, not by the signal.
func TestSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "nw"), 0o755); err != nil {
			t.Fatal(err)
		}
		lock, err := os.Create(filepath.Join(dir, "nw/tuning.lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lock.Close() }()
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "apply", dir, "/nw/copy")
		cmd.Env = append(os.Environ(), asAgent+"=1", "SKYHOOK_ROOT_DIR=/nw", "SKYHOOK_LOG_DIR=/log", "NODEWRIGHT_RUN=1",
			"SKYHOOK_RESOURCE_ID=nw-0c5a0e9a-1111-4222-8333-0123456789ab-1_tuning_1.0.0")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.Contains(line, "waiting for /nw/tuning.lock") {
			t.Errorf("it says %q, %v", line, err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != app.ExitTerminated {
			t.Errorf("%v: exit code %d, want %d", signal, got, app.ExitTerminated)
		}
	}
}
