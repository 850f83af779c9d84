package e2e

import (
	"slices"
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
)

const threePackages = `apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: three
spec:
  packages:
    alpha: {version: 1.0.0, image: registry.invalid/e2e/alpha}
    beta: {version: 1.0.0, image: registry.invalid/e2e/beta, dependsOn: {alpha: 1.0.0}}
    gamma:
      version: 1.0.0
      image: registry.invalid/e2e/gamma
      dependsOn: {beta: 1.0.0}
      configMap: {settings: "one"}
`

// Three packages in the order of their dependencies, on both nodes.
func TestInstall(t *testing.T) {
	fresh(t)
	install(t, "three", threePackages)
	wantReady(t, "three")
	for _, node := range []string{first, second} {
		for _, pkg := range []string{"alpha", "beta", "gamma"} {
			wantComplete(t, node, "three", pkg, "1.0.0", nodestate.StageConfig)
			wantFile(t, node, "etc/e2e/"+pkg, "1.0.0")
			if got := journal(t, node, pkg); !slices.Equal(got, []string{
				"1.0.0 apply begin", "1.0.0 apply end", "1.0.0 apply-check begin", "1.0.0 apply-check end",
				"1.0.0 config begin", "1.0.0 config end", "1.0.0 config-check begin", "1.0.0 config-check end",
			}) {
				t.Errorf("%s on %s: %q", pkg, node, got)
			}
		}
		wantFile(t, node, "etc/e2e/gamma.settings", "one")
		wantEvent(t, "three", "NodeComplete", node)
	}
}
