package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/cmd/devcluster/assets"
	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
	"github.com/nodewright/nodewright/test/e2e/realnode"
	"github.com/nodewright/nodewright/test/manifests"
)

const (
	namespace = operator.Namespace
	// first has the manager on it, second is interrupted and rebooted.
	first, second = "127.0.0.1", "127.0.0.2"
	// hostRoot is where each node has its own tree, in its own mount namespace.
	// On the machine itself it is an empty directory.
	hostRoot = "/run/nodewright-e2e"
)

// cluster is a control plane with two real nodes and the operator on one of them.
type cluster struct {
	cp     *controlplane.ControlPlane
	admin  kubernetes.Interface
	client client.Client
	images *images

	nodes map[string]*realnode.Node
	// free has an element for each node that no test has.
	free map[string]chan struct{}
	// machines power nodes on again that were told to reboot.
	machines map[string]*machine
}

// start builds what is needed and starts all. What runs already is in the cluster
// that comes with an error.
func start(ctx context.Context) (*cluster, error) {
	c := &cluster{nodes: map[string]*realnode.Node{}, machines: map[string]*machine{}, free: map[string]chan struct{}{}}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"control plane", c.startControlPlane},
		{"images", c.makeImages},
		{"nodes", c.startNodes},
		{"cert-manager", c.startCertManager},
		{"operator", c.deploy},
	} {
		begun := time.Now()
		if err := step.run(ctx); err != nil {
			c.report()
			return c, fmt.Errorf("%s: %w", step.name, err)
		}
		progress("%s (%.0fs)", step.name, time.Since(begun).Seconds())
	}
	return c, nil
}

func (c *cluster) startControlPlane(ctx context.Context) error {
	crds, err := manifests.CertManagerCRDs(ctx)
	if err != nil {
		return err
	}
	c.cp, err = controlplane.Start(ctx, controlplane.Options{
		Assets: assets.Options{Out: os.Stderr, Components: []string{
			"kube-apiserver", "etcd", "kubectl", "kube-controller-manager", "kube-scheduler", "kubelet",
			"cert-manager-controller", "cert-manager-cainjector",
		}},
		CRDDirs: []string{crds}, ControllerManager: true,
		// Nodes are named by the address of their kubelets.
		APIServerArgs: map[string]string{"kubelet-preferred-address-types": "Hostname"},
	})
	if err != nil {
		return err
	}
	config := rest.CopyConfig(c.cp.Config())
	config.QPS = -1 // A check that waits for its turn hides what it saw before.
	if c.admin, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.client, err = client.New(config, client.Options{Scheme: scheme()}); err != nil {
		return err
	}
	user, err := c.cp.AddUser("system:kube-scheduler", "system:masters")
	if err != nil {
		return err
	}
	_, err = c.cp.Run(controlplane.Command{
		Name: "kube-scheduler", Path: filepath.Join(c.cp.AssetsDir(), "kube-scheduler"),
		Args: []string{"--kubeconfig", user.KubeconfigFile, "--leader-elect=false", "--secure-port=0"},
	})
	return err
}

// startNodes boots both nodes and waits until they are ready.
func (c *cluster) startNodes(ctx context.Context) error {
	for _, name := range []string{first, second} {
		n, err := realnode.New(c.cp, realnode.Options{
			Name: name, HostRoot: hostRoot, PauseImage: c.images.pause.Name, Images: c.images.archives(),
		})
		if err != nil {
			return err
		}
		c.nodes[name] = n
		if err := n.Boot(ctx); err != nil {
			return err
		}
	}
	for name, n := range c.nodes {
		if err := c.await(ctx, time.Minute, "node "+name+" is ready", func(ctx context.Context) error {
			node, err := c.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return ready(node)
		}); err != nil {
			return err
		}
		m, err := newMachine(n)
		if err != nil {
			return err
		}
		c.machines[name] = m
		c.free[name] = make(chan struct{}, 1)
		c.free[name] <- struct{}{}
	}
	return nil
}

func (c *cluster) startCertManager(context.Context) error {
	for _, name := range []string{"cert-manager-controller", "cert-manager-cainjector"} {
		_, err := c.cp.Run(controlplane.Command{
			Name: name, Path: filepath.Join(c.cp.AssetsDir(), name), Args: []string{"--kubeconfig", c.cp.KubeconfigFile()},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deploy applies config/overlays/dev as a user does, fitted to this machine, and
// waits until the Deployment is available.
func (c *cluster) deploy(ctx context.Context) error {
	objects, err := manifests.Render(ctx, "config/overlays/dev")
	if err != nil {
		return err
	}
	if err := c.fit(objects); err != nil {
		return err
	}
	if out, err := operator.Apply(ctx, c.cp, objects); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return c.await(ctx, 3*time.Minute, "the operator is available", func(ctx context.Context) error {
		d, err := c.admin.AppsV1().Deployments(namespace).Get(ctx, "nodewright-manager", metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas != 1 {
			err = fmt.Errorf("%d of 1 replicas available", d.Status.AvailableReplicas)
		}
		return err
	})
}

// lease gives a test a node that it shares with no other one. Tests that have one
// run beside each other, those without run before. What drains or reboots takes
// the second one: the operator runs on the first.
func lease(t *testing.T, node string) string {
	t.Helper()
	t.Parallel()
	<-bed.free[node]
	t.Cleanup(func() { bed.free[node] <- struct{}{} })
	progress("%s begins on %s", t.Name(), node)
	return node
}

// await tries check until it returns no error; after patience it returns the last
// one.
func (c *cluster) await(ctx context.Context, patience time.Duration, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, patience, errors.Join(last, context.Cause(ctx)))
		case <-tick.C:
		}
	}
}

func (c *cluster) close() error {
	var errs []error
	for _, m := range c.machines {
		errs = append(errs, m.close())
	}
	for _, n := range c.nodes {
		errs = append(errs, n.Close())
	}
	if c.cp != nil {
		errs = append(errs, c.cp.Stop())
	}
	if err := os.Remove(hostRoot); err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
