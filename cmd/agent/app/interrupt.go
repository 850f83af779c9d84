package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/nodewright/nodewright/cmd/agent/interrupt"
	"github.com/nodewright/nodewright/cmd/agent/process"
)

const (
	bootIDFile = "/proc/sys/kernel/random/boot_id"
	flagSize   = 64 << 10
)

// interrupt runs the commands of an interrupt that this run has not run yet. A
// reboot has no flag: only the boot ID says whether it is still to be done.
func (a *agent) interrupt(ctx context.Context, data string) error {
	i, err := interrupt.Decode(data)
	if err != nil {
		return exit(ExitUsage, err)
	}
	if a.env.name == "" {
		return exit(ExitUsage, errors.New("SKYHOOK_RESOURCE_ID is required to interrupt the host"))
	}
	if i.Type == interrupt.NodeRestart && a.env.bootID == "" {
		return exit(ExitUsage, errors.New("NODEWRIGHT_BOOT_ID is required to reboot the host: without it nobody knows whether that was done"))
	}
	lock, err := a.lock(ctx, a.env.name)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := a.host.MkdirAll(a.copyDir); err != nil {
		return err
	}
	a.say("interrupt: %s", i)
	for n, command := range i.Commands() {
		if err := a.interruptCommand(ctx, i, n, command); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) interruptCommand(ctx context.Context, i interrupt.Interrupt, n int, command []string) error {
	flag := path.Join(a.env.rootDir, "interrupts/flags", a.env.resourceID, i.Flag(n))
	skip, err := a.interrupted(i, flag, command)
	if err != nil || skip {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	a.say("running %s", quoted(command))
	code, err := a.command(ctx, a.logDir(a.env.name, a.env.version), "interrupts/"+strings.TrimSuffix(i.Flag(n), ".complete"),
		&process.Command{Program: command[0], Args: command[1:], Env: a.env.forProgram()})
	switch {
	case err != nil:
		return exit(ExitFailed, fmt.Errorf("interrupt: %w", err))
	case code != 0:
		return exit(ExitFailed, fmt.Errorf("interrupt: %s ended with %d", quoted(command), code))
	case i.Type == interrupt.NodeRestart:
		return nil
	}
	if err := a.host.MkdirAll(path.Dir(flag)); err != nil {
		return err
	}
	return a.host.WriteFile(flag, []byte(flagText(command)), 0o644)
}

// flagText names the command: which services an interrupt has may change
// between two attempts.
func flagText(command []string) string { return fmt.Sprintf("command: %q\n", command) }

// interrupted tells whether the command was done already.
func (a *agent) interrupted(i interrupt.Interrupt, flag string, command []string) (bool, error) {
	if i.Type == interrupt.NodeRestart {
		data, err := a.host.ReadFile(bootIDFile, flagSize)
		if err != nil {
			return false, fmt.Errorf("read the boot ID of the host: %w", err)
		}
		now := strings.TrimSpace(string(data))
		if now == "" {
			return false, fmt.Errorf("the boot ID in %s is empty", bootIDFile)
		}
		if now != a.env.bootID {
			a.say("the host was rebooted: its boot ID is %s, the reboot was asked for under %s; nothing is done", now, a.env.bootID)
			return true, nil
		}
		return false, nil
	}
	data, err := a.host.ReadFile(flag, flagSize)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if string(data) != flagText(command) {
		return false, nil
	}
	a.say("skipping %s: it was done in this run", quoted(command))
	return true, nil
}
