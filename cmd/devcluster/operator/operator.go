// Package operator installs and runs this operator on a control plane of
// package controlplane, from the source of this module: what the demo and the
// benchmark share.
//
// The operator runs as a process of its own, as the user that its service
// account is in a cluster, with the rights that config/rbac gives it.
package operator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/manifests"
)

const (
	// Namespace of the operator and of package Jobs.
	Namespace = "nodewright-system"
	// UserName is the operator's service account as the API server knows it.
	UserName = "system:serviceaccount:" + Namespace + ":nodewright-manager"

	// overlay has all of config but the Deployment.
	overlay = "config/overlays/devcluster"
)

// userGroups are the groups of a service account.
var userGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + Namespace, "system:authenticated"}

// Options of an installation.
type Options struct {
	// Root of this module's source.
	Root string
	// Configuration of the manager as YAML, without health and webhook.
	Configuration string
	// Server makes the operator speak to another address than the API server's, as
	// a proxy that knows who it is; without credentials.
	Server string
	// LogLevel of the manager; 0 shows changes of state only.
	LogLevel int
	// Restarted is called when the operator ended and is started again; may be nil.
	Restarted func(err error)
}

// Operator is an installed operator.
type Operator struct {
	// name of the process and of its log.
	name   string
	cp     *controlplane.ControlPlane
	opts   Options
	binary string
	user   *controlplane.User
	// kubeconfig is the file that the process reads.
	kubeconfig string
	config     string
	admission  admission

	failed chan error

	mu      sync.Mutex
	process *controlplane.Process
	// begun is when the process was started, early how many in a row ended soon.
	begun   time.Time
	early   int
	stopped bool
	wg      sync.WaitGroup
}

const (
	// soon and maxEarly tell a manager that cannot work at all from one that was
	// killed: that many in a row that lived shorter are not started again.
	soon     = 3 * time.Second
	maxEarly = 3
)

// Install builds the manager and applies kinds, rights and admission, as a user
// would. The webhooks ask the process that Start starts.
func Install(ctx context.Context, cp *controlplane.ControlPlane, opts Options) (*Operator, error) {
	o := &Operator{
		name: "manager", cp: cp, opts: opts,
		binary: filepath.Join(cp.Dir(), "manager"),
		config: filepath.Join(cp.Dir(), "manager.yaml"),
		failed: make(chan error, 1),
	}
	if err := Build(ctx, opts.Root, o.binary); err != nil {
		return nil, err
	}
	if err := o.configure(opts.Configuration); err != nil {
		return nil, fmt.Errorf("install operator: %w", err)
	}
	objects, err := o.render(ctx)
	if err != nil {
		return nil, fmt.Errorf("install operator: %w", err)
	}
	if _, err := Apply(ctx, cp, objects); err != nil {
		return nil, fmt.Errorf("install operator: %w", err)
	}
	user, err := cp.AddUser(UserName, userGroups...)
	if err != nil {
		return nil, fmt.Errorf("install operator: %w", err)
	}
	o.user, o.kubeconfig = user, user.KubeconfigFile
	if opts.Server != "" {
		if err := o.throughServer(); err != nil {
			return nil, fmt.Errorf("install operator: %w", err)
		}
	}
	return o, nil
}

// Another is a second process of an installed operator, as the same user, with a
// configuration of its own. The API server does not ask its webhooks.
func (o *Operator) Another(name, configuration string) (*Operator, error) {
	another := &Operator{
		name: name, cp: o.cp, opts: o.opts, binary: o.binary, user: o.user, kubeconfig: o.kubeconfig,
		config: filepath.Join(o.cp.Dir(), name+".yaml"), failed: make(chan error, 1),
	}
	if err := another.configure(configuration); err != nil {
		return nil, fmt.Errorf("install another operator: %w", err)
	}
	return another, nil
}

// configure chooses where the process listens, and writes its configuration.
func (o *Operator) configure(configuration string) error {
	health, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	if o.admission.port, err = controlplane.FreePort(); err != nil {
		return err
	}
	o.admission.health = fmt.Sprintf("127.0.0.1:%d", health)
	o.admission.certDir = filepath.Join(o.cp.Dir(), "serving-certs")
	return os.WriteFile(o.config, []byte(configuration+o.admission.settings()), 0o600)
}

// throughServer writes a kubeconfig that names the server alone.
func (o *Operator) throughServer() error {
	o.kubeconfig = filepath.Join(o.cp.Dir(), "manager-server.kubeconfig")
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"server": {Server: o.opts.Server}},
		Contexts:       map[string]*clientcmdapi.Context{"server": {Cluster: "server"}},
		CurrentContext: "server",
	}, o.kubeconfig)
}

// User is who the operator is to the API server.
func (o *Operator) User() *controlplane.User { return o.user }

// Build builds the manager from the source at root.
func Build(ctx context.Context, root, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/manager")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build manager: %w\n%s", err, out)
	}
	return nil
}

// Kubectl runs kubectl as administrator and returns what it printed. The error
// carries what it said.
func (o *Operator) Kubectl(ctx context.Context, args ...string) (string, error) {
	return Kubectl(ctx, o.cp, args...)
}

// Kubectl runs the control plane's kubectl as administrator, and returns what it
// printed. The error carries what it said.
func Kubectl(ctx context.Context, cp *controlplane.ControlPlane, args ...string) (string, error) {
	out, _, err := kubectl(ctx, cp, nil, args...)
	return out, err
}

// Apply applies objects as a user does, and returns what kubectl printed and
// warned of.
func Apply(ctx context.Context, cp *controlplane.ControlPlane, objects []*unstructured.Unstructured) (string, error) {
	stream, err := manifests.Write(objects)
	if err != nil {
		return "", err
	}
	out, warnings, err := kubectl(ctx, cp, bytes.NewReader(stream), "apply", "--server-side", "-f", "-")
	return out + warnings, err
}

func kubectl(ctx context.Context, cp *controlplane.ControlPlane, in io.Reader, args ...string) (out, warnings string, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(cp.AssetsDir(), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cp.KubeconfigFile())
	var printed, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &printed, &said
	if err := cmd.Run(); err != nil {
		return printed.String(), said.String(), fmt.Errorf("kubectl %v: %w: %s", args, err, bytes.TrimSpace(said.Bytes()))
	}
	return printed.String(), said.String(), nil
}

// Start runs the operator until Stop. If it ends by itself it is started
// again, as a kubelet would.
func (o *Operator) Start() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped, o.early = false, 0
	return o.start()
}

func (o *Operator) start() error {
	p, err := o.cp.Run(controlplane.Command{
		Name: o.name, Path: o.binary,
		Args: []string{
			"--config", o.config, "--kubeconfig", o.kubeconfig, "--namespace", Namespace,
			"--log-format", "console", "--log-level", fmt.Sprint(o.opts.LogLevel),
		},
	})
	if err != nil {
		return fmt.Errorf("start operator: %w", err)
	}
	o.process, o.begun = p, time.Now()
	o.wg.Go(func() { o.watch(p) })
	return nil
}

func (o *Operator) watch(p *controlplane.Process) {
	<-p.Done()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopped || o.process != p {
		return
	}
	if o.early++; time.Since(o.begun) > soon {
		o.early = 0
	}
	ended := fmt.Errorf("operator ended (%s)", p.State())
	if o.early >= maxEarly {
		o.failed <- fmt.Errorf("%w %d times within %s of its start:\n%s", ended, o.early, soon, controlplane.LogTail(p.LogFile()))
		return
	}
	if err := o.start(); err != nil {
		o.failed <- err
		return
	}
	if o.opts.Restarted != nil {
		o.opts.Restarted(ended)
	}
}

// Failed says once why the operator is not started any more.
func (o *Operator) Failed() <-chan error { return o.failed }

// LogTail is the end of the operator's log.
func (o *Operator) LogTail() string {
	return controlplane.LogTail(filepath.Join(o.cp.LogDir(), o.name+".log"))
}

// Process is the running process.
func (o *Operator) Process() *controlplane.Process {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.process
}

// Kill ends the operator as kill -9 does; it is started again.
func (o *Operator) Kill() error {
	if err := syscall.Kill(o.Process().Pid(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill operator: %w", err)
	}
	return nil
}

// Stop ends the operator. It may be started again.
func (o *Operator) Stop() error {
	o.mu.Lock()
	o.stopped = true
	p := o.process
	o.mu.Unlock()
	if p == nil {
		return nil
	}
	err := p.Stop()
	o.wg.Wait()
	o.mu.Lock()
	o.process = nil
	o.mu.Unlock()
	return err
}
