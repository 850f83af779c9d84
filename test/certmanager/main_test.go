package certmanager

import (
	"context"
	"flag"
	"fmt"
	"os"
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
	crds, err := manifests.CertManagerCRDs(ctx)
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
