package demo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// patchBackoff is for a user who tries again while the webhooks are away: up to
// about 15 seconds.
var patchBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 5}

// uninstall takes the one package that can be taken off the hosts off all of
// them, as a user would, and waits until that is done.
func (d *demonstration) uninstall(ctx context.Context) error {
	snap, err := d.watcher.look(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(snap.parts, func(p part) bool { return len(p.uninstallable) > 0 })
	if i < 0 {
		return fmt.Errorf("uninstall a package: none can be uninstalled")
	}
	name, pkg, began := snap.parts[i].name, snap.parts[i].uninstallable[0], time.Now()
	generation, err := d.askUninstall(ctx, name, pkg)
	if err != nil {
		return err
	}
	err = d.follow(ctx, func(s *snapshot) string {
		p := &s.parts[i]
		switch left := p.nodes - p.stages[pkg]["-"]; {
		case p.generation < generation:
			return "the change was not seen"
		case left > 0:
			return fmt.Sprintf("package %s is left on %d of %d nodes; %s", pkg, left, p.nodes, s.missing())
		default:
			return s.missing()
		}
	})
	if err != nil {
		return fmt.Errorf("uninstall package %s: %w", pkg, err)
	}
	d.say("%s is taken off all nodes (%d), and %s is ready again (%s)", pkg, snap.parts[i].nodes, name, since(began))
	return nil
}

// askUninstall asks for the uninstall, and returns the generation that says so.
func (d *demonstration) askUninstall(ctx context.Context, name, pkg string) (generation int64, err error) {
	patch := fmt.Sprintf(`{"spec":{"packages":{%q:{"uninstall":{"apply":true}}}}}`, pkg)
	d.say("kubectl patch nodewright %s --type=merge -p '%s'", name, patch)
	err = retry.OnError(patchBackoff, func(error) bool { return ctx.Err() == nil }, func() error {
		out, err := d.op.Kubectl(ctx, "patch", "nodewright", name, "--type=merge", "-p", patch, "-o", "jsonpath={.metadata.generation}")
		if err != nil {
			return err
		}
		generation, err = strconv.ParseInt(strings.TrimSpace(out), 10, 64)
		return err
	})
	return generation, err
}
