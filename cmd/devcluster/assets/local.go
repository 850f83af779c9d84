package assets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// versionTimeout bounds how long a binary may take to print its version.
const versionTimeout = 30 * time.Second

// busyPoll is how often a binary that is still open for writing is tried again.
const busyPoll = 20 * time.Millisecond

// copyLocal copies the binary of c from dir, if it is there in the right version.
func copyLocal(ctx context.Context, dir string, c Component, target string) error {
	path := filepath.Join(dir, c.Name)
	if !executable(path) {
		return fmt.Errorf("%s is not there, or is no executable file", path)
	}
	if err := checkVersion(ctx, c, path); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open binary: %w", err)
	}
	defer func() { _ = file.Close() }()
	return writeBinary(file, target)
}

// checkVersion runs the binary at path and returns an error unless it calls itself c.Version. It is the last check for every
// source: it also finds a binary that does not run on this machine.
func checkVersion(ctx context.Context, c Component, path string) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	output, err := runBinary(ctx, path, c.versionArgs)
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w: %.200q", c.Name, err, output)
	}
	says := strings.Fields(string(output))
	if !slices.ContainsFunc(says, func(word string) bool { return strings.TrimPrefix(word, "v") == c.Version }) {
		return fmt.Errorf("want version %s, but %s says %.200q", c.Version, c.Name, output)
	}
	return nil
}

// runBinary runs the binary at path. A file that was just written may still be open for writing in a child that another goroutine
// forks at this moment; the kernel then refuses to run it until that child has started its own program.
func runBinary(ctx context.Context, path string, args []string) ([]byte, error) {
	ticker := time.NewTicker(busyPoll)
	defer ticker.Stop()
	for {
		output, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
		if !errors.Is(err, syscall.ETXTBSY) {
			return output, err
		}
		select {
		case <-ctx.Done():
			return output, err
		case <-ticker.C:
		}
	}
}
