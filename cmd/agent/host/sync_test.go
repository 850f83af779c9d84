package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// mount puts an empty file system of its own at dir.
func mount(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")
	if errors.Is(err, unix.EPERM) {
		t.Skip("only root mounts a second file system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// synced gives the paths that Sync writes back.
func synced(t *testing.T, r *Root, paths ...string) (found []string) {
	t.Helper()
	r.Gate = func(c Change) error {
		if c.Call != "syncfs" {
			t.Errorf("%s of %s: nothing but syncfs is meant", c.Call, c.Path)
		}
		found = append(found, c.Path)
		return nil
	}
	if err := r.Sync(paths...); err != nil {
		t.Error(err)
	}
	return found
}

func TestSyncOfOneFileSystem(t *testing.T) {
	// /opt is no directory, /usr leads nowhere, /boot to itself.
	r, _ := tree(t, map[string]string{"etc/x": "", "var/lib/x": "", "opt": "", "usr": "->missing", "boot": "->boot"})
	if got := synced(t, r, "/var/lib", "/missing/record", "/opt"); !slices.Equal(got, []string{"/"}) {
		t.Errorf("synced %q, want the one file system once", got)
	}
	if err := r.Sync("/boot"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("the record cannot be reached: %v", err)
	}
	cut := errors.New("cut")
	r.Gate = func(Change) error { return cut }
	if err := r.Sync(); !errors.Is(err, cut) {
		t.Errorf("sync that failed: %v", err)
	}
}

func TestSyncOfSeveralFileSystems(t *testing.T) {
	r, dir := tree(t, map[string]string{"etc/x": "", "usr": "->data/usr"})
	for _, at := range []string{"boot", "data", "records", "elsewhere"} {
		mount(t, filepath.Join(dir, at))
	}
	if err := os.MkdirAll(filepath.Join(dir, "data/usr"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := []string{"/", "/boot", "/usr", "/records"}
	if got := synced(t, r, "/records"); !slices.Equal(got, want) {
		t.Errorf("synced %q, want %q: where packages write, and nothing else", got, want)
	}
	// As on a file system of a network, which nobody here can mount.
	passedOver[unix.TMPFS_MAGIC] = true
	defer delete(passedOver, unix.TMPFS_MAGIC)
	if got := synced(t, r, "/records"); !slices.Equal(got, want[:1]) {
		t.Errorf("synced %q, want local file systems only", got)
	}
}
