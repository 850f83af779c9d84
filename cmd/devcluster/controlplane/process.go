package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	pollInterval  = 50 * time.Millisecond
	removeTimeout = 10 * time.Second
	// stopTimeout is how long a process may take to end after SIGTERM before it is killed.
	stopTimeout = 20 * time.Second
	// shownLogBytes is how much of the end of a log an error carries.
	shownLogBytes = 2 << 10
)

// Command describes a process to run beside the control plane.
type Command struct {
	// Name names the process in Pids and its log file. One process of a name runs at a time.
	Name string
	// Path is the binary, Args its arguments.
	Path string
	Args []string
	// Env is added to the environment of this program.
	Env []string
	// Output gets standard output and standard error. Default: a log file, see Process.LogFile.
	Output io.Writer
}

// Process is a child process that does not outlive this program.
type Process struct {
	name    string
	logFile string
	cmd     *exec.Cmd
	done    chan struct{}
	err     error // valid once done is closed
}

// Run starts a process with the same promises as for the control plane's own: it ends with Stop at the latest and does not survive
// the death of this program. The caller may end it earlier.
func (cp *ControlPlane) Run(command Command) (*Process, error) {
	p, err := cp.guard.run(command)
	if err != nil {
		return nil, err
	}
	cp.mu.Lock()
	cp.processes = append(cp.processes, p)
	cp.mu.Unlock()
	return p, nil
}

func (g *guard) run(command Command) (*Process, error) {
	wrapper, err := g.wrap(command.Name, command.Path)
	if err != nil {
		return nil, err
	}
	p := &Process{name: command.Name, done: make(chan struct{})}
	// Through the shell: a script that was just written may be busy for a direct start.
	p.cmd = exec.Command("/bin/sh", append([]string{wrapper}, command.Args...)...)
	p.cmd.Env = append(os.Environ(), command.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout, p.cmd.Stderr = command.Output, command.Output
	var log *os.File
	if command.Output == nil {
		if log, err = g.openLog(command.Name); err != nil {
			return nil, err
		}
		p.logFile = log.Name()
		p.cmd.Stdout, p.cmd.Stderr = log, log
	}
	if err := p.cmd.Start(); err != nil {
		if log != nil {
			err = errors.Join(err, log.Close())
		}
		return nil, fmt.Errorf("start %s: %w", command.Name, err)
	}
	// The wrapper notes itself as well, and first thing if this program dies now; but Pids is to be right when Run returns.
	if err := g.note(p.cmd.Process.Pid, append([]string{command.Name}, command.Args...)...); err != nil {
		return nil, errors.Join(err, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL), p.cmd.Wait())
	}
	go func() {
		p.err = p.cmd.Wait()
		g.forget(p.cmd.Process.Pid)
		if log != nil {
			_ = log.Close()
		}
		close(p.done)
	}()
	return p, nil
}

func (g *guard) openLog(name string) (*os.File, error) {
	file, err := os.OpenFile(g.path(logDir, name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return file, nil
}

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// LogFile returns the path of the log, which is removed by ControlPlane.Stop. It is empty for a process with an Output of its own.
func (p *Process) LogFile() string { return p.logFile }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// State waits for the end of the process and returns how it ended and what it used.
func (p *Process) State() *os.ProcessState {
	<-p.done
	return p.cmd.ProcessState
}

// Signal sends a signal. A process that has ended is no error.
func (p *Process) Signal(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// Kill kills the process and all of its group, as kill -9 does, and waits for its end.
func (p *Process) Kill() error {
	select {
	case <-p.done: // The ID may belong to somebody else by now.
		return nil
	default:
	}
	if err := syscall.Kill(-p.Pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// Stop ends the process with SIGTERM, or kills it if it is still there after 20 s; the latter is an error. Its exit code is none:
// see State.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("stop %s: still there %s after SIGTERM, killed", p.name, stopTimeout), p.Kill())
	}
}

// waitFor polls check until it returns nil, the process ends or ctx is over. The error says what check last said and how the log ends.
func (p *Process) waitFor(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		last := check(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("wait for %s: it ended (%w): end of its log:\n%s", p.name, errOr(p.err, "exit code 0"), LogTail(p.logFile))
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w, last: %w: end of its log:\n%s", p.name, context.Cause(ctx), last, LogTail(p.logFile))
		case <-ticker.C:
		}
	}
}

func errOr(err error, text string) error {
	if err == nil {
		return errors.New(text)
	}
	return err
}

// LogTail returns the last lines of a log, or why there are none.
func LogTail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if cut := len(content) - shownLogBytes; cut > 0 {
		content = content[cut:]
		if i := bytes.IndexByte(content, '\n'); i >= 0 {
			content = content[i+1:]
		}
	}
	return strings.TrimSpace(string(content))
}
