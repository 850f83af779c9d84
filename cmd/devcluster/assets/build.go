package assets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// projectModule is the first line of the go.mod at the root of the project.
const projectModule = "module github.com/nodewright/nodewright"

// shownBuildLines is how many of the last lines of a failed build an error carries.
const shownBuildLines = 20

// build builds c from its modules and writes the binary to target.
//
// -trimpath makes the result independent of the directory; a build without it also shares no cache with one that has it. cgo is
// off because a C compiler may be missing, and because the result must run on any distribution.
func build(ctx context.Context, root string, c Component, target string) error {
	dir := filepath.Join(root, filepath.FromSlash(c.moduleDir))
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return fmt.Errorf("find the module that pins the sources: %w", err)
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("find the Go tool: %w", err)
	}
	var output tailBuffer
	// -s -w leave symbols for debuggers out, a third of the size. Stack traces do not need them.
	ldflags := "-s -w " + strings.Join(c.ldflags, " ")
	cmd := exec.CommandContext(ctx, goTool, "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", target, c.pkg)
	cmd.Dir = dir
	// GOFLAGS and GOWORK of the caller are meant for his own modules.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = &output, &output
	// The Go tool starts compilers: they are ended with it, as one group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("build %s: %w", c.pkg, context.Cause(ctx))
		}
		return fmt.Errorf("build %s in %s: %w\n%s", c.pkg, dir, err, output.last(shownBuildLines))
	}
	return nil
}

// FindRoot returns the root of the project: dir or the nearest directory above it with the project's go.mod.
func FindRoot(dir string) (string, error) {
	start := dir
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(content, []byte(projectModule+"\n")) {
			return dir, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("find the root of the project: %w", err)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("find the root of the project: neither %s nor a directory above it holds its go.mod", start)
		}
		dir = parent
	}
}

// tailBuffer keeps the end of what is written to it.
type tailBuffer struct{ content []byte }

const tailBytes = 64 << 10

// Write keeps p. It never fails.
func (b *tailBuffer) Write(p []byte) (int, error) {
	b.content = append(b.content, p...)
	if excess := len(b.content) - tailBytes; excess > 0 {
		b.content = append(b.content[:0], b.content[excess:]...)
	}
	return len(p), nil
}

// last returns the last n lines.
func (b *tailBuffer) last(n int) string {
	lines := strings.Split(strings.TrimRight(string(b.content), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
