package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/nodewright/nodewright/cmd/devcluster/assets"
	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

// Options of a demo.
type Options struct {
	// Root of this module's source.
	Root string
	// Nodes is how many nodes are simulated.
	Nodes int
	// Manifests to apply; default are those in config/samples.
	Manifests []string
	// Keep leaves everything running until the context ends.
	Keep bool
	// Timeout for the rollout.
	Timeout time.Duration
	// Out is where the demo speaks; Terminal says that it can move its cursor.
	Out      io.Writer
	Terminal bool
}

// managerConfiguration keeps ports free for several demos on one machine.
const managerConfiguration = `apiVersion: config.nodewright.nvidia.com/v1alpha1
kind: ManagerConfiguration
agentImage: nodewright.example/agent:7.0.0
metrics:
  bindAddress: "0"
`

// manyNodes is from where on the control plane is set up for scale.
const manyNodes = 1000

// ErrNotComplete says that the rollout was not complete in time.
var ErrNotComplete = errors.New("rollout is not complete")

// Run runs the demo. It returns nil if every NodeWright was complete on every
// node it selects within the timeout. No process and no file is left behind.
func Run(ctx context.Context, opts Options) (err error) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(opts.Out, format+"\n", args...) }
	began := time.Now()
	say("starting etcd, kube-apiserver, kube-controller-manager and kwok")
	cp, err := controlplane.Start(ctx, controlplane.Options{
		ControllerManager: true, Kwok: true, HighScale: opts.Nodes >= manyNodes,
		// The first time this may build the control plane, and says so.
		Assets: assets.Options{Out: opts.Out},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	// Open watches would hold up the API server's end.
	watchCtx, endWatches := context.WithCancel(ctx)
	defer endWatches()

	say("building and installing the operator (%s)", since(began))
	op, err := operator.Install(ctx, cp, operator.Options{
		Root: opts.Root, Configuration: managerConfiguration,
		Restarted: func(err error) { say("%v: started again", err) },
	})
	if err != nil {
		return err
	}
	say("creating %d simulated nodes (%s)", opts.Nodes, since(began))
	if _, err := controlplane.CreateNodes(ctx, cp.Config(), opts.Nodes, controlplane.NodeOptions{
		Labels: map[string]string{"example.com/pool": "gpu"},
	}); err != nil {
		return err
	}
	if err := op.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, op.Stop()) }()
	if err := op.Ready(ctx); err != nil {
		return err
	}
	say("the webhooks are asked, with certificates that the demo made itself; in a cluster cert-manager makes them (%s)", since(began))

	stay := func(string) {}
	if opts.Keep {
		say("the cluster stays up until Ctrl-C; in another terminal:\n  export KUBECONFIG=%s PATH=%s:$PATH", cp.KubeconfigFile(), cp.AssetsDir())
		stay = func(why string) { say("\n%sThe cluster stays up until Ctrl-C.", why); <-ctx.Done() }
	}
	names, err := applyManifests(ctx, op, opts.Root, opts.Manifests, say)
	if err != nil {
		stay(err.Error() + "\n")
		return err
	}
	w, err := newWatcher(watchCtx, cp.Config(), names)
	if err != nil {
		return err
	}
	err = follow(ctx, op, w, newScreen(opts.Out, opts.Terminal), opts.Timeout)
	w.summary(ctx, opts.Out, cp)
	stay("")
	if err != nil && !opts.Keep {
		say("\nend of the operator's log:\n%s", op.LogTail())
	}
	return err
}

// applyManifests applies the files as a user does, and returns the names of
// the NodeWrights in them.
func applyManifests(ctx context.Context, op *operator.Operator, root string, files []string, say func(string, ...any)) ([]string, error) {
	if len(files) == 0 {
		var err error
		if files, err = filepath.Glob(filepath.Join(root, "config", "samples", "nodewright_*.yaml")); err != nil {
			return nil, fmt.Errorf("find samples: %w", err)
		}
	}
	var names []string
	for _, file := range files {
		say("kubectl apply --server-side -f %s", file)
		if _, err := op.Kubectl(ctx, "apply", "--server-side", "-f", file); err != nil {
			return nil, err
		}
		found, err := nodeWrightsIn(file)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("apply manifests: no NodeWright in %v", files)
	}
	return names, nil
}

// follow shows the rollout until it is complete, or the time is over.
func follow(ctx context.Context, op *operator.Operator, w *watcher, screen *screen, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		snap, err := w.look(ctx)
		if err == nil {
			screen.show(snap)
			if snap.complete() {
				return nil
			}
		}
		select {
		case <-tick.C:
		case err := <-op.Failed():
			return err
		case <-ctx.Done():
			if err != nil {
				return err
			}
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%w after %s: %s", ErrNotComplete, timeout, snap.reason())
			}
			return fmt.Errorf("%w: interrupted", ErrNotComplete)
		}
	}
}

func since(t time.Time) string { return time.Since(t).Round(100 * time.Millisecond).String() }
