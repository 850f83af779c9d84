package envtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/cmd/devcluster/assets"
	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
)

// cluster is the control plane of all tests: etcd and kube-apiserver.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	cluster, err = controlplane.Start(context.Background(), controlplane.Options{
		Assets: assets.Options{Components: []string{"kube-apiserver", "etcd"}, Out: os.Stderr},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "envtest:", err)
		return 1
	}
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "envtest:", err)
		return 1
	}
	return code
}
