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
	// Manifests to apply; default are those in config/samples. For these there is a
	// workload that has to be drained as well, and a package is uninstalled in the
	// end.
	Manifests []string
	// Keep leaves everything running until the context ends.
	Keep bool
	// Timeout for the rollout, and once more for the uninstall.
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
// node it selects within the timeout, and nothing happened to nodes and pods but
// what had to: see facts. No process and no file is left behind.
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
	nodes, err := controlplane.CreateNodes(ctx, cp.Config(), opts.Nodes, controlplane.NodeOptions{
		Labels: map[string]string{"example.com/pool": "gpu"},
	})
	if err != nil {
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
	d := &demonstration{opts: opts, cp: cp, op: op, say: say}
	if err = d.prepare(watchCtx, nodes); err == nil {
		err = d.apply(ctx)
	}
	if err != nil {
		stay(err.Error() + "\n")
		return err
	}
	err = d.show(ctx)
	d.watcher.summary(ctx, opts.Out, cp)
	stay("")
	if err != nil && !opts.Keep {
		say("\nend of the operator's log:\n%s", op.LogTail())
	}
	return err
}

// demonstration is what is shown once the operator is there.
type demonstration struct {
	opts    Options
	cp      *controlplane.ControlPlane
	op      *operator.Operator
	say     func(format string, args ...any)
	watcher *watcher
}

// prepare watches, and puts a workload on some of the nodes, for as long as the
// context lives.
func (d *demonstration) prepare(ctx context.Context, nodes []string) (err error) {
	if d.watcher, err = newWatcher(ctx, d.cp.Config()); err != nil || len(d.opts.Manifests) > 0 {
		return err
	}
	load, err := startWorkload(ctx, d.cp.Config(), d.watcher.cache, nodes)
	if err != nil {
		return err
	}
	d.watcher.ledger.expect(load)
	d.say("%d pods of ReplicaSet %s serve on %d of the nodes, its PodDisruptionBudget lets %d be away at once; "+
		"what is evicted comes back on node %s, which no NodeWright selects", load.replicas, workloadName, len(load.placed), load.mayBeAway(), load.spare)
	return nil
}

// apply applies the manifests, and has the NodeWrights in them watched.
func (d *demonstration) apply(ctx context.Context) error {
	names, err := applyManifests(ctx, d.op, d.opts.Root, d.opts.Manifests, d.say)
	if err != nil {
		return err
	}
	d.watcher.begin(names)
	return nil
}

// show follows the rollout and, for the samples, an uninstall after it, and looks
// after each at what became of nodes and pods.
func (d *demonstration) show(ctx context.Context) error {
	if err := d.follow(ctx, (*snapshot).missing); err != nil {
		return err
	}
	if err := d.watcher.check(ctx); err != nil || len(d.opts.Manifests) > 0 {
		return err
	}
	if err := d.uninstall(ctx); err != nil {
		return err
	}
	return d.watcher.check(ctx)
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

// follow shows the rollout until nothing is missing, or the time is over.
func (d *demonstration) follow(ctx context.Context, missing func(*snapshot) string) error {
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	screen := newScreen(d.opts.Out, d.opts.Terminal)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		reason := "nothing was seen"
		snap, err := d.watcher.look(ctx)
		if err == nil {
			screen.show(snap)
			if reason = missing(snap); reason == "" {
				return nil
			}
		}
		select {
		case <-tick.C:
		case err := <-d.op.Failed():
			return err
		case <-ctx.Done():
			if err != nil {
				return err
			}
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%w after %s: %s", ErrNotComplete, d.opts.Timeout, reason)
			}
			return fmt.Errorf("%w: interrupted", ErrNotComplete)
		}
	}
}

func since(t time.Time) string { return time.Since(t).Round(100 * time.Millisecond).String() }
