package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"testing"
	"time"

	"github.com/nodewright/nodewright/cmd/agent/config"
	"github.com/nodewright/nodewright/cmd/agent/host"
	"github.com/nodewright/nodewright/cmd/agent/process"
)

// steps counts how often each program came to its end.
type steps map[string]int

func (s steps) Run(_ context.Context, c *process.Command) (int, error) {
	s[path.Base(c.Program)]++
	return 0, nil
}

// TestPowerCut ends the power before every system call of an apply that changes
// the disk, with a half-written file where that call is a write, and starts the
// agent again: no step is skipped that did not run, no flag is half, and a step
// whose flag was set does not run twice.
func TestPowerCut(t *testing.T) {
	cut := errors.New("power cut")
	for n := 0; ; n++ {
		if n > 500 {
			t.Fatal("no end")
		}
		tr := newTree(t, nil, copyDir+"/root_dir/etc/a", "/etc/a", copyDir+"/skyhook_dir/one", copyDir+"/skyhook_dir/two")
		tr.config(map[string][]step{"apply": {newStep("one"), newStep("two")}, "apply-check": {newStep("one")}}, nil)
		tr.file("/etc/a", "before")
		env, err := parseEnvironment(tr.env)
		if err != nil {
			t.Fatal(err)
		}
		ran, calls := steps{}, 0
		work := func(limit int) error {
			root, err := host.Open(tr.dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = root.Close() }()
			root.Gate = func(c host.Change) error {
				if limit >= 0 && calls >= limit {
					if c.Call == "write" {
						_ = os.WriteFile(tr.path(c.Path), []byte("ha"), 0o600)
					}
					return cut
				}
				calls++
				return nil
			}
			a := &agent{host: root, runner: ran, env: env, copyDir: copyDir, now: time.Now, out: io.Discard, err: io.Discard}
			if err := a.stage(context.Background(), config.Apply); err != nil {
				return err
			}
			return a.stage(context.Background(), config.Apply.Check())
		}
		err = work(n)
		if err != nil && !errors.Is(err, cut) {
			t.Fatalf("cut %d: %v", n, err)
		}
		if got := tr.read("/etc/a"); got != "before" && got != "content" {
			t.Errorf("cut %d: the host has %q", n, got)
		}
		before := fmt.Sprint(ran)
		if err != nil {
			if err := work(-1); err != nil {
				t.Fatalf("after cut %d: %v", n, err)
			}
		}
		// one also runs in the check, once or twice.
		if ran["two"] < 1 || ran["two"] > 2 || ran["one"] < 2 || ran["one"] > 4 {
			t.Errorf("cut %d: ran %v before and %v after", n, before, ran)
		}
		contains(t, tr.read("/var/lib/nw/history/tuning.json"), `"current-version":"1.0.0"`)
		if err == nil {
			break
		}
	}
}
