package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// A configMap that changes brings the new files to the host, and runs nothing
// but config. A higher version is an upgrade, and the step is told from where.
func TestConfigChangeAndUpgrade(t *testing.T) {
	fresh(t, first, second)
	manifest := func(version, settings string) string {
		return `apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: change
spec:
  packages:
    alpha:
      version: ` + version + `
      image: registry.invalid/e2e/alpha
      configMap: {settings: "` + settings + `"}
`
	}
	install(t, "change", manifest("1.0.0", "one"))
	wantReady(t, "change")
	forget(t, first, second)

	apply(t, manifest("1.0.0", "two"))
	wantReady(t, "change")
	for _, node := range []string{first, second} {
		wantComplete(t, node, "change", "alpha", "1.0.0", nodestate.StageConfig)
		wantFile(t, node, "etc/e2e/alpha.settings", "two")
		for _, line := range journal(t, node, "alpha") {
			if !strings.HasPrefix(line, "1.0.0 config") {
				t.Errorf("a change of the configMap ran on %s: %s", node, line)
			}
		}
	}
	forget(t, first, second)

	apply(t, manifest("1.1.0", "two"))
	wantReady(t, "change")
	for _, node := range []string{first, second} {
		wantComplete(t, node, "change", "alpha", "1.1.0", nodestate.StageConfig)
		wantFile(t, node, "etc/e2e/alpha", "1.1.0")
		lines := journal(t, node, "alpha")
		if len(lines) == 0 || lines[0] != "1.1.0 upgrade begin 1.0.0" {
			t.Errorf("the upgrade on %s begins with %q", node, lines)
		}
		if slices.Contains(lines, "1.1.0 apply begin") {
			t.Errorf("the upgrade on %s applied: %q", node, lines)
		}
	}
}
