package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// lockPoll is how often a run that waits for another one looks again.
const lockPoll = 200 * time.Millisecond

// lock takes the lock file at path and returns the function that gives it back. It belongs to the open file: the kernel drops it
// when the process ends, however that happens, so a lock is never stale.
func lock(ctx context.Context, path string, out io.Writer) (func(), error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for waiting := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			// Closing the file gives the lock back.
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		if !waiting {
			waiting = true
			_, _ = fmt.Fprintf(out, "assets: waiting for another run that holds %s\n", path)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, context.Cause(ctx)), file.Close())
		case <-ticker.C:
		}
	}
}
