package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tree makes a host with the given files; a value that begins with "->" is a
// link. Beside it is a file that no path may reach.
func tree(t *testing.T, files map[string]string) (*Root, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "host")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "..", "outside"), []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(content, "->"); link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, dir
}

func TestNothingOutsideIsReached(t *testing.T) {
	r, dir := tree(t, map[string]string{
		"etc/up": "->../../outside", "etc/more": "->../../../../../../outside", "etc/abs": "->/../outside",
		"etc/dir": "->../..", "run/keep": "", "var/run": "->/run",
	})
	outside, err := filepath.Abs(filepath.Join(dir, "..", "outside"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/../outside", "../outside", "/etc/up", "/etc/more", "/etc/abs", "/etc/dir/outside", outside} {
		if _, err := r.ReadFile(path, 100); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("read %s: %v", path, err)
		}
		if err := r.WriteFile(path, []byte("bad"), 0o644); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("write %s: %v", path, err)
		}
		if err := r.RemoveAll(path); err != nil {
			t.Errorf("remove %s: %v", path, err)
		}
		if err := r.Remove("/outside"); err != nil {
			t.Error(err)
		}
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "outside" {
		t.Errorf("outside: %q, %v", data, err)
	}
	// Links of the host lead where the host would go.
	if err := r.WriteFile("/var/run/x", []byte("in"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "run/x")); err != nil || string(data) != "in" {
		t.Errorf("run/x: %q, %v", data, err)
	}
}

func TestWriteFile(t *testing.T) {
	r, dir := tree(t, map[string]string{"a": "old", "link": "->a", "d/x": "", "loop": "->loop", "new": "->d/fresh"})
	for path, file := range map[string]string{"a": "a", "link": "a", "/new": "d/fresh"} {
		if err := r.WriteFile(path, []byte(path), 0o640); err != nil {
			t.Errorf("write %s: %v", path, err)
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || string(data) != path {
			t.Errorf("%s: %q, %v", file, data, err)
		}
		if info, err := os.Lstat(filepath.Join(dir, file)); err != nil || info.Mode() != 0o640 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if target, err := os.Readlink(filepath.Join(dir, "link")); err != nil || target != "a" {
		t.Errorf("the link of the host became %q, %v", target, err)
	}
	for _, path := range []string{"d", "loop", "", "/", "..", "d/..", "missing/x", "a/x"} {
		if err := r.WriteFile(path, nil, 0o644); err == nil {
			t.Errorf("write %q: no error", path)
		}
	}
	if left := temps(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func temps(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".tmp") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestWriteFileCut ends the power before every system call: the file has the
// old or the new content, never a part, and the next try works.
func TestWriteFileCut(t *testing.T) {
	cut := errors.New("cut")
	calls := 0
	for n := 0; ; n++ {
		r, dir := tree(t, map[string]string{"a": "old"})
		calls = 0
		r.Gate = func(c Change) error {
			if calls >= n {
				if c.Call == "write" {
					_ = os.WriteFile(filepath.Join(dir, c.Path), []byte("ne"), 0o600)
				}
				return cut
			}
			calls++
			return nil
		}
		err := r.WriteFile("/a", []byte("new"), 0o644)
		data, readErr := os.ReadFile(filepath.Join(dir, "a"))
		if readErr != nil || string(data) != "old" && string(data) != "new" {
			t.Errorf("cut %d: file has %q, %v", n, data, readErr)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, cut) {
			t.Fatalf("cut %d: %v", n, err)
		}
		r.Gate = nil
		if err := r.WriteFile("/a", []byte("new"), 0o644); err != nil {
			t.Errorf("after cut %d: %v", n, err)
		}
		if left := temps(t, dir); len(left) > 0 {
			t.Errorf("after cut %d: left behind %v", n, left)
		}
	}
	// create, write, chmod, sync, rename, syncdir
	if calls != 6 {
		t.Errorf("%d system calls change the disk, want 6", calls)
	}
}

func TestCopyTree(t *testing.T) {
	r, dir := tree(t, map[string]string{
		"pkg/root_dir/etc/a.conf":    "new",
		"pkg/root_dir/etc/same":      "->a.conf",
		"pkg/root_dir/etc/unit":      "->/lib/unit",
		"pkg/root_dir/etc/folder":    "->../opt",
		"pkg/root_dir/opt/tool":      "tool",
		"pkg/root_dir/var/run/x":     "x",
		"pkg/root_dir/etc/resolv":    "resolv",
		"pkg/root_dir/escape/passwd": "bad",
		"etc/a.conf":                 "old", "run/keep": "", "var/run": "->/run", "etc/resolv": "->../run/resolv",
		"etc/keep": "keep", "escape": "->../..",
	})
	if err := os.Chmod(filepath.Join(dir, "pkg/root_dir/opt/tool"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := r.CopyTree("/pkg/root_dir", "/"); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"etc/a.conf": "new", "etc/same": "new", "opt/tool": "tool", "run/x": "x", "run/resolv": "resolv", "etc/keep": "keep",
		"passwd": "bad",
	} {
		if data, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v, want %q", file, data, err, want)
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "etc/same")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("etc/same: %v, %v, want a file", info.Mode(), err)
	}
	for link, want := range map[string]string{"etc/unit": "/lib/unit", "etc/folder": "../opt", "var/run": "/run", "etc/resolv": "../run/resolv"} {
		if target, err := os.Readlink(filepath.Join(dir, link)); err != nil || target != want {
			t.Errorf("%s: %q, %v, want %q", link, target, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "opt/tool")); err != nil || info.Mode() != 0o750 {
		t.Errorf("opt/tool: %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "..")); err != nil || len(entries) != 2 {
		t.Errorf("beside the host: %v, %v", entries, err)
	}
}

func TestRemoveAllFollowsNoLink(t *testing.T) {
	r, dir := tree(t, map[string]string{"d/link": "->/keep", "d/deep/x": "", "keep/x": "", "other": "->/keep"})
	for _, path := range []string{"/d", "/other", "/missing", "/missing/x"} {
		if err := r.RemoveAll(path); err != nil {
			t.Errorf("remove %s: %v", path, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "keep/x")); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestLock(t *testing.T) {
	r, _ := tree(t, nil)
	first, err := r.Lock(context.Background(), "/lock", func() { t.Error("waits for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := r.Lock(ctx, "/lock", cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("lock that is held: %v", err)
	}
	second, err := r.Lock(context.Background(), "/other", func() { t.Error("waits for another lock") })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	waits, got := make(chan struct{}), make(chan error, 1)
	r3, err := Open(r.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r3.Close() }()
	go func() {
		f, err := r3.Lock(context.Background(), "/other", func() { close(waits) })
		if err == nil {
			err = f.Close()
		}
		got <- err
	}()
	<-waits
	_ = second.Close()
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the lock is free, and is not taken")
	}
	_ = first.Close()
}
