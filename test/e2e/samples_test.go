package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/test/manifests"
)

// samplesDir has packages and their manifest, below the root of the module.
const samplesDir = "config/samples/packages"

// samples reads the manifest of the sample packages.
func samples() (*v1alpha1.NodeWright, []byte, error) {
	root, err := manifests.Root()
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, samplesDir, "nodewright_samples.yaml"))
	if err != nil {
		return nil, nil, err
	}
	nw := &v1alpha1.NodeWright{}
	return nw, text, yaml.UnmarshalStrict(text, nw)
}

// makeSamples makes the images that the manifest of the samples names.
func (c *cluster) makeSamples(ctx context.Context, root string) error {
	nw, _, err := samples()
	if err != nil {
		return err
	}
	for name := range nw.Spec.Packages {
		p := nw.Spec.Packages[name]
		dir := filepath.Join(root, samplesDir, name, "nodewright-package")
		if err := c.buildPackage(ctx, p.Image+":"+p.Version, dir, filepath.Join(c.cp.Dir(), "packages", name+".tar"), ""); err != nil {
			return err
		}
	}
	return nil
}

// The packages under config/samples/packages, as their manifest has them, on a
// labelled node. Deleting it leaves the host as it was.
func TestSamples(t *testing.T) {
	node := lease(t, first)
	nw, manifest, err := samples()
	if err != nil {
		t.Fatal(err)
	}
	fresh(t, node)
	const parameter = "proc/sys/vm/max_map_count"
	put(t, node, "etc/hosts", "127.0.0.1 localhost\n")
	put(t, node, parameter, "65530\n")
	kubectl(t, "label", "node", node, "example.com/samples=true")
	t.Cleanup(func() { unlabel(t, node, "example.com/samples") })
	install(t, nw.Name, string(manifest))
	for name := range nw.Spec.Packages {
		wantComplete(t, node, nw.Name, name, nw.Spec.Packages[name].Version, nodestate.StageConfig)
	}
	wantReady(t, nw.Name)
	wantFile(t, node, parameter, "262144")
	wantFile(t, node, "run/active-journal-vacuum.timer", "")
	if hosts, err := file(node, "etc/hosts"); err != nil || !strings.Contains(hosts, "192.0.2.10 registry.example") {
		t.Errorf("/etc/hosts holds %q (%v)", hosts, err)
	}
	// Of its own counts only: another test may have taken the other node away.
	if got := kubectl(t, "get", "nodewright", nw.Name, "-o", "jsonpath={.status.nodes.selected}"); got != "1" {
		t.Errorf("%s selects %s nodes, one is labelled", nw.Name, got)
	}

	kubectl(t, "delete", "nodewright", nw.Name, "--timeout=120s")
	wantFile(t, node, "etc/hosts", "127.0.0.1 localhost")
	wantFile(t, node, parameter, "65530")
	for _, path := range []string{
		"etc/sysctl.d/90-nodewright-sysctl.conf", "etc/systemd/system/journal-vacuum.timer", "etc/systemd/system/journal-vacuum.service",
		"run/active-journal-vacuum.timer",
	} {
		wantNoFile(t, node, path)
	}
}
