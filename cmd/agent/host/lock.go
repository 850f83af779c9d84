package host

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Lock takes the lock at path and waits for it as long as the context lives.
// It is the process's until the file is closed, or until the process ends,
// however it ends; programs that it starts do not hold it. waiting is called
// if somebody else holds the lock.
func (r *Root) Lock(ctx context.Context, path string, waiting func()) (*os.File, error) {
	for {
		f, err := r.lock(ctx, path, waiting)
		if err != nil {
			return nil, err
		}
		there, err := r.same(f, path)
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		if there {
			return f, nil
		}
		// Somebody removed the file meanwhile: the next one makes it anew, and
		// would not meet this lock.
		_ = f.Close()
	}
}

// same tells whether the file is the one at path.
func (r *Root) same(f *os.File, path string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := r.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}

func (r *Root) lock(ctx context.Context, path string, waiting func()) (*os.File, error) {
	if err := r.gate(Change{Call: "lock", Path: path}); err != nil {
		return nil, err
	}
	f, err := r.open(path, unix.O_RDWR|unix.O_CREAT, 0o600)
	if err != nil {
		return nil, err
	}
	fd := int(f.Fd())
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		_ = f.Close()
		return nil, wrap("lock", path, err)
	}
	waiting()
	taken := make(chan error, 1)
	go func() {
		// Signals that the runtime itself uses interrupt the call.
		err := unix.EINTR
		for errors.Is(err, unix.EINTR) {
			err = errnoOf(unix.Flock(fd, unix.LOCK_EX))
		}
		if err != 0 {
			taken <- err
			return
		}
		taken <- nil
	}()
	select {
	case err := <-taken:
		if err != nil {
			_ = f.Close()
			return nil, wrap("lock", path, err)
		}
		return f, nil
	case <-ctx.Done():
		// The file stays open for the call that still waits; the process ends.
		return nil, ctx.Err()
	}
}

func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return 0
}
