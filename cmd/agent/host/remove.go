package host

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Remove removes a file or a link; what is not there is no error.
func (r *Root) Remove(path string) error {
	err := r.removeFrom(path, func(dir *os.File, base string) error { return r.unlink(dir, base, path, 0) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// RemoveAll removes what is at path and below it. Links are removed, never
// followed. What is not there is no error, also if another program removes it
// meanwhile.
func (r *Root) RemoveAll(path string) error {
	return r.removeFrom(path, func(dir *os.File, base string) error { return r.removeAll(dir, base, path) })
}

// removeFrom opens the directory that path is in, if there is one, and makes what
// remove does there last.
func (r *Root) removeFrom(path string, remove func(dir *os.File, base string) error) error {
	dir, base, err := r.parent(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := remove(dir, base); err != nil {
		return err
	}
	parent, _ := split(path)
	return r.syncDir(dir, parent)
}

func (r *Root) removeAll(dir *os.File, base, path string) error {
	err := r.unlink(dir, base, path, 0)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return wrap("open", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	entries, err := readDir(f)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := r.removeAll(f, e.Name(), path+"/"+e.Name()); err != nil {
			return err
		}
	}
	if err := r.unlink(dir, base, path, unix.AT_REMOVEDIR); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (r *Root) unlink(dir *os.File, base, path string, flags int) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), base, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return wrap("unlink", path, err)
	}
	if err := r.gate(Change{Call: "unlink", Path: path}); err != nil {
		return err
	}
	return wrap("unlink", path, unix.Unlinkat(int(dir.Fd()), base, flags))
}

func readDir(f *os.File) ([]fs.DirEntry, error) {
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}
