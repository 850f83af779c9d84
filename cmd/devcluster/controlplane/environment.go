package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	etcdName      = "etcd"
	apiServerName = "kube-apiserver"

	// componentStartTimeout is how long etcd and the API server may take each. envtest tries five times.
	componentStartTimeout = time.Minute
	// etcdQuotaBytes is the size that etcd recommends as the largest. The default of 2 GiB is reached with about 5,000 nodes and
	// their Jobs.
	etcdQuotaBytes = "8589934592"
)

// startEnvironment starts etcd and the API server and makes the user with all rights.
func (cp *ControlPlane) startEnvironment(ctx context.Context) error {
	env, err := cp.newEnvironment()
	if err != nil {
		return err
	}
	cp.env = env
	result := make(chan error, 1)
	go func() {
		_, err := env.Start()
		result <- err
	}()
	select {
	case err = <-result:
	case <-ctx.Done():
		// envtest cannot be cancelled. Once nothing can start any more its attempts fail at once.
		err = errors.Join(context.Cause(ctx), cp.guard.killAll(), <-result)
	}
	if err != nil {
		return fmt.Errorf("start API server and etcd: %w: etcd, %s\nkube-apiserver, %s", err,
			LogTail(cp.guard.path(logDir, etcdName+".log")), LogTail(cp.guard.path(logDir, apiServerName+".log")))
	}
	cp.config, cp.kubeconfig = env.Config, env.KubeConfig
	cp.kubeconfigFile, err = cp.guard.writeKubeconfig(env.KubeConfig)
	return err
}

func (cp *ControlPlane) newEnvironment() (*envtest.Environment, error) {
	existing := false // The variable USE_EXISTING_CLUSTER must not lead to somebody's cluster.
	env := &envtest.Environment{
		UseExistingCluster:       &existing,
		CRDDirectoryPaths:        cp.opts.CRDDirs,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: componentStartTimeout,
	}
	env.ControlPlane.KubectlPath = filepath.Join(cp.assetsDir, "kubectl")
	env.ControlPlane.Etcd = &envtest.Etcd{DataDir: cp.guard.path("etcd")}
	server := env.ControlPlane.GetAPIServer()
	server.CertDir = cp.guard.path("apiserver")
	for _, dir := range []string{env.ControlPlane.Etcd.DataDir, server.CertDir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create directory: %w", err)
		}
	}
	for _, component := range []struct {
		name     string
		path     *string
		out, err *io.Writer
	}{
		{etcdName, &env.ControlPlane.Etcd.Path, &env.ControlPlane.Etcd.Out, &env.ControlPlane.Etcd.Err},
		{apiServerName, &server.Path, &server.Out, &server.Err},
	} {
		wrapper, err := cp.guard.wrap(component.name, filepath.Join(cp.assetsDir, component.name))
		if err != nil {
			return nil, err
		}
		log, err := cp.guard.openLog(component.name)
		if err != nil {
			return nil, err
		}
		cp.envLogs = append(cp.envLogs, log)
		*component.path, *component.out, *component.err = wrapper, log, log
	}
	if cp.opts.HighScale {
		env.ControlPlane.Etcd.Configure().Set("quota-backend-bytes", etcdQuotaBytes)
	}
	return env, cp.configureServer(server)
}

func (cp *ControlPlane) configureServer(server *envtest.APIServer) error {
	args := server.Configure().
		Set("authorization-mode", "Node", "RBAC").
		Append("enable-admission-plugins", "NodeRestriction")
	if cp.opts.ControllerManager {
		// envtest switches service accounts off because nobody makes them; the controller manager does.
		args.Disable("disable-admission-plugins")
	}
	if cp.opts.Audit {
		policy := cp.guard.path("audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return fmt.Errorf("write audit policy: %w", err)
		}
		args.Set("audit-policy-file", policy).
			Set("audit-log-path", cp.AuditLog()).
			// Blocking: no event is dropped under load. Size 0: the file is never rotated.
			Set("audit-log-mode", "blocking").
			Set("audit-log-maxsize", "0")
	}
	for name, value := range cp.opts.APIServerArgs {
		args.Set(name, value)
	}
	return nil
}

var portInArgument = regexp.MustCompile(`(?::|^--secure-port=)(\d+)$`)

// removePortReservations removes the files with which envtest reserves ports among its own runs. It makes them in the user's cache
// directory and removes them only in a later run, when they are two minutes old.
func (g *guard) removePortReservations() error {
	var errs []error
	for _, file := range g.portReservations() {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove reservation of a port: %w", err))
		}
	}
	return errors.Join(errs...)
}

// portReservations finds the ports in the arguments that etcd and the API server were started with: envtest does not tell the peer
// port of etcd.
func (g *guard) portReservations() []string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	var files []string
	for _, words := range g.notes() {
		if words[0] != etcdName && words[0] != apiServerName {
			continue
		}
		for _, word := range words {
			if match := portInArgument.FindStringSubmatch(word); match != nil {
				files = append(files, filepath.Join(cache, "kubebuilder-envtest", "port-"+match[1]))
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
