package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/nodewright/nodewright/cmd/agent/host"
)

const (
	// DefaultPath is where programs are looked for if the environment does not say.
	DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

	// leftBehind is how long what a program left running may still print.
	leftBehind   = 2 * time.Second
	signalOffset = 128
)

// Command is one program.
type Command struct {
	// Program is a path on the host, or a name to look for in PATH.
	Program string
	Args    []string
	Env     []string
	// Dir on the host that it starts in.
	Dir      string
	Out, Err io.Writer
}

// Host runs programs with the root of a host as theirs.
type Host struct {
	Root *host.Root
}

// Run runs the program to its end and gives its exit code; 128 and the number
// of the signal if one ended it. When the context ends, the program and what it
// started get SIGTERM; how long they take then is theirs. It is an error if the
// program cannot be started.
func (h *Host) Run(ctx context.Context, c *Command) (int, error) {
	program, err := h.find(c)
	if err != nil {
		return 0, err
	}
	out, closeOut, err := pipe(c.Out)
	if err != nil {
		return 0, err
	}
	defer closeOut()
	failed, closeErr, err := pipe(c.Err)
	if err != nil {
		return 0, err
	}
	defer closeErr()
	cmd := &exec.Cmd{
		Path: program, Args: append([]string{program}, c.Args...), Env: c.Env, Dir: c.Dir,
		Stdout: out, Stderr: failed,
		// A group of its own, so that a signal reaches what it started as well. If the
		// agent is killed, the program is.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if dir := path.Clean(h.Root.Dir()); dir != "/" {
		cmd.SysProcAttr.Chroot = dir
	}
	// The program dies with the thread that started it, not with the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	_, _ = out.Close(), failed.Close()
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", c.Program, h.explain(program, c.Dir, err))
	}
	ended, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-ctx.Done():
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		case <-ended:
		}
	}()
	err = cmd.Wait()
	close(ended)
	<-told
	return exitCode(cmd, err)
}

func exitCode(cmd *exec.Cmd, err error) (int, error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return signalOffset + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// pipe gives a file whose contents reach the writer. done waits for them; what
// keeps the file open is not waited for.
func pipe(to io.Writer) (in *os.File, done func(), err error) {
	from, in, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(to, from)
	}()
	return in, func() {
		_ = in.Close()
		_ = from.SetReadDeadline(time.Now().Add(leftBehind))
		<-copied
		_ = from.Close()
	}, nil
}

// find looks a name up in PATH as the host would. A relative PATH entry is
// passed over.
func (h *Host) find(c *Command) (string, error) {
	if strings.Contains(c.Program, "/") {
		return c.Program, nil
	}
	dirs := DefaultPath
	for _, e := range c.Env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok && value != "" {
			dirs = value
		}
	}
	for dir := range strings.SplitSeq(dirs, ":") {
		if !path.IsAbs(dir) {
			continue
		}
		info, err := h.Root.Stat(dir + "/" + c.Program)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return dir + "/" + c.Program, nil
		}
	}
	return "", fmt.Errorf("find %s in %s: %w", c.Program, dirs, fs.ErrNotExist)
}
