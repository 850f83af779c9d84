package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodewright/nodewright/cmd/agent/config"
	"github.com/nodewright/nodewright/cmd/agent/host"
	"github.com/nodewright/nodewright/cmd/agent/process"
)

// steps counts how often each program came to its end.
type steps map[string]int

// disk knows what of the agent's changes a power cut would lose: data that was
// written and not synced, and names in a directory that was not.
type disk struct {
	tree  *tree
	dirty map[string]bool
	// renames by directory.
	renames map[string][]rename
}

// rename is one that its directory may forget, with what was there before.
type rename struct {
	to     string
	before []byte
	was    bool
}

func (d *disk) passed(c host.Change) {
	switch c.Call {
	case "write":
		d.dirty[c.Path] = true
	case "sync", "unlink":
		delete(d.dirty, c.Path)
	case "rename":
		before, err := os.ReadFile(d.tree.path(c.To))
		d.renames[path.Dir(c.To)] = append(d.renames[path.Dir(c.To)], rename{c.To, before, err == nil})
		if d.dirty[c.Path] {
			delete(d.dirty, c.Path)
			d.dirty[c.To] = true
		}
	case "syncdir":
		delete(d.renames, path.Clean(c.Path))
	case "syncfs":
		clear(d.dirty)
		clear(d.renames)
	}
}

// lose makes the tree what the disk has after a cut.
func (d *disk) lose() {
	for file := range d.dirty {
		_ = os.Truncate(d.tree.path(file), 0)
	}
	for _, renames := range d.renames {
		for _, r := range slices.Backward(renames) {
			_ = os.Remove(d.tree.path(r.to))
			if r.was {
				d.tree.file(r.to, string(r.before))
			}
		}
	}
}

// unsafe names what a cut would lose now.
func (d *disk) unsafe() string {
	if len(d.dirty) == 0 && len(d.renames) == 0 {
		return ""
	}
	return fmt.Sprint(d.dirty, d.renames)
}

// careless steps write to the host and do not sync, as scripts do. None may run
// while something before it could still be lost.
type careless struct {
	steps
	disk *disk
}

func (s careless) Run(_ context.Context, c *process.Command) (int, error) {
	if lost := s.disk.unsafe(); lost != "" {
		s.disk.tree.t.Errorf("%s runs while a power cut would lose %s", c.Program, lost)
	}
	name := path.Base(c.Program)
	s.steps[name]++
	if name != "look" {
		s.disk.tree.file(effect(name), "done")
		s.disk.dirty[effect(name)] = true
	}
	return 0, nil
}

// effect is what a step leaves on the host.
func effect(name string) string { return "/etc/" + name + ".done" }

// TestPowerCut ends the power before every system call of an apply that changes
// the disk, with a half-written file where that call is a write, and starts the
// agent again on a disk that has lost what was not synced: no step is skipped
// that did not run, no flag is half, and a step whose flag was set does not run
// twice.
func TestPowerCut(t *testing.T) {
	cut := errors.New("power cut")
	for n := 0; ; n++ {
		if n > 500 {
			t.Fatal("no end")
		}
		tr := newTree(t, nil, copyDir+"/root_dir/etc/a", copyDir+"/root_dir/etc/new/b", "/etc/a", copyDir+"/skyhook_dir/one", copyDir+"/skyhook_dir/two", copyDir+"/skyhook_dir/look")
		tr.config(map[string][]step{"apply": {newStep("one"), newStep("two")}, "apply-check": {newStep("look")}}, nil)
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
			disk := &disk{tree: tr, dirty: map[string]bool{}, renames: map[string][]rename{}}
			root.Gate = func(c host.Change) error {
				if limit >= 0 && calls >= limit {
					disk.lose()
					if c.Call == "write" {
						_ = os.WriteFile(tr.path(c.Path), []byte("ha"), 0o600)
					}
					return cut
				}
				calls++
				disk.passed(c)
				return nil
			}
			a := &agent{host: root, runner: careless{ran, disk}, env: env, copyDir: copyDir, now: time.Now, out: io.Discard, err: io.Discard}
			if err := a.stage(context.Background(), config.Apply); err != nil {
				return err
			}
			err = a.stage(context.Background(), config.Apply.Check())
			if lost := disk.unsafe(); err == nil && lost != "" {
				t.Errorf("the agent ended well, and a power cut would lose %s", lost)
			}
			return err
		}
		err = work(n)
		if err != nil && calls < n {
			t.Fatalf("cut %d: %v", n, err)
		}
		if got := tr.read("/etc/a"); got != "before" && got != "content" {
			t.Errorf("cut %d: the host has %q", n, got)
		}
		if got := tr.read("/etc/new/b"); got != "content" && !strings.Contains(got, "no such file") {
			t.Errorf("cut %d: the host has a new file with %q", n, got)
		}
		before := fmt.Sprint(ran)
		if err != nil {
			if err := work(-1); err != nil {
				t.Fatalf("after cut %d: %v", n, err)
			}
		}
		for _, name := range []string{"one", "two", "look"} {
			if ran[name] < 1 || ran[name] > 2 {
				t.Errorf("cut %d: ran %v before and %v after", n, before, ran)
			}
		}
		for _, name := range []string{"one", "two"} {
			if got := tr.read(effect(name)); got != "done" {
				t.Errorf("cut %d: the work of %s is lost, the host has %q", n, name, got)
			}
		}
		if got := tr.read("/etc/new/b"); got != "content" {
			t.Errorf("cut %d: the new file has %q in the end", n, got)
		}
		if left, _ := filepath.Glob(tr.path("/etc/.nodewright-*")); len(left) > 0 {
			t.Errorf("cut %d: left behind %q", n, left)
		}
		contains(t, tr.read("/var/lib/nw/history/tuning.json"), `"current-version":"1.0.0"`)
		if err == nil {
			break
		}
	}
}
