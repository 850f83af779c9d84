package e2e

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
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

// Three packages in the order of their dependencies, on both nodes. No pod of
// theirs has a token for the API server (SE-01).
func TestInstall(t *testing.T) {
	fresh(t, first, second)
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
	list, err := bed.admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: packagejob.LabelName + "=three"})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("%d pods of packages (%v)", len(list.Items), err)
	}
	for i := range list.Items {
		for _, v := range list.Items[i].Spec.Volumes {
			if v.Secret != nil || v.Projected != nil {
				t.Errorf("pod %s has the volume %s", list.Items[i].Name, v.Name)
			}
		}
	}
}
