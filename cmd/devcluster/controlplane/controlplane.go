package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/nodewright/nodewright/cmd/devcluster/assets"
)

// ControlPlane is a running control plane. Its methods may be called from several goroutines.
type ControlPlane struct {
	opts      Options
	assetsDir string
	guard     *guard
	env       *envtest.Environment
	envLogs   []*os.File

	config         *rest.Config
	kubeconfig     []byte
	kubeconfigFile string

	mu        sync.Mutex
	kwok      *Process
	processes []*Process

	stopOnce sync.Once
	stopErr  error
}

// Start starts a control plane and returns when it is ready for work: the API server serves, CRDs are established, the default
// service account exists (with a controller manager) and kwok watches (with kwok). ctx bounds the start only. After an error nothing
// is left.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	opts = opts.withDefaults()
	dir, err := assets.Ensure(ctx, opts.Assets)
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, opts.StartTimeout,
		fmt.Errorf("not ready within %s", opts.StartTimeout))
	defer cancel()
	g, err := newGuard(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	cp := &ControlPlane{opts: opts, assetsDir: dir, guard: g}
	if err := cp.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane: %w", err), cp.Stop())
	}
	return cp, nil
}

func (cp *ControlPlane) start(ctx context.Context) error {
	if err := cp.startEnvironment(ctx); err != nil {
		return err
	}
	if cp.opts.ControllerManager {
		if err := cp.startControllerManager(ctx); err != nil {
			return err
		}
	}
	if cp.opts.Kwok {
		return cp.startKwok(ctx)
	}
	return nil
}

// Stop ends all processes and removes all files. Objects are not deleted first. It may be called several times.
func (cp *ControlPlane) Stop() error {
	cp.stopOnce.Do(func() { cp.stopErr = cp.stop() })
	return cp.stopErr
}

func (cp *ControlPlane) stop() error {
	cp.mu.Lock()
	processes := slices.Clone(cp.processes)
	cp.mu.Unlock()
	var errs []error
	if cp.kwok != nil {
		// A paused process does not see that it is to end.
		errs = append(errs, cp.ResumeKwok())
	}
	// The last started first: it may need those before it to end well.
	for _, p := range slices.Backward(processes) {
		errs = append(errs, p.Stop())
	}
	if cp.env != nil {
		if err := cp.env.Stop(); err != nil {
			errs = append(errs, fmt.Errorf("stop API server and etcd: %w", err))
		}
		errs = append(errs, cp.guard.removePortReservations())
	}
	for _, log := range cp.envLogs {
		errs = append(errs, log.Close())
	}
	errs = append(errs, cp.guard.close())
	return errors.Join(errs...)
}

// Config returns the configuration of a client with all rights (group system:masters). It is a copy.
func (cp *ControlPlane) Config() *rest.Config { return rest.CopyConfig(cp.config) }

// Kubeconfig returns a kubeconfig for the same user as Config.
func (cp *ControlPlane) Kubeconfig() []byte { return slices.Clone(cp.kubeconfig) }

// KubeconfigFile returns the path of a file with Kubeconfig. Stop removes it.
func (cp *ControlPlane) KubeconfigFile() string { return cp.kubeconfigFile }

// AssetsDir returns the directory of the binaries, kubectl among them.
func (cp *ControlPlane) AssetsDir() string { return cp.assetsDir }

// Dir returns the directory that holds all files of this control plane. Callers may put files of their own there; Stop removes it.
func (cp *ControlPlane) Dir() string { return cp.guard.dir }

// LogDir returns the directory of the logs, one file per process.
func (cp *ControlPlane) LogDir() string { return cp.guard.path(logDir) }

// Pids returns the IDs of the running processes by name: etcd, kube-apiserver, kube-controller-manager, kwok and those of Run.
func (cp *ControlPlane) Pids() map[string]int { return cp.guard.pids() }

// User is a user of the API server, authenticated by a client certificate.
type User struct {
	// Config is the configuration of a client.
	Config *rest.Config
	// Kubeconfig is the same as a kubeconfig, KubeconfigFile the path of a file with it, which Stop removes.
	Kubeconfig     []byte
	KubeconfigFile string
}

// AddUser makes a user. What it may do depends on RBAC, on its groups and, for kubelets, on the node authorizer: name
// system:node:<node>, group system:nodes.
func (cp *ControlPlane) AddUser(name string, groups ...string) (*User, error) {
	user, err := cp.env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	file, err := cp.guard.writeKubeconfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	return &User{Config: user.Config(), Kubeconfig: kubeconfig, KubeconfigFile: file}, nil
}

func (g *guard) writeKubeconfig(content []byte) (string, error) {
	file, err := os.CreateTemp(g.dir, "*.kubeconfig")
	if err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	if _, err := file.Write(content); err != nil {
		return "", errors.Join(fmt.Errorf("write kubeconfig: %w", err), file.Close())
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return file.Name(), nil
}
