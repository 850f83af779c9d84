package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// registering creates a node as its kubelet.
func registering(t *testing.T, node *corev1.Node) (*corev1.Node, []string, error) {
	t.Helper()
	client, heard := bed.client(t, kubelet(node.Name))
	out := &corev1.Node{}
	err := client.Post().Resource("nodes").Param("fieldManager", "kubelet").Body(node).Do(t.Context()).Into(out)
	return out, heard.text, err
}

// WH-06: a made-up key that creation strips leaves no right behind: what the
// operator writes there later goes when the operator leaves it out.
func TestStrippedKeysLeaveNoRight_WH06(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "stripped", Annotations: map[string]string{}, Labels: map[string]string{},
	}}
	forge(node)
	if out, _, err := registering(t, node); err != nil || out.Annotations[stateKey] != "" || out.Labels[statusKey] != "" {
		t.Fatalf("registered with %v, %v: %v", out.Annotations, out.Labels, err)
	}
	held := slices.ContainsFunc(bed.live(t, node.Name).ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return holds(e, stateKey) })
	if !held {
		t.Log("the API server itself has forgotten who brought the key")
	}
	good(t, node.Name, nodestate.OwnerNode, records(), 1)
	now := bed.live(t, node.Name)
	for _, e := range now.ManagedFields {
		if holds(e, stateKey) && e.Manager != string(nodestate.OwnerNode) {
			t.Errorf("%s still holds the key", e.Manager)
		}
	}
	if now.Annotations[stateKey] == "" || now.Labels[statusKey] == "" {
		t.Fatalf("the operator wrote %v, %v", now.Annotations, now.Labels)
	}
	good(t, node.Name, nodestate.OwnerNode, nodestate.Set{}, 2)
	now = bed.live(t, node.Name)
	_, annotated := now.Annotations[stateKey]
	_, labelled := now.Labels[statusKey]
	if annotated || labelled {
		t.Errorf("what the operator left out is still there: %v, %v", now.Annotations, now.Labels)
	}
}

// WH-06: nor do managers that a kubelet makes up for its node: neither for itself,
// for keys that are not there yet, nor for the operator, for what it may not
// remove itself.
func TestMadeUpManagersLeaveNoRight_WH06(t *testing.T) {
	for name, fields := range map[string]string{
		"a key":                        `{"f:metadata":{"f:annotations":{"f:` + stateKey + `":{}},"f:labels":{"f:` + statusKey + `":{}}}}`,
		"a key with fields of its own": `{"f:metadata":{"f:annotations":{"f:` + stateKey + `":{"f:x":{}}},"f:labels":{"f:` + statusKey + `":{"f:x":{}}}}}`,
		"all annotations":              `{"f:metadata":{"f:annotations":{},"f:labels":{}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			made := holding(stateKey, "gitops")
			made.FieldsV1 = metav1.NewFieldsV1(fields)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("n%d", nodes.Add(1)), ManagedFields: []metav1.ManagedFieldsEntry{made},
			}}
			if _, _, err := registering(t, node); err != nil {
				t.Fatal(err)
			}
			good(t, node.Name, nodestate.OwnerNode, records(), 1)
			good(t, node.Name, nodestate.OwnerNode, nodestate.Set{}, 2)
			now := bed.live(t, node.Name)
			_, annotated := now.Annotations[stateKey]
			_, labelled := now.Labels[statusKey]
			if annotated || labelled {
				t.Errorf("what the operator left out is still there: %v, %v", now.Annotations, now.Labels)
			}
		})
	}
	for name, withMnode := range map[string]bool{"for the operator": true, "for the operator, mnode away": false} {
		t.Run(name, func(t *testing.T) {
			if !withMnode {
				withoutMnode(t)
			}
			made := holding(stateKey, string(nodestate.OwnerNode))
			made.FieldsV1 = metav1.NewFieldsV1(taintFields)
			// Taints that the API server and webhooks add come after the managers.
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", nodes.Add(1)), ManagedFields: []metav1.ManagedFieldsEntry{made}}}
			out, warned, err := registering(t, node)
			if !withMnode {
				if err == nil || !strings.Contains(err.Error(), vnode) {
					t.Errorf("admitted with %v: %v", out.ManagedFields, err)
				}
				return
			}
			if err != nil || !strings.Contains(strings.Join(warned, "\n"), "managedFields of the operator") {
				t.Fatalf("warned of %q: %v", warned, err)
			}
			good(t, node.Name, nodestate.OwnerNode, records(), 1)
			if now := bed.live(t, node.Name); len(out.Spec.Taints) == 0 || !slices.Equal(now.Spec.Taints, out.Spec.Taints) {
				t.Errorf("taints %v, and %v after a write of the operator", out.Spec.Taints, now.Spec.Taints)
			}
		})
	}
}

// A kubelet may fill its node: up to what the API server takes, everybody can
// still write to it, and nothing of ours can be forged there.
func TestFilledNodes_WH02(t *testing.T) {
	fill := func(n *corev1.Node, count int, label bool) {
		const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
		for i := range count {
			k := string([]byte{letters[i%62], letters[i/62%62], letters[i/3844%62]})
			if label {
				n.Labels[k] = ""
			} else {
				n.Annotations[k] = ""
			}
		}
	}
	cases := map[string]func(*corev1.Node){
		"annotations": func(n *corev1.Node) { fill(n, 70_000, false) },
		"labels":      func(n *corev1.Node) { fill(n, 60_000, true) },
		"both":        func(n *corev1.Node) { fill(n, 35_000, false); fill(n, 35_000, true) },
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			node := recorded(t)
			filled := func(n *corev1.Node) {
				edit(n)
				n.ManagedFields = []metav1.ManagedFieldsEntry{{}}
			}
			a := bed.send(t, node, request{who: kubelet(node), manager: "kubelet", verb: put, change: change{edit: filled}})
			t.Logf("the node is filled: %v", a.err)
			if a.err != nil {
				t.Fatal(a.err)
			}
			everybodyWrites(t, node)
		})
	}
}

func everybodyWrites(t *testing.T, node string) {
	t.Helper()
	for _, step := range []struct {
		name string
		request
		want decision
	}{
		{"the kubelet reports", request{who: kubelet(node), manager: "kubelet", verb: strategic, status: true,
			change: change{raw: `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`}}, admitted},
		{"a cordon", request{who: alice, manager: "kubectl-cordon", verb: merge, change: change{spec: `{"unschedulable":true}`}}, admitted},
		{"a taint", request{who: alice, manager: "kubectl-taint", verb: merge, change: change{spec: `{"taints":[{"key":"a","effect":"NoSchedule"}]}`}}, admitted},
		{"a foreign annotation", request{who: alice, manager: "kubectl", verb: merge, change: annotate("example.com/other", "x")}, admitted},
		{"a foreign label", request{who: alice, manager: "kubectl", verb: merge, change: label("example.com/other", "x")}, admitted},
		{"a stranger", request{who: alice, manager: "kubectl", verb: merge, change: annotate(stateKey, forged(stateKey))}, refused},
		{"a clean-up", request{who: alice, manager: "kubectl", verb: put, change: change{edit: func(n *corev1.Node) {
			for _, m := range []map[string]string{n.Annotations, n.Labels} {
				maps.DeleteFunc(m, func(k, _ string) bool { return len(k) == 3 })
			}
		}}}, admitted},
	} {
		a := bed.send(t, node, step.request)
		if got := a.decision(); got != step.want {
			text := fmt.Sprint(a.err)
			t.Errorf("%s %s, want that it %s: %.300s", step.name, got[:min(len(got), 300)], step.want, text)
		}
	}
	// The API server tries a write on the node as its cache has it first.
	eventually(t, "a report passes once the node is cleaned up", func() error {
		a := bed.send(t, node, request{who: kubelet(node), manager: "kubelet", verb: strategic, status: true,
			change: change{raw: `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`}})
		if got := a.decision(); got != passes {
			return fmt.Errorf("it %s: %s", got, fmt.Sprint(a.err))
		}
		return nil
	})
}

// However much there is on a node, ordinary writes stay within what the API server
// grants one expression, which is less than what it grants a webhook.
func TestConditionsOfFilledNodes_WH02(t *testing.T) {
	const limit = 2000
	full := func(annotations, labels, held int, prefix string) *corev1.Node {
		node := laden(3, 50)
		many := func(count int) map[string]string {
			out := map[string]string{}
			for i := range count {
				out[fmt.Sprintf("%sx%d", prefix, i)] = "x"
			}
			return out
		}
		maps.Copy(node.Annotations, many(annotations-len(node.Annotations)))
		maps.Copy(node.Labels, many(labels-len(node.Labels)))
		for i := range node.ManagedFields[1:] {
			node.ManagedFields[i+1] = entry(nodestate.Owner(fmt.Sprintf("manager-%d", i)), metav1.ManagedFieldsOperationUpdate, many(held))
		}
		return node
	}
	write := func(n *corev1.Node) {
		n.Annotations["example.com/other"], n.Labels["example.com/other"] = "x", "x"
		n.ManagedFields[1].FieldsV1 = metav1.NewFieldsV1(
			strings.Replace(n.ManagedFields[1].FieldsV1.String(), `"f:annotations":{`, `"f:annotations":{"f:example.com/other":{},`, 1))
	}
	for name, sent := range map[string]struct {
		node func() *corev1.Node
		want bool
	}{
		"just within":         {func() *corev1.Node { return full(limit-1, limit-1, limit-1, "") }, false},
		"just within, ours":   {func() *corev1.Node { return full(399, limit-1, limit-1, nodestate.Prefix) }, false},
		"annotations":         {func() *corev1.Node { return full(limit+1, 1, 1, "") }, true},
		"labels":              {func() *corev1.Node { return full(100, limit+1, 1, "") }, true},
		"held":                {func() *corev1.Node { return full(100, 1, limit+1, "") }, true},
		"very many":           {func() *corev1.Node { return full(60_000, 60_000, 10, "") }, true},
		"very many, and ours": {func() *corev1.Node { return full(60_000, 60_000, 10, nodestate.Prefix) }, true},
		"very many fields":    {func() *corev1.Node { return full(100, 1, 10_000, nodestate.Prefix) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			old, now := sent.node(), sent.node()
			write(now)
			for _, minor := range []uint{30, 37} {
				got, cost, err := compile(t, minor).evaluate(t, old, now, "alice", "kubectl")
				t.Logf("1.%d: sent: %t, cost %d", minor, got, cost)
				if err != nil || got != sent.want {
					t.Errorf("1.%d: sent: %t, want %t, error %v", minor, got, sent.want, err)
				}
				if cost > celconfig.PerCallLimit/2 {
					t.Errorf("1.%d: cost %d, which is more than half of what one expression may", minor, cost)
				}
				applies, refusals, err := compilePolicy(t, minor).verdict(t, old, now, "alice", "kubectl", celconfig.RuntimeCELCostBudget)
				if err != nil || applies == sent.want || len(refusals) > 0 {
					t.Errorf("1.%d: the policy applies: %t, want %t, refuses %q, error %v", minor, applies, !sent.want, refusals, err)
				}
			}
		})
	}
}
