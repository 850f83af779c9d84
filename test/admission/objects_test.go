package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodewright/nodewright/test/manifests"
)

// objectsClient is a client for objects of any kind, with all rights.
func objectsClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(bed.cluster.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// object makes an object of ours from its spec.
func object(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	text := "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: " + spec
	if err := yaml.UnmarshalStrict([]byte(text), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	goodNodeWright = `{nodeSelectors: {matchLabels: {pool: none}}, packages: {pa: {version: 1.0.0, image: registry.example/pa}, pb: {version: 1.0.0, image: registry.example/pb}}}`
	// A circle is nothing that a schema sees.
	badNodeWright = `{nodeSelectors: {matchLabels: {pool: none}}, packages: {pa: {version: 1.0.0, image: registry.example/pa, dependsOn: {pb: 1.0.0}}, pb: {version: 1.0.0, image: registry.example/pb, dependsOn: {pa: 1.0.0}}}}`
	goodPolicy    = `{default: {budget: {count: 1}, strategy: {fixed: {initialBatch: 1}}}}`
	badPolicy     = `{default: {budget: {count: 1}, strategy: {fixed: {initialBatch: 1}}}, compartments: [{name: a, budget: {count: 1}, strategy: {fixed: {}}, selector: {matchExpressions: [{key: a, operator: In}]}}]}`
)

// WH-10: for each rule of the configurations, one request that it must refuse,
// and its neighbour that passes.
func TestEveryRuleRefuses_WH10(t *testing.T) {
	c := objectsClient(t)
	create := func(kind, name, spec string) func(*testing.T) error {
		return func(t *testing.T) error { return c.Create(t.Context(), object(t, kind, name, spec)) }
	}
	update := func(kind, name, spec string) func(*testing.T) error {
		return func(t *testing.T) error {
			have := object(t, kind, name, spec)
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(have), have); err != nil {
				t.Fatal(err)
			}
			have.Object["spec"] = object(t, kind, name, spec).Object["spec"]
			return c.Update(t.Context(), have)
		}
	}
	remove := func(kind, name string) func(*testing.T) error {
		return func(t *testing.T) error { return c.Delete(t.Context(), object(t, kind, name, "{}")) }
	}
	steps := []struct {
		name string
		act  func(*testing.T) error
		// webhook that must refuse; empty: nothing does.
		webhook string
	}{
		{"create a wrong NodeWright", create("NodeWright", "rules", badNodeWright), "vnodewright.nodewright.nvidia.com"},
		{"create a NodeWright", create("NodeWright", "rules", goodNodeWright), ""},
		{"make it wrong", update("NodeWright", "rules", badNodeWright), "vnodewright.nodewright.nvidia.com"},
		{"change it", update("NodeWright", "rules", strings.ReplaceAll(goodNodeWright, "1.0.0", "1.1.0")), ""},
		{"create a wrong DeploymentPolicy", create("DeploymentPolicy", "rules", badPolicy), "vdeploymentpolicy.nodewright.nvidia.com"},
		{"create a DeploymentPolicy", create("DeploymentPolicy", "rules", goodPolicy), ""},
		{"make the policy wrong", update("DeploymentPolicy", "rules", badPolicy), "vdeploymentpolicy.nodewright.nvidia.com"},
		{"change the policy", update("DeploymentPolicy", "rules", strings.ReplaceAll(goodPolicy, "count: 1", "count: 2")), ""},
		{"name the policy", update("NodeWright", "rules", strings.Replace(goodNodeWright, "{", "{deploymentPolicy: rules, ", 1)), ""},
		{"delete the policy that is named", remove("DeploymentPolicy", "rules"), "vdeploymentpolicy.nodewright.nvidia.com"},
		{"name it no more", update("NodeWright", "rules", goodNodeWright), ""},
		{"delete the policy", remove("DeploymentPolicy", "rules"), ""},
		{"delete the NodeWright", remove("NodeWright", "rules"), ""},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			// The webhooks read from a cache: what was written a moment ago may not be
			// there yet.
			eventually(t, step.name, func() error {
				err := step.act(t)
				switch {
				case step.webhook == "" && err != nil:
					return err
				case step.webhook != "" && (err == nil || !strings.Contains(err.Error(), step.webhook)):
					return fmt.Errorf("not refused by %s: %w", step.webhook, err)
				default:
					return nil
				}
			})
		})
	}
}

// What changes no spec needs no webhook: finalizers, pausing, deletion.
func TestMetadataMakesNoCall(t *testing.T) {
	c := objectsClient(t)
	const name = "metadata"
	nw := object(t, "NodeWright", name, goodNodeWright)
	if err := c.Create(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	bed.server.forget(name)
	for _, body := range []string{
		`{"metadata":{"finalizers":["nodewright.nvidia.com/finalizer"]}}`,
		`{"metadata":{"annotations":{"nodewright.nvidia.com/pause":"true"}}}`,
		`{"metadata":{"labels":{"a":"b"}}}`,
	} {
		if err := c.Patch(t.Context(), nw, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Delete(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	if err := c.Patch(t.Context(), nw, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if calls := bed.server.calls(name); len(calls) != 0 {
		t.Errorf("calls %v, want none", calls)
	}
}

// withoutMnode keeps the API server from asking mnode until the test ends: what it
// would take off new nodes reaches validation.
func withoutMnode(t *testing.T) {
	t.Helper()
	api := bed.admin.AdmissionregistrationV1().MutatingWebhookConfigurations()
	shipped, err := manifests.As[admissionregistrationv1.MutatingWebhookConfiguration](bed.objects, "MutatingWebhookConfiguration")
	if err != nil {
		t.Fatal(err)
	}
	now, err := api.Get(t.Context(), shipped.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(now.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return w.Name == "mnode.nodewright.nvidia.com" })
	without := now.DeepCopy()
	without.Webhooks[n].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"no": "node"}}
	if without, err = api.Update(t.Context(), without, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		without.Webhooks[n].ObjectSelector = now.Webhooks[n].ObjectSelector
		if _, err := api.Update(context.Background(), without, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := bed.waitUntilAsked(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	const name = "probe-without-mnode"
	eventually(t, "mnode is not asked", func() error {
		client, _ := bed.client(t, kubelet(name))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{stateKey: forged(stateKey)}}}
		if err := client.Post().Resource("nodes").Param("dryRun", metav1.DryRunAll).Body(node).Do(t.Context()).Error(); err == nil {
			return errors.New("the record was taken off")
		}
		return nil
	})
}

// Where mnode was away, vnode refuses a node that brings records along.
func TestForgedCreationWithoutMnode(t *testing.T) {
	withoutMnode(t)
	const name = "forged-without-mnode"
	for brings, edit := range map[string]func(*corev1.Node){
		stateKey:  func(n *corev1.Node) { n.Annotations[stateKey] = forged(stateKey) },
		statusKey: func(n *corev1.Node) { n.Labels[statusKey] = "complete" },
	} {
		eventually(t, "vnode refuses "+brings, func() error {
			client, _ := bed.client(t, kubelet(name))
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}, Labels: map[string]string{}}}
			edit(node)
			err := client.Post().Resource("nodes").Param("dryRun", metav1.DryRunAll).Body(node).Do(t.Context()).Error()
			if err == nil || !strings.Contains(err.Error(), vnode) || !strings.Contains(err.Error(), brings) {
				return fmt.Errorf("the answer is: %w", err)
			}
			return nil
		})
	}
	if _, err := register(t, name); err != nil {
		t.Errorf("a node without records: %v", err)
	}
}
