package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links in a row are followed, as Linux does.
const maxLinks = 40

// Change is one system call that changes the disk.
type Change struct {
	// Call is its name, as "write" or "rename".
	Call string
	// Path on the host; of a rename, the path before it.
	Path string
	// To is the path after a rename.
	To string
}

// Root is the file system of a host. Paths are those that the host itself
// would use; they begin at its root with or without a leading slash.
type Root struct {
	dir  string
	file *os.File
	// Gate, where set, is asked before each change. Its error is the change's,
	// which then does not happen. Tests cut the power with it.
	Gate func(Change) error
}

// Open gives the host whose root is mounted at dir.
func Open(dir string) (*Root, error) {
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open root of the host: %w", err)
	}
	r := &Root{dir: dir, file: f}
	switch _, err := r.Stat("/"); {
	case errors.Is(err, unix.ENOSYS):
		_ = f.Close()
		return nil, fmt.Errorf("open root of the host: the kernel has no openat2, which Linux has since 5.6: %w", err)
	case err != nil:
		_ = f.Close()
		return nil, err
	}
	return r, nil
}

// Dir is where the root of the host is mounted.
func (r *Root) Dir() string { return r.dir }

// Close gives the root back.
func (r *Root) Close() error { return r.file.Close() }

func (r *Root) gate(c Change) error {
	if r.Gate == nil {
		return nil
	}
	if err := r.Gate(c); err != nil {
		return &fs.PathError{Op: c.Call, Path: c.Path, Err: err}
	}
	return nil
}

func (r *Root) open(path string, flags int, mode uint32) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Mode:    uint64(mode),
		Resolve: unix.RESOLVE_IN_ROOT,
	}
	if path == "" {
		path = "/"
	}
	for {
		fd, err := unix.Openat2(int(r.file.Fd()), path, &how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			// EAGAIN says that something was renamed below ".." meanwhile.
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// Open opens a file for reading.
func (r *Root) Open(path string) (*os.File, error) {
	return r.open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
}

// Stat follows links; Lstat does not follow the last one.
func (r *Root) Stat(path string) (fs.FileInfo, error) { return r.stat(path, 0) }

// Lstat is as Stat, but says what a link itself is.
func (r *Root) Lstat(path string) (fs.FileInfo, error) { return r.stat(path, unix.O_NOFOLLOW) }

func (r *Root) stat(path string, flags int) (fs.FileInfo, error) {
	f, err := r.open(path, unix.O_PATH|flags, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return f.Stat()
}

// ReadFile reads a regular file of at most limit bytes.
func (r *Root) ReadFile(path string, limit int64) ([]byte, error) {
	f, err := r.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("is not a regular file")}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("has more than %d bytes", limit)}
	}
	return data, nil
}

// ReadDir lists a directory by name.
func (r *Root) ReadDir(path string) ([]fs.DirEntry, error) {
	f, err := r.open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return readDir(f)
}

// Readlink gives the target of a link as it is written there.
func (r *Root) Readlink(path string) (string, error) {
	f, err := r.open(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(f.Fd()), "", buffer)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: path, Err: err}
	}
	return string(buffer[:n]), nil
}

// follow gives the path that the link at path leads to in the end, or path if
// it is none. What it gives may hold ".." and must not be shortened: the
// kernel resolves it.
func (r *Root) follow(path string) (string, error) {
	for range maxLinks {
		target, err := r.Readlink(path)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return path, nil
		case err != nil:
			return "", err
		case strings.HasPrefix(target, "/"):
			path = target
		default:
			dir, _ := split(path)
			path = dir + "/" + target
		}
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// split gives the directory of a path, empty for the root, and the last name.
func split(path string) (dir, base string) {
	path = strings.TrimRight(path, "/")
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// parent opens the directory that holds the last name of path.
func (r *Root) parent(path string) (dir *os.File, base string, err error) {
	parent, base := split(path)
	if base == "" || base == "." || base == ".." {
		return nil, "", &fs.PathError{Op: "open", Path: path, Err: errors.New("names no file")}
	}
	dir, err = r.open(parent, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	return dir, base, err
}
