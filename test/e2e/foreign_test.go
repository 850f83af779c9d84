package e2e

import (
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// A package in the form of existing ones: a shell script per mode, which reads
// what to do from the configMap. Deleting the NodeWright uninstalls it.
func TestForeignPackageAndDeletion(t *testing.T) {
	const manifest = `apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: foreign
spec:
  packages:
    shellscript:
      version: 1.1.1
      image: registry.invalid/e2e/shellscript
      uninstall: {enabled: true}
      env: [{name: TEAM, value: platform}]
      configMap:
        apply.sh: |
          #!/bin/sh
          echo "managed by $TEAM, node $SKYHOOK_NODE_ORDER" > /etc/motd
        apply_check.sh: |
          #!/bin/sh
          grep -q "$TEAM" /etc/motd
        uninstall.sh: |
          #!/bin/sh
          rm /etc/motd
`
	fresh(t, first, second)
	install(t, "foreign", manifest)
	wantReady(t, "foreign")
	for _, node := range []string{first, second} {
		wantComplete(t, node, "foreign", "shellscript", "1.1.1", nodestate.StageConfig)
		if got, err := file(node, "etc/motd"); err != nil || (got != "managed by platform, node 0" && got != "managed by platform, node 1") {
			t.Errorf("/etc/motd on %s holds %q (%v)", node, got, err)
		}
	}
	kubectl(t, "delete", "nodewright", "foreign", "--timeout=120s")
	for _, node := range []string{first, second} {
		wantNoFile(t, node, "etc/motd")
		n, _, err := record(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range n.Annotations {
			if k, ok := nodestate.ParseKey(key); ok && k.Names("foreign", "shellscript") {
				t.Errorf("on %s is left: %s %s", node, key, value)
			}
		}
	}
}
