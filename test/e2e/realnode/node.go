package realnode

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
)

// Options describe a node.
type Options struct {
	// Name of the node: an address of the loopback, as 127.0.0.2.
	Name string
	// HostRoot is where pods of the node find its tree: the path of their hostPath
	// volumes. It is made on the machine, empty, if it is not there.
	HostRoot string
	// PauseImage is the image of pod sandboxes; Images are archives that containerd
	// gets before the kubelet starts, the one of PauseImage among them.
	PauseImage string
	Images     []string
}

// Node is a real node. Its methods may be called from one goroutine at a time.
type Node struct {
	opts     Options
	cp       *controlplane.ControlPlane
	settings settings

	mu      sync.Mutex
	process *controlplane.Process
	boots   int
}

// startTimeout is how long containerd may take to answer.
const startTimeout = time.Minute

// New makes a node that does not run yet. The control plane has the binary of the
// kubelet among its assets.
func New(cp *controlplane.ControlPlane, opts Options) (*Node, error) {
	dir := filepath.Join(cp.Dir(), "node-"+opts.Name)
	n := &Node{opts: opts, cp: cp, settings: settings{
		Name: opts.Name, Dir: dir, Disk: filepath.Join(dir, "disk"), Run: filepath.Join(dir, "run"), Tree: filepath.Join(dir, "tree"),
		HostRoot: opts.HostRoot, Socket: filepath.Join(dir, "run", "containerd.sock"),
		Cgroup:  fmt.Sprintf("nodewright-%d-%s", os.Getpid(), opts.Name),
		Kubelet: filepath.Join(cp.AssetsDir(), "kubelet"), PauseImage: opts.PauseImage,
	}}
	for _, d := range []string{n.StaticPods(), n.settings.Run, n.settings.Tree} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("make node %s: %w", opts.Name, err)
		}
	}
	if err := makeTree(n.settings.Tree); err != nil {
		return nil, err
	}
	user, err := cp.AddUser("system:node:"+opts.Name, "system:nodes")
	if err != nil {
		return nil, err
	}
	n.settings.Kubeconfig = user.KubeconfigFile
	for _, port := range []*int{&n.settings.KubeletPort, &n.settings.HealthPort} {
		if *port, err = controlplane.FreePort(); err != nil {
			return nil, err
		}
	}
	return n, n.settings.write()
}

// Name of the node.
func (n *Node) Name() string { return n.opts.Name }

// Path is where the file of the node's host is on this machine.
func (n *Node) Path(file string) string { return filepath.Join(n.settings.Tree, file) }

// StaticPods is the directory on this machine whose manifests the kubelet runs
// without having been asked by the API server.
func (n *Node) StaticPods() string { return filepath.Join(n.settings.Disk, "static-pods") }

// Boot starts the node, with a boot ID that it never had. Images are imported at
// the first boot. It returns when containerd answers.
func (n *Node) Boot(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.prepare(); err != nil {
		return fmt.Errorf("boot node %s: %w", n.opts.Name, err)
	}
	process, err := n.cp.Run(controlplane.Command{
		Name: "node-" + n.opts.Name, Path: "/usr/bin/unshare",
		Args: []string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
			"/bin/sh", filepath.Join(n.settings.Dir, "start.sh")},
	})
	if err != nil {
		return fmt.Errorf("boot node %s: %w", n.opts.Name, err)
	}
	n.process = process
	n.boots++
	if err := n.answers(ctx); err != nil {
		return fmt.Errorf("boot node %s: %w\n%s", n.opts.Name, err, n.LogTails())
	}
	if n.boots > 1 {
		return nil
	}
	for _, image := range n.opts.Images {
		if err := n.ctr(ctx, "images", "import", image); err != nil {
			return fmt.Errorf("boot node %s: %w", n.opts.Name, err)
		}
	}
	return nil
}

// prepare brings the node to the state of a machine without power: what is in
// memory is gone.
func (n *Node) prepare() error {
	if err := os.RemoveAll(n.settings.Run); err != nil {
		return err
	}
	cni := filepath.Join(n.settings.Run, "cni")
	for _, dir := range []string{cni, n.opts.HostRoot, filepath.Join(n.settings.Run, "volume-plugins")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(cni, "10-loopback.conflist"), []byte(networkSettings), 0o600); err != nil {
		return err
	}
	if err := makeCgroup(n.settings.Cgroup); err != nil {
		return err
	}
	return os.WriteFile(n.Path("proc/sys/kernel/random/boot_id"), []byte(newBootID()+"\n"), 0o444)
}

// newBootID is in the form of the kernel's.
func newBootID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// answers waits for containerd.
func (n *Node) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("containerd does not answer within %s", startTimeout))
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := n.ctr(ctx, "version")
		if err == nil {
			return nil
		}
		select {
		case <-n.process.Done():
			return fmt.Errorf("the node ended: %s", controlplane.LogTail(n.process.LogFile()))
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// ctr speaks to the node's containerd, about what the kubelet sees.
func (n *Node) ctr(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address", n.settings.Socket, "--namespace", "k8s.io"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ctr %v: %w: %s", args, err, out.Bytes())
	}
	return nil
}

// PowerOff ends all processes of the node at once. Its disk stays.
func (n *Node) PowerOff() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return nil
	}
	err := n.process.Kill()
	n.process = nil
	return err
}

// Close ends the node and removes what it leaves outside of the control plane's
// directory.
func (n *Node) Close() error {
	err := n.PowerOff()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	// The kernel takes a moment to bury the processes.
	for deadline := time.Now().Add(10 * time.Second); ; <-tick.C {
		removed := removeCgroup(n.settings.Cgroup)
		if removed == nil || time.Now().After(deadline) {
			return errors.Join(err, removed)
		}
	}
}

// LogTails is the end of what kubelet and containerd said.
func (n *Node) LogTails() string {
	var text string
	for _, name := range []string{"kubelet", "containerd"} {
		text += "end of the log of " + name + " on " + n.opts.Name + ":\n" +
			controlplane.LogTail(filepath.Join(n.settings.Dir, name+".log")) + "\n"
	}
	return text
}
