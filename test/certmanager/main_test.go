package certmanager

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/cmd/devcluster/assets"
	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/test/manifests"
)

// bed is what all tests use.
var bed *installation

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	// cert-manager is built from its modules the first time, which takes minutes.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	crds, err := certManagerCRDs(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		return 1
	}
	cluster, err := controlplane.Start(ctx, controlplane.Options{
		Assets: assets.Options{Out: os.Stderr, Components: []string{
			"kube-apiserver", "etcd", "kubectl", "cert-manager-controller", "cert-manager-cainjector"}},
		CRDDirs: []string{crds},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		return 1
	}
	bed, err = prepare(ctx, cluster)
	if err == nil {
		code = m.Run()
		err = bed.close()
	}
	for _, err := range []error{err, cluster.Stop()} {
		if err != nil {
			fmt.Fprintln(os.Stderr, "certmanager:", err)
			code = 1
		}
	}
	return code
}

// certManagerCRDs is the directory of cert-manager's CRDs in its module.
func certManagerCRDs(ctx context.Context) (string, error) {
	root, err := manifests.Root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager")
	cmd.Dir = filepath.Join(root, "hack", "certmanager")
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find cert-manager's module: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "deploy", "crds"), nil
}
