package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/nodewright/nodewright/cmd/agent/config"
	"github.com/nodewright/nodewright/cmd/agent/host"
	"github.com/nodewright/nodewright/cmd/agent/logs"
	"github.com/nodewright/nodewright/cmd/agent/process"
)

const usage = `usage:
  agent MODE ROOT-MOUNT COPY-DIR             run the steps of a mode: apply, config, post-interrupt,
                                             upgrade, uninstall, or one of these with -check
  agent interrupt ROOT-MOUNT COPY-DIR DATA   interrupt the host
  agent done                                 do nothing
  agent validate [-o json] DIR               check the directory of a package, for its author
`

const (
	modeDone      = "done"
	modeInterrupt = "interrupt"
)

// runner runs a program on the host.
type runner interface {
	Run(ctx context.Context, c *process.Command) (int, error)
}

// agent does the work of one call.
type agent struct {
	host    *host.Root
	runner  runner
	env     environment
	copyDir string
	now     func() time.Time
	out     io.Writer
	err     io.Writer
}

// Run does what the arguments ask for and gives the exit code. The context ends
// when the agent is told to end.
func Run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	stdout, stderr = &locked{to: stdout}, &locked{to: stderr}
	err := run(ctx, args, environ, stdout, stderr)
	var e *exitError
	switch {
	case err == nil:
		return ExitOK
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(stderr, "agent: ended by a signal:", err)
		return ExitTerminated
	case errors.As(err, &e):
		_, _ = fmt.Fprintln(stderr, "agent:", err)
		return e.code
	default:
		_, _ = fmt.Fprintln(stderr, "agent:", err)
		return ExitHost
	}
}

func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	wrong := func() error {
		_, _ = fmt.Fprint(stderr, usage)
		return exit(ExitUsage, fmt.Errorf("wrong arguments %.200q", args))
	}
	if len(args) == 0 {
		return wrong()
	}
	mode := args[0]
	switch {
	case mode == modeDone && len(args) == 1:
		return nil
	case mode == modeValidate:
		if err := checkPackage(args[1:], stdout); !errors.Is(err, errUsage) {
			return err
		}
		return wrong()
	case mode == modeInterrupt && len(args) != 4, mode != modeInterrupt && len(args) != 3:
		return wrong()
	}
	if mode != modeInterrupt && !config.Mode(mode).Known() {
		_, _ = fmt.Fprintf(stdout, "warning: mode %.100q is not known to this agent, nothing is done\n", mode)
		return nil
	}
	if !path.IsAbs(args[2]) {
		return exit(ExitUsage, fmt.Errorf("copy directory %.200q is not an absolute path", args[2]))
	}
	env, err := parseEnvironment(environ)
	if err != nil {
		return exit(ExitUsage, err)
	}
	root, err := host.Open(args[1])
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	a := &agent{
		host: root, runner: &process.Host{Root: root}, env: env, copyDir: path.Clean(args[2]), now: time.Now,
		out: stdout, err: stderr,
	}
	if mode == modeInterrupt {
		return a.interrupt(ctx, args[3])
	}
	return a.stage(ctx, config.Mode(mode))
}

func (a *agent) say(format string, args ...any) { _, _ = fmt.Fprintf(a.out, format+"\n", args...) }

// lock takes the lock of the package. It is kept until the agent ends.
func (a *agent) lock(ctx context.Context, name string) (io.Closer, error) {
	if err := a.host.MkdirAll(a.env.rootDir); err != nil {
		return nil, err
	}
	file := path.Join(a.env.rootDir, name+".lock")
	return a.host.Lock(ctx, file, func() {
		a.say("another agent works on package %s on this host: waiting for %s", name, file)
	})
}

// command runs a program with logs under the given name. What cannot be logged
// on the host is in the log of the container.
func (a *agent) command(ctx context.Context, dir *logs.Dir, name string, c *process.Command) (int, error) {
	outs, errs := []io.Writer{a.out}, []io.Writer{a.err}
	files, err := dir.Create(name)
	if err != nil {
		a.say("warning: %v", err)
	}
	if files != nil {
		defer func() { _ = files.Close() }()
		outs, errs = append(outs, files.Out), append(errs, files.Err)
	}
	out, failed := logs.NewLines("[out]", a.now, outs...), logs.NewLines("[err]", a.now, errs...)
	defer func() { _ = out.Close() }()
	defer func() { _ = failed.Close() }()
	c.Out, c.Err, c.Dir = out, failed, a.copyDir
	return a.runner.Run(ctx, c)
}

func (a *agent) logDir(name, version string) *logs.Dir {
	d := &logs.Dir{Host: a.host, Now: a.now}
	if a.env.writeLogs {
		d.Path = path.Join(a.env.logDir, name, version)
	}
	return d
}

// locked lets one line through at a time.
type locked struct {
	mu sync.Mutex
	to io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

func quoted(c []string) string { return strings.Join(c, " ") }
