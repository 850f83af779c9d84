package admission

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
)

// bed is what all tests use.
var bed *installation

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	cluster, err := controlplane.Start(ctx, controlplane.Options{
		Assets: assets.Options{Components: []string{"kube-apiserver", "etcd", "kubectl"}, Out: os.Stderr},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "admission:", err)
		return 1
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "admission:", err)
			code = 1
		}
	}()
	if bed, err = install(ctx, cluster); err != nil {
		fmt.Fprintln(os.Stderr, "admission:", err)
		return 1
	}
	code = m.Run()
	if err := bed.server.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "admission:", err)
		return 1
	}
	return code
}
