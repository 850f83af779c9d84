package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// forge makes up a record for a node that is created.
func forge(n *corev1.Node) {
	n.Annotations[stateKey] = forged(stateKey)
	n.Annotations[nodestate.Prefix+"note"] = "mine"
	n.Labels[statusKey] = "complete"
}

// WH-06: a node does not register as complete. What somebody made up is taken
// out, and said.
func TestForgedCreation_WH06(t *testing.T) {
	cases := map[string]struct {
		who  func(string) identity
		keep bool
	}{
		"a kubelet":            {who: kubelet},
		"a user":               {who: is(alice)},
		"the operator":         {who: is(operator)},
		"who breaks the glass": {who: is(repair), keep: true},
	}
	for name, tc := range cases {
		for _, dryRun := range []string{"", metav1.DryRunAll} {
			t.Run(name+dryRun, func(t *testing.T) {
				node := strings.ReplaceAll("forged-by-"+name, " ", "-") + strings.ToLower(dryRun)
				client, heard := bed.client(t, tc.who(node))
				object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{}, Labels: map[string]string{}}}
				forge(object)
				req := client.Post().Resource("nodes").Param("fieldManager", "kubelet").Body(object)
				if dryRun != "" {
					req = req.Param("dryRun", dryRun)
				}
				out := &corev1.Node{}
				err := req.Do(t.Context()).Into(out)
				if tc.who(node).user == operator.user {
					if err == nil {
						t.Error("the operator created a node")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				_, annotated := out.Annotations[stateKey]
				_, labelled := out.Labels[statusKey]
				if annotated != tc.keep || labelled != tc.keep {
					t.Errorf("the record is there: %t, the label: %t, want %t", annotated, labelled, tc.keep)
				}
				if out.Annotations[nodestate.Prefix+"note"] != "mine" {
					t.Error("a key of the user was taken out")
				}
				if text := strings.Join(heard.text, "\n"); !strings.Contains(text, stateKey) {
					t.Errorf("nobody is warned of %s: %q", stateKey, text)
				}
			})
		}
	}
}

// A creation that brings nothing of ours is asked about only where the taint may
// be due.
func TestOrdinaryCreation(t *testing.T) {
	const name = "ordinary"
	bed.server.forget(name)
	node, err := register(t, name)
	if err != nil {
		t.Fatal(err)
	}
	calls := bed.server.calls(name)
	if want := (call{path: pathMutateNode, name: name, operation: "CREATE"}); !slices.Equal(calls, []call{want}) {
		t.Errorf("calls %v, want the one of mnode", calls)
	}
	if has := runtimeRequiredOn(node); has {
		t.Errorf("taints %v", node.Spec.Taints)
	}
}

// runtimeRequiredOn tells whether the node has the taint. The API server puts
// others on each new node.
func runtimeRequiredOn(node *corev1.Node) bool {
	taint := runtimeRequired()
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t == taint })
}

// A node that a NodeWright wants set up first has the taint from its creation on,
// with everything else as it was sent. Nobody else's node has.
func TestRuntimeRequiredCreation(t *testing.T) {
	c := objectsClient(t)
	nw := object(t, "NodeWright", eager, `
  runtimeRequired: true
  autoTaintNewNodes: true
  nodeSelectors: {matchLabels: {example.com/pool: eager}}
  packages: {driver: {version: 1.2.3, image: registry.example/driver}}`)
	if err := c.Create(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), nw) })
	create := func(node string, labels map[string]string, taints ...corev1.Taint) *corev1.Node {
		t.Helper()
		client, _ := bed.client(t, kubelet(node))
		out := &corev1.Node{}
		err := client.Post().Resource("nodes").Param("fieldManager", "kubelet").Body(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node, Labels: labels}, Spec: corev1.NodeSpec{Taints: taints},
		}).Do(t.Context()).Into(out)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	selected := map[string]string{"example.com/pool": "eager"}
	var tries atomic.Int64
	eventually(t, "the webhook sees the NodeWright", func() error {
		if node := create(fmt.Sprintf("eager-%d", tries.Add(1)), selected); !runtimeRequiredOn(node) {
			return fmt.Errorf("taints %v", node.Spec.Taints)
		}
		return nil
	})
	other := corev1.Taint{Key: "example.com/a", Value: "b", Effect: corev1.TaintEffectNoExecute}
	cases := map[string]struct {
		labels map[string]string
		taints []corev1.Taint
		want   bool
	}{
		"selected":            {labels: selected, want: true},
		"selected-with-taint": {labels: selected, taints: []corev1.Taint{other}, want: true},
		"has-it-already":      {labels: selected, taints: []corev1.Taint{other, runtimeRequired()}, want: true},
		"not-selected":        {labels: map[string]string{"example.com/pool": "other"}},
		"ignored":             {labels: map[string]string{"example.com/pool": "eager", v1alpha1.LabelIgnore: "true"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := create("eager-"+name, tc.labels, tc.taints...)
			if has := runtimeRequiredOn(node); has != tc.want {
				t.Errorf("taints %v, want ours: %t", node.Spec.Taints, tc.want)
			}
			for _, sent := range tc.taints {
				if !slices.Contains(node.Spec.Taints, sent) {
					t.Errorf("taint %v is missing in %v", sent, node.Spec.Taints)
				}
			}
			if diff := cmp.Diff(tc.labels, node.Labels); diff != "" {
				t.Errorf("labels (-sent +stored):\n%s", diff)
			}
		})
	}
}
