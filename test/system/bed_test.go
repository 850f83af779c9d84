package system

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

// bed is a control plane with nodes, and an operator behind a proxy.
type bed struct {
	cp    *controlplane.ControlPlane
	op    *operator.Operator
	cs    kubernetes.Interface
	proxy *proxy
	nodes []string
	kills atomic.Int32
}

func startBed(ctx context.Context, t *testing.T, configuration string) *bed {
	t.Helper()
	cp, err := controlplane.Start(ctx, controlplane.Options{ControllerManager: true, Kwok: true, PodDuration: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	b := &bed{cp: cp, proxy: startProxy(t)}
	b.op, err = operator.Install(ctx, cp, operator.Options{
		Root: filepath.Join("..", ".."), Configuration: configuration, Server: b.proxy.address,
		Restarted: func(err error) { b.kills.Add(1); t.Log(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.proxy.serve(b.op.User().Config); err != nil {
		t.Fatal(err)
	}
	if b.cs, err = kubernetes.NewForConfig(cp.Config()); err != nil {
		t.Fatal(err)
	}
	return b
}

// startAnother starts a manager that takes itself for the leader whoever has the
// lease.
func (b *bed) startAnother(t *testing.T) {
	t.Helper()
	another, err := b.op.Another("manager-without-lease", managerConfiguration+"leaderElection:\n  enabled: false\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := another.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := another.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func (b *bed) createNodes(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	nodes, err := controlplane.CreateNodes(ctx, b.cp.Config(), n, controlplane.NodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.nodes = append(b.nodes, nodes...)
}

// start starts the operator, and stops it with the test.
func (b *bed) start(t *testing.T) {
	t.Helper()
	if err := b.op.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.op.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := b.op.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// apply applies manifests as a user does.
func (b *bed) apply(ctx context.Context, t *testing.T, manifests string) {
	t.Helper()
	file := filepath.Join(b.cp.Dir(), "manifests.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.op.Kubectl(ctx, "apply", "--server-side", "-f", file); err != nil {
		t.Fatal(err)
	}
}

const managerConfiguration = `apiVersion: config.nodewright.nvidia.com/v1alpha1
kind: ManagerConfiguration
agentImage: nodewright.example/agent:7.0.0
metrics:
  bindAddress: "0"
`
