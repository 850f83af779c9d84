package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nodewright/nodewright/test/e2e/realnode"
	"github.com/nodewright/nodewright/test/fakehost"
)

// commands are what interrupts and packages call on a host. They note their
// arguments; reboot asks the machine for it.
var commands = map[string]string{
	"usr/bin/systemctl": fakehost.Systemctl,
	"usr/sbin/service":  "#!/bin/sh\necho \"service $*\" >>/var/lib/e2e/calls\n",
	// As on a host, the command returns before the power goes.
	"usr/sbin/reboot": "#!/bin/sh\necho \"reboot $*\" >>/var/lib/e2e/calls\n: >/run/reboot\n",
}

// notes is what systemctl does first: it notes its arguments.
const notes = "echo \"systemctl $*\" >>/var/lib/e2e/calls\n"

// machine is the hardware under a node: it boots again when the node asks for it.
type machine struct {
	node *realnode.Node
	stop chan struct{}
	done chan struct{}

	mu    sync.Mutex
	boots int
	errs  []error
}

// newMachine puts the commands on the node's host, and powers the node on again
// whenever it asks for it from now on.
func newMachine(n *realnode.Node) (*machine, error) {
	for path, script := range commands {
		if err := os.WriteFile(n.Path(path), []byte(script), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(n.Path("var/lib/e2e"), 0o755); err != nil {
		return nil, err
	}
	for path, content := range map[string]string{
		"run/systemctl.sh": notes, "etc/systemd/system/e2e.service": "[Service]\nExecStart=/bin/true\n",
	} {
		if err := os.WriteFile(n.Path(path), []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	m := &machine{node: n, stop: make(chan struct{}), done: make(chan struct{})}
	go m.run()
	return m, nil
}

// run reboots the node whenever its tree holds the file run/reboot.
func (m *machine) run() {
	defer close(m.done)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-tick.C:
		}
		file := m.node.Path(filepath.Join("run", "reboot"))
		if _, err := os.Stat(file); err != nil {
			continue
		}
		if err := m.reboot(file); err != nil {
			m.mu.Lock()
			m.errs = append(m.errs, fmt.Errorf("reboot %s: %w", m.node.Name(), err))
			m.mu.Unlock()
		}
	}
}

func (m *machine) reboot(file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := errors.Join(m.node.PowerOff(), os.Remove(file)); err != nil {
		return err
	}
	m.mu.Lock()
	m.boots++
	m.mu.Unlock()
	return m.node.Boot(ctx)
}

// rebooted is how often the machine was rebooted.
func (m *machine) rebooted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boots
}

func (m *machine) close() error {
	close(m.stop)
	<-m.done
	return errors.Join(m.errs...)
}
