package host

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// DirMode is the mode of directories that are made.
	DirMode   fs.FileMode = 0o755
	chunk                 = 128 << 10
	labelName             = "security.selinux"
)

// WriteFile puts a file with the data in place of the one at path, whole or
// not at all. Links at path are followed. The directory must exist.
func (r *Root) WriteFile(path string, data []byte, mode fs.FileMode) error {
	return r.Replace(path, bytes.NewReader(data), mode)
}

// Replace is WriteFile with the contents of a reader. Owner and SELinux label
// of a file that was there stay.
func (r *Root) Replace(path string, from io.Reader, mode fs.FileMode) error {
	path, err := r.follow(path)
	if err != nil {
		return err
	}
	return r.swap(path, func(dir *os.File, temp, tempPath string) error {
		return r.fill(dir, temp, tempPath, path, from, mode)
	})
}

// Symlink puts a link in place of what is at path; of a directory it does not.
func (r *Root) Symlink(target, path string) error {
	return r.swap(path, func(dir *os.File, temp, tempPath string) error {
		if err := r.gate(Change{Call: "symlink", Path: tempPath}); err != nil {
			return err
		}
		return wrap("symlink", tempPath, unix.Symlinkat(target, int(dir.Fd()), temp))
	})
}

// swap makes something beside path and then renames it to path. The name that
// it is made under follows from path: what a power cut left there is replaced
// by the next try.
func (r *Root) swap(path string, build func(dir *os.File, temp, tempPath string) error) error {
	dir, base, err := r.parent(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	temp := tempName(base)
	parent, _ := split(path)
	tempPath := parent + "/" + temp
	if err := r.removeAll(dir, temp, tempPath); err != nil {
		return err
	}
	if err := build(dir, temp, tempPath); err != nil {
		_ = r.removeAll(dir, temp, tempPath)
		return err
	}
	if err := r.rename(dir, temp, tempPath, base, path); err != nil {
		_ = r.removeAll(dir, temp, tempPath)
		return err
	}
	return r.syncDir(dir, parent)
}

// tempName is a name that programs which read a directory of configuration
// pass over: it is hidden and ends in what none of them reads.
func tempName(base string) string {
	sum := sha256.Sum256([]byte(base))
	return ".nodewright-" + hex.EncodeToString(sum[:8]) + ".tmp"
}

func (r *Root) fill(dir *os.File, temp, tempPath, path string, from io.Reader, mode fs.FileMode) error {
	if err := r.gate(Change{Call: "create", Path: tempPath}); err != nil {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return wrap("create", tempPath, err)
	}
	f := os.NewFile(uintptr(fd), tempPath)
	defer func() { _ = f.Close() }()
	if _, err := io.CopyBuffer(gated{r, f, tempPath}, plain{from}, make([]byte, chunk)); err != nil {
		return err
	}
	if err := r.takeOver(f, tempPath, path); err != nil {
		return err
	}
	if err := r.gate(Change{Call: "chmod", Path: tempPath}); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := r.gate(Change{Call: "sync", Path: tempPath}); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// plain hides all but Read, and gated all but Write, so that each chunk passes
// the gate.
type plain struct{ io.Reader }

type gated struct {
	root *Root
	file *os.File
	path string
}

func (g gated) Write(p []byte) (int, error) {
	if err := g.root.gate(Change{Call: "write", Path: g.path}); err != nil {
		return 0, err
	}
	return g.file.Write(p)
}

// takeOver gives the new file the owner and the label of the one that it
// replaces. Programs that a host cannot start without read files by label.
func (r *Root) takeOver(f *os.File, tempPath, path string) error {
	old, err := r.open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ENXIO):
		// What is read from a socket is no file.
		return &fs.PathError{Op: "replace", Path: path, Err: errors.New("is not a regular file")}
	case err != nil:
		return err
	}
	defer func() { _ = old.Close() }()
	var stat unix.Stat_t
	if err := unix.Fstat(int(old.Fd()), &stat); err != nil {
		return wrap("stat", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return &fs.PathError{Op: "replace", Path: path, Err: errors.New("is not a regular file")}
	}
	if int(stat.Uid) != os.Geteuid() || int(stat.Gid) != os.Getegid() {
		if err := r.gate(Change{Call: "chown", Path: tempPath}); err != nil {
			return err
		}
		if err := f.Chown(int(stat.Uid), int(stat.Gid)); err != nil {
			return err
		}
	}
	label := make([]byte, 1024)
	n, err := unix.Fgetxattr(int(old.Fd()), labelName, label)
	if err != nil || n == 0 {
		// No label, or a file system without them.
		return nil
	}
	if err := r.gate(Change{Call: "setxattr", Path: tempPath}); err != nil {
		return err
	}
	return wrap("setxattr", tempPath, unix.Fsetxattr(int(f.Fd()), labelName, label[:n], 0))
}

// MkdirAll makes a directory and those above it. The path must not hold "..".
func (r *Root) MkdirAll(path string) error {
	f, err := r.open(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent, _ := split(path)
	if err := r.MkdirAll(parent); err != nil {
		return err
	}
	dir, base, err := r.parent(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := r.gate(Change{Call: "mkdir", Path: path}); err != nil {
		return err
	}
	if err := unix.Mkdirat(int(dir.Fd()), base, uint32(DirMode)); err != nil && !errors.Is(err, fs.ErrExist) {
		return wrap("mkdir", path, err)
	}
	return r.syncDir(dir, parent)
}

// Chmod sets the mode of a file; links are followed.
func (r *Root) Chmod(path string, mode fs.FileMode) error {
	f, err := r.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := r.gate(Change{Call: "chmod", Path: path}); err != nil {
		return err
	}
	return f.Chmod(mode)
}

// Rename moves a file to a name in the same directory, over what is there.
func (r *Root) Rename(path, base string) error {
	dir, from, err := r.parent(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	parent, _ := split(path)
	if err := r.rename(dir, from, path, base, parent+"/"+base); err != nil {
		return err
	}
	return r.syncDir(dir, parent)
}

// Append creates a file that must not exist, to append to.
func (r *Root) Append(path string) (*os.File, error) {
	if err := r.gate(Change{Call: "create", Path: path}); err != nil {
		return nil, err
	}
	return r.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_APPEND, 0o644)
}

func (r *Root) rename(dir *os.File, from, fromPath, to, toPath string) error {
	if err := r.gate(Change{Call: "rename", Path: fromPath, To: toPath}); err != nil {
		return err
	}
	return wrap("rename", toPath, unix.Renameat(int(dir.Fd()), from, int(dir.Fd()), to))
}

func (r *Root) syncDir(dir *os.File, path string) error {
	if err := r.gate(Change{Call: "syncdir", Path: path}); err != nil {
		return err
	}
	return dir.Sync()
}

func wrap(call, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: call, Path: path, Err: err}
}
