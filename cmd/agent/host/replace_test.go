package host

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// calls gives the system calls that change the disk while do runs.
func calls(r *Root, do func() error) (calls []string, err error) {
	r.Gate = func(c Change) error {
		calls = append(calls, c.Call)
		return nil
	}
	defer func() { r.Gate = nil }()
	return calls, do()
}

// TestReplaceKeepsOwnerAndLabel: a file of another user that root replaces would
// otherwise not be that user's any more.
func TestReplaceKeepsOwnerAndLabel(t *testing.T) {
	r, dir := tree(t, map[string]string{"a": "old"})
	path := filepath.Join(dir, "a")
	if err := os.Chown(path, 12, 34); errors.Is(err, unix.EPERM) {
		t.Skip("only root gives files to others")
	} else if err != nil {
		t.Fatal(err)
	}
	const label = "system_u:object_r:etc_t:s0"
	labelled := unix.Setxattr(path, labelName, []byte(label), 0) == nil
	got, err := calls(r, func() error { return r.WriteFile("/a", []byte("new"), 0o4750) })
	if err != nil {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil || stat.Uid != 12 || stat.Gid != 34 || stat.Mode&0o7777 != 0o750 {
		t.Errorf("owner %d:%d, mode %o, %v; want 12:34, 0750", stat.Uid, stat.Gid, stat.Mode, err)
	}
	want := []string{"create", "write", "chown", "chmod", "sync", "rename", "syncdir"}
	if labelled {
		want = slices.Insert(want, 3, "setxattr")
		value := make([]byte, 100)
		if n, err := unix.Getxattr(path, labelName, value); err != nil || string(value[:n]) != label {
			t.Errorf("label %q, %v, want %q", value[:max(n, 0)], err, label)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("system calls %q, want %q", got, want)
	}
}

// TestReplaceKeepsGroup: each of the two counts by itself.
func TestReplaceKeepsGroup(t *testing.T) {
	for _, owner := range [][2]int{{os.Geteuid(), 34}, {12, os.Getegid()}} {
		r, dir := tree(t, map[string]string{"a": "old"})
		if err := os.Chown(filepath.Join(dir, "a"), owner[0], owner[1]); errors.Is(err, unix.EPERM) {
			t.Skip("only root gives files to others")
		} else if err != nil {
			t.Fatal(err)
		}
		if err := r.WriteFile("/a", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		var stat unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, "a"), &stat); err != nil || int(stat.Uid) != owner[0] || int(stat.Gid) != owner[1] {
			t.Errorf("owner %d:%d, %v; want %v", stat.Uid, stat.Gid, err, owner)
		}
	}
}

func TestReplaceTakesOtherKindsForWhatTheyAre(t *testing.T) {
	r, dir := tree(t, map[string]string{"d/x": ""})
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	for _, path := range []string{"/fifo", "/d", "/socket"} {
		if err := r.WriteFile(path, []byte("x"), 0o644); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s was replaced, or the reason is not said: %v", path, err)
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "fifo")); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("the pipe became %v, %v", info.Mode(), err)
	}
}

// TestWhatACutLeft: the next try begins with a clean name, whatever has it.
func TestWhatACutLeft(t *testing.T) {
	temp := tempName("a")
	for kind, files := range map[string]map[string]string{
		"file": {temp: "half"}, "link": {temp: "->etc/keep"}, "directory": {temp + "/x": ""},
	} {
		files["etc/keep"] = "keep"
		r, dir := tree(t, files)
		if err := r.WriteFile("/a", []byte("new"), 0o644); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(data) != "new" {
			t.Errorf("%s: a has %q, %v", kind, data, err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "etc/keep")); err != nil || string(data) != "keep" {
			t.Errorf("%s: etc/keep has %q, %v", kind, data, err)
		}
		if left := temps(t, dir); len(left) > 0 {
			t.Errorf("%s: left behind %q", kind, left)
		}
	}
}

// TestCopyTreeModes: new directories are as closed as those of the package,
// those of the host stay as they are.
func TestCopyTreeModes(t *testing.T) {
	r, dir := tree(t, map[string]string{"pkg/secrets/key": "", "pkg/tmp/x": "", "pkg/shared/x": "", "pkg/linked/x": "", "tmp/y": "",
		"linked": "->there"})
	modes := map[string]fs.FileMode{
		"pkg/secrets": 0o700, "pkg/secrets/key": 0o400, "pkg/shared": 0o777 | fs.ModeSetgid | fs.ModeSticky, "pkg/tmp": 0o700,
		"tmp": 0o777 | fs.ModeSticky, "pkg/linked": 0o750,
	}
	for file, mode := range modes {
		if err := os.Chmod(filepath.Join(dir, file), mode); err != nil {
			t.Fatal(err)
		}
	}
	before := r.Dir()
	got, err := calls(r, func() error { return r.CopyTree("/pkg/secrets", "/secrets") })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"mkdir", "chmod", "rename", "syncdir", "create", "chmod", "sync", "rename", "syncdir"}; !slices.Equal(got, want) {
		t.Errorf("system calls %q, want %q", got, want)
	}
	if err := r.CopyTree("/pkg", "/"); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]fs.FileMode{
		"secrets": modes["pkg/secrets"], "secrets/key": 0o400, "shared": modes["pkg/shared"], "tmp": modes["tmp"], "there": 0o750,
	} {
		if info, err := os.Stat(filepath.Join(before, file)); err != nil || info.Mode()&^fs.ModeDir != want {
			t.Errorf("%s: %v, %v, want %v", file, info, err, want)
		}
	}
	if target, err := os.Readlink(filepath.Join(dir, "linked")); err != nil || target != "there" {
		t.Errorf("the link of the host became %q, %v", target, err)
	}
}

func TestCopyTreeRefusesDevices(t *testing.T) {
	r, dir := tree(t, map[string]string{"pkg/x": ""})
	if err := unix.Mkfifo(filepath.Join(dir, "pkg/fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := r.CopyTree("/pkg", "/")
	if err == nil || err.Error() != "copy /pkg/fifo to /fifo: only files, directories and links are copied" {
		t.Errorf("a pipe was copied: %v", err)
	}
}

// TestLinksThatLeadNowhere are copied as they are: what they lead to may come.
func TestLinksThatLeadNowhere(t *testing.T) {
	links := map[string]string{"loop": "loop", "gone": "missing/x", "file": "f/x", "long": strings.Repeat("a", 300)}
	files := map[string]string{"pkg/f": ""}
	for name, target := range links {
		files["pkg/"+name] = "->" + target
	}
	r, dir := tree(t, files)
	if err := r.CopyTree("/pkg", "/"); err != nil {
		t.Fatal(err)
	}
	for name, want := range links {
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != want {
			t.Errorf("%s: %q, %v, want %q", name, target, err, want)
		}
	}
}

// TestWhatCannotBeCopied: the error names the file and its place, not only that
// which the file is written to first.
func TestWhatCannotBeCopied(t *testing.T) {
	for _, tc := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"pkg/etc/x": "", "etc": ""}, "copy /pkg/etc to /etc: "},
		{map[string]string{"pkg/etc/x": "", "etc/x/y": ""}, "copy /pkg/etc/x to /etc/x: "},
		{map[string]string{"pkg/etc/x": "->/etc/z", "etc/x/y": ""}, "copy /pkg/etc/x to /etc/x: "},
	} {
		r, dir := tree(t, tc.files)
		err := r.CopyTree("/pkg", "/")
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Count(err.Error(), "copy") != 1 {
			t.Errorf("%v: error %v, want %s", tc.files, err, tc.want)
		}
		if left := temps(t, dir); len(left) > 0 {
			t.Errorf("%v: left behind %q", tc.files, left)
		}
	}
}
