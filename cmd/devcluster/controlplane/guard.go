package controlplane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	pidsDir       = "pids"
	closedPidsDir = "pids.closed"
	wrapperDir    = "run"
	logDir        = "logs"
)

// guardScript waits until its standard input ends, which happens when the program that started it ends, in whatever way. If the
// directory is still there then, nobody cleaned up: it kills the processes that are noted there and removes the directory. After the
// rename no further process can note itself, and one that cannot does not start.
const guardScript = `trap '' HUP INT TERM
cat >/dev/null
cd / && [ -d "$1" ] || exit 0
mv "$1/pids" "$1/pids.closed"
for file in "$1"/pids.closed/*; do
	pid=${file##*/}
	kill -9 "-$pid" || kill -9 "$pid"
done
tries=0
while [ -e "$1" ] && [ $tries -lt 100 ]; do
	rm -rf "$1" || sleep 0.1
	tries=$((tries + 1))
done
`

// wrapperScript notes the process ID of a component, its name and its arguments, one per line, and becomes that component. The first
// verb is the directory for the notes, the second the name, the third the binary.
const wrapperScript = `#!/bin/sh
case "$1" in --help) exec %[3]s --help ;; esac
printf '%%s\n' %[2]s "$@" >%[1]s/$$ || exit 125
exec %[3]s "$@"
`

// guard ends what this program leaves behind.
//
// The kernel's own means (PR_SET_PDEATHSIG) does not reach far enough: envtest starts etcd and the API server itself with attributes
// that cannot be changed from outside, the signal follows the thread that started a process and not the program, and it removes no
// file. The guard is a shell in a session of its own, so that Ctrl-C does not reach it. Its limit: it must not be killed itself.
type guard struct {
	dir   string
	stdin io.Closer
	cmd   *exec.Cmd
}

// newGuard makes the directory below parent ("" is the system's directory for temporary files) and starts its guard.
func newGuard(parent string) (*guard, error) {
	dir, err := os.MkdirTemp(parent, "nodewright-devcluster-")
	if err != nil {
		return nil, fmt.Errorf("create directory: %w", err)
	}
	g := &guard{dir: dir}
	for _, name := range []string{pidsDir, wrapperDir, logDir} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("create directory: %w", err), os.RemoveAll(dir))
		}
	}
	g.cmd = exec.Command("/bin/sh", "-c", guardScript, "nodewright-guard", dir)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if g.stdin, err = g.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(fmt.Errorf("start guard: %w", err), os.RemoveAll(dir))
	}
	if err := g.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start guard: %w", err), os.RemoveAll(dir))
	}
	return g, nil
}

func (g *guard) path(parts ...string) string {
	return filepath.Join(append([]string{g.dir}, parts...)...)
}

// wrap returns a program that behaves like the binary and is known to the guard from its first moment on, under the name.
func (g *guard) wrap(name, binary string) (string, error) {
	script := fmt.Sprintf(wrapperScript, shellQuote(g.path(pidsDir)), shellQuote(name), shellQuote(binary))
	file := g.path(wrapperDir, name)
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
		return "", fmt.Errorf("write wrapper: %w", err)
	}
	return file, nil
}

// notes returns the notes: process ID -> name and arguments.
func (g *guard) notes() map[int][]string {
	found := map[int][]string{}
	for _, dir := range []string{pidsDir, closedPidsDir} {
		entries, err := os.ReadDir(g.path(dir))
		if err != nil {
			continue // One of both is never there.
		}
		for _, entry := range entries {
			pid, err := strconv.Atoi(entry.Name())
			if err != nil {
				continue
			}
			if content, err := os.ReadFile(g.path(dir, entry.Name())); err == nil && len(content) > 0 {
				found[pid] = strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
			}
		}
	}
	return found
}

// pids returns the processes that run, by name.
func (g *guard) pids() map[string]int {
	found := map[string]int{}
	for pid, words := range g.notes() {
		if alive(pid) {
			found[words[0]] = pid
		}
	}
	return found
}

// note notes a process as the wrapper does.
func (g *guard) note(pid int, words ...string) error {
	content := strings.Join(words, "\n") + "\n"
	if err := os.WriteFile(g.path(pidsDir, strconv.Itoa(pid)), []byte(content), 0o600); err != nil {
		return fmt.Errorf("note process: %w", err)
	}
	return nil
}

// forget removes the note about a process that has ended.
func (g *guard) forget(pid int) { _ = os.Remove(g.path(pidsDir, strconv.Itoa(pid))) }

// killAll keeps further processes from starting and kills those that run.
func (g *guard) killAll() error {
	err := os.Rename(g.path(pidsDir), g.path(closedPidsDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("close the gate: %w", err)
	}
	for name, pid := range g.pids() {
		// A wrapped process leads its own group, see Run; envtest does the same.
		if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill %s: %w", name, err)
		}
	}
	return nil
}

// close kills what still runs, removes the directory and ends the guard.
func (g *guard) close() error {
	err := g.killAll()
	if removeErr := removeAll(g.dir); removeErr != nil {
		err = errors.Join(err, fmt.Errorf("remove directory: %w", removeErr))
	}
	// The guard finds no directory and ends. If something could not be removed it tries the same again.
	if closeErr := g.stdin.Close(); closeErr != nil && !errors.Is(closeErr, os.ErrClosed) {
		err = errors.Join(err, fmt.Errorf("end guard: %w", closeErr))
	}
	if waitErr := g.cmd.Wait(); waitErr != nil {
		err = errors.Join(err, fmt.Errorf("end guard: %w", waitErr))
	}
	return err
}

// removeAll removes dir. A process that was killed this moment may still write into it, so it is tried for a while.
func removeAll(dir string) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	deadline := time.Now().Add(removeTimeout)
	for {
		err := os.RemoveAll(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-ticker.C
	}
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
