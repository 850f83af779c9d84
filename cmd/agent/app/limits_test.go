package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const (
	maxSize  = 15 << 20
	maxStart = 20 * time.Millisecond
	maxSteps = time.Second
	// tries: the best one counts, since a machine may do other things as well.
	tries = 20
)

// TestLimits holds the size of the binary, its start, and a stage of three
// trivial steps against what is promised.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("links the agent")
	}
	binary := filepath.Join(t.TempDir(), "agent")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "github.com/nodewright/nodewright/cmd/agent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxSize {
		t.Errorf("the agent has %d bytes, at most %d are promised", info.Size(), maxSize)
	}
	start := best(t, func() *exec.Cmd { return exec.Command(binary, "done") })
	if start > maxStart {
		t.Errorf("the agent starts in %v at best, promised are %v", start, maxStart)
	}
	needRoot(t)
	tr := newTree(t, map[string][]step{"apply": {
		newStep("fail", "returncodes", []int{3}, "idempotence", true), newStep("say", "idempotence", true), newStep("sub/say", "idempotence", true),
	}})
	steps := best(t, func() *exec.Cmd {
		c := exec.Command(binary, "apply", tr.dir, copyDir)
		c.Env = tr.env
		return c
	})
	if steps > maxSteps {
		t.Errorf("three trivial steps take %v at best, promised are %v", steps, maxSteps)
	}
	t.Logf("size %d bytes (without symbols less), start %v, three steps %v", info.Size(), start, steps)
}

// best is the shortest time that the command takes from its start to its end.
func best(t *testing.T, command func() *exec.Cmd) time.Duration {
	t.Helper()
	shortest := time.Hour
	for range tries {
		c, began := command(), time.Now()
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c.Args, err, out)
		}
		shortest = min(shortest, time.Since(began))
	}
	return shortest
}
