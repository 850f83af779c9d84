package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/hack/images/oci"
	"github.com/nodewright/nodewright/test/manifests"
)

const earlierAgent = registry + "earlier-agent:6.4"

// makeEarlierAgent makes the image of an agent from before NodeWright.
func (c *cluster) makeEarlierAgent(ctx context.Context) error {
	root, err := manifests.Root()
	if err != nil {
		return err
	}
	binary := filepath.Join(c.cp.Dir(), "images", "earlieragent")
	if err := oci.Compile(ctx, root, "./test/e2e/earlieragent", runtime.GOARCH, binary, os.Stderr); err != nil {
		return err
	}
	c.images.earlierAgent, err = oci.Build(ctx, oci.Agent(earlierAgent, binary), binary+".tar")
	return err
}

// An agent from before NodeWright, named by agentImageOverride, runs all stages
// and an interrupt. The present one goes on from what it left on the host, and the
// other way round.
func TestEarlierAgent(t *testing.T) {
	node := lease(t, second)
	fresh(t, node)
	manifest := func(version, more string) string {
		return alone(node, "earlier", version, "      uninstall: {enabled: true}\n"+more)
	}
	override := "      agentImageOverride: " + earlierAgent + "\n"
	install(t, "earlier", manifest("1.0.0", override+"      interrupt: "+service+"\n"))
	wantComplete(t, second, "earlier", "alpha", "1.0.0", nodestate.StagePostInterrupt)
	wantFile(t, second, "etc/e2e/alpha", "1.0.0")
	wantFile(t, second, "var/lib/e2e/calls", "systemctl daemon-reload\nsystemctl restart e2e.service")
	wantNoFile(t, second, "etc/resolv.conf")
	wantImages(t, "earlier", earlierAgent, bed.images.agent.Name)
	wantHistory(t, "earlier", "alpha", "1.0.0")

	apply(t, manifest("1.1.0", ""))
	wantComplete(t, second, "earlier", "alpha", "1.1.0", nodestate.StageConfig)
	if lines := journal(t, second, "alpha"); !slices.Contains(lines, "1.1.0 upgrade begin 1.0.0") {
		t.Errorf("the upgrade was not told of what an earlier agent installed: %q", lines)
	}
	wantHistory(t, "earlier", "alpha", "1.1.0", "1.0.0")

	apply(t, manifest("1.2.0", override))
	wantComplete(t, second, "earlier", "alpha", "1.2.0", nodestate.StageConfig)
	if lines := journal(t, second, "alpha"); !slices.Contains(lines, "1.2.0 upgrade begin 1.1.0") {
		t.Errorf("the earlier agent did not see what the present one installed: %q", lines)
	}
	kubectl(t, "delete", "nodewright", "earlier", "--timeout=90s")
	wantNoFile(t, second, "etc/e2e/alpha")
}

// wantHistory: the host has these versions of a package, the present one first.
func wantHistory(t *testing.T, nw, pkg string, versions ...string) {
	t.Helper()
	text, err := file(second, filepath.Join("var/lib/skyhook", nw, "history", pkg+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var h struct {
		Current string `json:"current-version"`
		History []struct{ Version string }
	}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, past := range h.History {
		got = append(got, past.Version)
	}
	if h.Current != versions[0] || !slices.Equal(got, versions) {
		t.Errorf("the history of %s is %s, want %q", pkg, text, versions)
	}
}

// wantImages: the stages ran with one agent, and ended with another one.
func wantImages(t *testing.T, nw, stage, last string) {
	t.Helper()
	list, err := bed.admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: packagejob.LabelName + "=" + nw})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		t.Fatal("the pods of the package are gone")
	}
	for i := range list.Items {
		p := &list.Items[i]
		for j := range p.Spec.InitContainers {
			if c := &p.Spec.InitContainers[j]; !strings.HasSuffix(c.Name, "-init") && c.Image != stage {
				t.Errorf("%s of pod %s ran %s", c.Name, p.Name, c.Image)
			}
		}
		if c := &p.Spec.Containers[0]; c.Image != last {
			t.Errorf("%s of pod %s ran %s", c.Name, p.Name, c.Image)
		}
	}
}
