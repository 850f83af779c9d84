package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/cmd/devcluster/assets"
)

// helperVariable makes the test binary the parent that a test kills.
const helperVariable = "NODEWRIGHT_TEST_CONTROLPLANE_PARENT"

// shared is the control plane of the tests that only use one.
var (
	shared       *ControlPlane
	sharedClient kubernetes.Interface
)

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	if dir := os.Getenv(helperVariable); dir != "" {
		os.Exit(runHelper(dir))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	began := time.Now()
	cp, err := Start(ctx, Options{
		Assets:            assets.Options{Out: os.Stderr},
		ControllerManager: true, Kwok: true, Audit: true, PodDuration: 100 * time.Millisecond,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintf(os.Stderr, "control plane ready after %s\n", time.Since(began).Round(time.Millisecond))
	defer func() {
		if err := cp.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	shared = cp
	if sharedClient, err = kubernetes.NewForConfig(cp.Config()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// runHelper starts a control plane, says so and waits to be killed.
func runHelper(dir string) int {
	cp, err := Start(context.Background(), Options{Dir: dir, ControllerManager: true, Kwok: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := cp.Run(Command{Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", "sleep 1000 & wait"}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(cp.Pids()); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // ends only if the test forgets to kill
	return 2
}

func eventually(t *testing.T, within time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// processesIn returns the command lines of processes that mention text, from the process table of Linux.
func processesIn(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil && bytes.Contains(content, []byte(text)) {
			found = append(found, file+": "+strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return found
}

func checkNothingLeft(t *testing.T, dir string, pids map[string]int) {
	t.Helper()
	eventually(t, 10*time.Second, "nothing is left", func() error {
		var errs []error
		for name, pid := range pids {
			if alive(pid) {
				errs = append(errs, fmt.Errorf("%s (%d) runs", name, pid))
			}
		}
		for _, line := range processesIn(t, dir) {
			errs = append(errs, fmt.Errorf("process table: %s", line))
		}
		entries, err := os.ReadDir(dir)
		for _, entry := range entries {
			errs = append(errs, fmt.Errorf("file %s", entry.Name()))
		}
		return errors.Join(append(errs, err)...)
	})
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cp, err := Start(t.Context(), Options{Dir: dir, ControllerManager: true, Kwok: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := cp.Run(Command{Name: "sleeper", Path: "/bin/sleep", Args: []string{"1000"}})
	if err != nil {
		t.Fatal(err)
	}
	pids := cp.Pids()
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kwok", "sleeper"} {
		if pids[name] == 0 {
			t.Errorf("no process of %s in %v", name, pids)
		}
	}
	if pids["sleeper"] != p.Pid() {
		t.Errorf("the sleeper is %d, want %d", pids["sleeper"], p.Pid())
	}
	if err := cp.PauseKwok(); err != nil { // a paused process must end as well
		t.Error(err)
	}
	reservations := cp.guard.portReservations()
	if len(reservations) != 3 { // API server, etcd for clients, etcd for peers
		t.Errorf("envtest reserved %q, want three ports", reservations)
	}
	for _, file := range reservations {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("not a reservation: %v", err)
		}
	}
	if err := cp.Stop(); err != nil {
		t.Error(err)
	}
	checkNothingLeft(t, dir, pids)
	for _, file := range reservations {
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left, error %v", file, err)
		}
	}
	if err := cp.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestKilledParentLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), helperVariable+"="+dir)
	parent.Stderr = os.Stderr
	stdin, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pids map[string]int
	decodeErr := json.NewDecoder(stdout).Decode(&pids)
	if err := parent.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the parent was not killed: %v", err)
	}
	// First of all: the end of the test removes the directory, and with it what the guard goes by.
	checkNothingLeft(t, dir, pids)
	if decodeErr != nil || len(pids) != 5 {
		t.Errorf("the parent ran %v, error %v", pids, decodeErr)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	cases := map[string]struct {
		change    func(o *Options)
		wantError string
	}{
		"API server refuses its flags": {
			func(o *Options) { o.APIServerArgs = map[string]string{"no-such-flag": "1"} }, "unknown flag: --no-such-flag"},
		"controller manager refuses its flags": {
			func(o *Options) { o.ControllerManagerArgs = map[string]string{"no-such-flag": "1"} }, "unknown flag: --no-such-flag"},
		"directory of definitions is missing": {
			func(o *Options) { o.CRDDirs = []string{"/nowhere"} }, "/nowhere"},
		"time is over": {
			func(o *Options) { o.StartTimeout = time.Second }, "not ready within 1s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := Options{Dir: t.TempDir(), ControllerManager: true}
			tc.change(&opts)
			cp, err := Start(t.Context(), opts)
			if err == nil {
				t.Error(cp.Stop())
				t.Fatal("want an error")
			}
			if !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("the error does not say %q: %v", tc.wantError, err)
			}
			checkNothingLeft(t, opts.Dir, nil)
		})
	}
}

func kubernetesFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
