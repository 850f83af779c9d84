package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/test/manifests"
)

// kubectlApply applies as a user does, and returns all that kubectl says.
func kubectlApply(t *testing.T, manifest string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bed.cluster.AssetsDir(), "kubectl"),
		append([]string{"--kubeconfig", bed.cluster.KubeconfigFile(), "apply", "-f", "-"}, args...)...)
	cmd.Stdin = strings.NewReader(manifest)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// remove takes objects away when the test ends.
func remove(t *testing.T, c client.Client, objects ...*unstructured.Unstructured) {
	t.Helper()
	t.Cleanup(func() {
		for _, o := range objects {
			if err := client.IgnoreNotFound(c.Delete(context.Background(), o)); err != nil {
				t.Error(err)
			}
		}
	})
}

// kept compares what a user wrote with what is stored: all of it is there, in
// the same spelling. What is there besides are defaults.
func kept(path string, wrote, stored any) []string {
	switch wrote := wrote.(type) {
	case map[string]any:
		have, ok := stored.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, an object was written", path, stored)}
		}
		var out []string
		for key, value := range wrote {
			out = append(out, kept(path+"."+key, value, have[key])...)
		}
		return out
	default:
		// Numbers have the same spelling, not the same Go type.
		if diff := cmp.Diff(text(wrote), text(stored)); diff != "" {
			return []string{fmt.Sprintf("%s (-wrote +stored):\n%s", path, diff)}
		}
		return nil
	}
}

func text(value any) string {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// WH-14, WH-15: what ships as sample, and a manifest in spellings that a decoder
// would rewrite, keep each value; applied again by whom they came from, or by
// another that forces, they do not change at all.
func TestSpecKeepsItsBytes_WH14_WH15(t *testing.T) {
	c := objectsClient(t)
	samples, err := manifests.Render(t.Context(), "config/samples")
	if err != nil {
		t.Fatal(err)
	}
	objects := append(samples, object(t, "NodeWright", "spellings",
		`{nodeSelectors: {matchLabels: {pool: none}}, stageTimeout: 60m, jobTTL: {failed: 1440m}, interruptionBudget: {count: 1},
		 drain: {timeout: 3600s}, packages: {pa: {version: v1.0, image: "localhost:5000/pa", stageTimeout: 0.5h, gracefulShutdown: 90s,
		 resources: {cpuRequest: 4000m, cpuLimit: "4", memoryRequest: 8192Mi, memoryLimit: 8Gi}, env: [{name: A, value: "1.0"}]}}}`))
	for _, o := range objects {
		t.Run(o.GetKind()+" "+o.GetName(), func(t *testing.T) {
			manifest := text(o)
			if out, err := kubectlApply(t, manifest, "--server-side"); err != nil {
				t.Fatal(out)
			}
			stored := &unstructured.Unstructured{}
			stored.SetGroupVersionKind(o.GroupVersionKind())
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), stored); err != nil {
				t.Fatal(err)
			}
			remove(t, c, stored)
			for _, problem := range kept("spec", o.Object["spec"], stored.Object["spec"]) {
				t.Error(problem)
			}
			for range 3 {
				for _, args := range [][]string{{"--server-side"}, {"--server-side", "--force-conflicts", "--field-manager=gitops"}} {
					if out, err := kubectlApply(t, manifest, args...); err != nil {
						t.Fatal(out)
					}
				}
			}
			again := stored.DeepCopy()
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), again); err != nil {
				t.Fatal(err)
			}
			if again.GetGeneration() != 1 {
				t.Errorf("generation %d, want 1", again.GetGeneration())
			}
			if diff := cmp.Diff(stored.Object["spec"], again.Object["spec"]); diff != "" {
				t.Errorf("the spec changed (-first +later):\n%s", diff)
			}
			version := again.GetResourceVersion()
			for range 3 {
				if out, err := kubectlApply(t, manifest, "--server-side", "--force-conflicts", "--field-manager=gitops"); err != nil {
					t.Fatal(out)
				}
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), again); err != nil {
				t.Fatal(err)
			}
			if again.GetResourceVersion() != version {
				t.Errorf("resource version %s, want %s still: the same manifest writes for ever", again.GetResourceVersion(), version)
			}
		})
	}
}

// The name that is filled in belongs to nobody: whoever takes the package out of
// his manifest takes it out of the object, name and all.
func TestDefaultedNameGoesWithItsPackage(t *testing.T) {
	c := objectsClient(t)
	const name = "leaves"
	both := object(t, "NodeWright", name, goodNodeWright)
	one := object(t, "NodeWright", name, `{nodeSelectors: {matchLabels: {pool: none}}, packages: {pa: {version: 1.0.0, image: registry.example/pa}}}`)
	remove(t, c, both.DeepCopy())
	for _, o := range []*unstructured.Unstructured{both, one} {
		if out, err := kubectlApply(t, text(o), "--server-side"); err != nil {
			t.Fatal(out)
		}
		stored := o.DeepCopy()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), stored); err != nil {
			t.Fatal(err)
		}
		want, _, _ := unstructured.NestedMap(o.Object, "spec", "packages")
		for key := range want {
			if err := unstructured.SetNestedField(want, key, key, "name"); err != nil {
				t.Fatal(err)
			}
		}
		got, _, _ := unstructured.NestedMap(stored.Object, "spec", "packages")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("packages (-want +got):\n%s", diff)
		}
	}
}

// ST-23: a policy and the NodeWright that names it, in one file in either order,
// are taken 200 times, whatever the webhook's cache knows yet. With the policy
// first nothing is said about it.
func TestPolicyAndNodeWrightInOneApply_ST23(t *testing.T) {
	c := objectsClient(t)
	const tries = 200
	for i := range tries {
		name := fmt.Sprintf("together-%d", i)
		policy := object(t, "DeploymentPolicy", name, goodPolicy)
		nw := object(t, "NodeWright", name, strings.Replace(goodNodeWright, "{", "{deploymentPolicy: "+name+", ", 1))
		order := []*unstructured.Unstructured{policy, nw}
		if i%2 == 1 {
			order = []*unstructured.Unstructured{nw, policy}
		}
		var warned []string
		for _, o := range order {
			said, err := createWarned(t, o)
			if err != nil {
				t.Fatalf("try %d: %v", i, err)
			}
			warned = append(warned, said...)
		}
		missing := strings.Contains(strings.Join(warned, "\n"), "there is no DeploymentPolicy "+name)
		if missing != (i%2 == 1) {
			t.Fatalf("try %d: warnings %q", i, warned)
		}
		if err := c.Delete(t.Context(), nw); err != nil {
			t.Fatal(err)
		}
		// Nobody names it any more, and no cache may say otherwise.
		if err := c.Delete(t.Context(), policy); err != nil {
			t.Fatalf("try %d: %v", i, err)
		}
	}
}

// createWarned creates an object and returns the warnings of the API server.
func createWarned(t *testing.T, o *unstructured.Unstructured) ([]string, error) {
	t.Helper()
	heard := &warnings{}
	config := bed.cluster.Config()
	config.QPS = -1
	config.WarningHandler = heard
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Create(t.Context(), o)
	return heard.text, err
}

// CV-07: what users type for a duration, and what they are told.
func TestDurations_CV07(t *testing.T) {
	serverSide := []string{"--server-side"}
	tests := map[string]struct {
		value string
		want  []string
		// args of kubectl, server-side if there are none.
		args []string
	}{
		"CV-07 hours and a half": {value: `1.5h`},
		"CV-07 days":             {value: `1d`, want: []string{"stageTimeout", "no unit for days", "24h"}},
		"CV-07 no unit":          {value: `"60"`, want: []string{"stageTimeout", "a duration with units"}},
		// Merging on the server needs a typed value before any webhook is asked.
		"CV-07 a number": {value: `60`, want: []string{"stageTimeout", "expected string"}},
		"CV-07 a number, not server-side": {value: `60`, args: []string{"--validate=false"},
			want: []string{"Warning: spec.stageTimeout: 60 is not a duration", "60s", "string"}},
		"WH-11 no time bound": {value: `"0"`},
		"WH-11 half a second": {value: `500ms`, want: []string{"stageTimeout", "1s"}},
		"WH-11 negative":      {value: `"-1s"`, want: []string{"stageTimeout"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			manifest := "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata: {name: durations}\nspec: " +
				strings.Replace(goodNodeWright, "{", "{stageTimeout: "+tc.value+", ", 1)
			if tc.args == nil {
				tc.args = serverSide
			}
			out, err := kubectlApply(t, manifest, append(slices.Clone(tc.args), "--dry-run=server")...)
			if (err == nil) != (tc.want == nil) {
				t.Fatalf("error %v, kubectl says %s", err, out)
			}
			for _, word := range tc.want {
				if !strings.Contains(out, word) {
					t.Errorf("kubectl says %q, want it to name %q", out, word)
				}
			}
		})
	}
}

// WH-17: a package that can be uninstalled stays while a node has it, also one
// that is not selected and not ready.
func TestRemovalWhileANodeHasIt_WH17(t *testing.T) {
	c := objectsClient(t)
	const name = "holds"
	nw := object(t, "NodeWright", name, strings.Replace(goodNodeWright, "{version: 1.0.0, image: registry.example/pb}",
		"{version: 1.0.0, image: registry.example/pb, uninstall: {enabled: true}}", 1))
	if err := c.Create(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	remove(t, c, nw)
	node := &unstructured.Unstructured{}
	node.SetAPIVersion("v1")
	node.SetKind("Node")
	node.SetName("holds-pb")
	if err := c.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	remove(t, c, node)
	const key = "nodewright.nvidia.com/nodeState_holds_pb"
	value := `{"image":"registry.example/pb","name":"pb","nodewright":"holds","run":1,"stage":"config","state":"complete","version":"1.0.0"}`
	annotate := func(body map[string]any) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": body}})
		if err != nil {
			t.Fatal(err)
		}
		// The administrator breaks the glass.
		if err := c.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}
	annotate(map[string]any{key: value})
	drop := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"packages":{"pb":null}}}`))
	// Dry: the cache may not have the node yet, and the package must stay.
	eventually(t, "removal is refused", func() error {
		err := c.Patch(t.Context(), nw.DeepCopy(), drop, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "node holds-pb") || !strings.Contains(err.Error(), "spec.packages[pb]") {
			return fmt.Errorf("the answer is: %w", err)
		}
		return nil
	})
	annotate(map[string]any{key: nil})
	eventually(t, "removal is admitted", func() error { return c.Patch(t.Context(), nw, drop) })
}
