package admission

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/test/manifests"
)

const (
	// policyName is the name of the policy that ships, and of its binding.
	policyName = "node-state.nodewright.nvidia.com"
	// walled is a label: on nodes with it the policy is in force. The other tests of
	// this suite are about the webhooks alone.
	walled = "example.com/walled"
	// policed: the API server refused it by the policy, and asked no webhook.
	policed decision = "is refused by the policy"
)

// policies renders the component as the comment in it says, once.
var policies = sync.OnceValues(func() (manifests.Objects, error) {
	root, err := manifests.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "nodewright-policy-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	config, err := filepath.Rel(dir, filepath.Join(root, "config"))
	if err != nil {
		return nil, err
	}
	content := fmt.Sprintf("resources: [%[1]s/default]\ncomponents: [%[1]s/policy, %[1]s/names]\n", config)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		return nil, err
	}
	return manifests.Render(context.Background(), dir)
})

func shippedPolicy(t testing.TB) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	objects, err := policies()
	if err != nil {
		t.Fatal(err)
	}
	policy, err := manifests.As[admissionregistrationv1.ValidatingAdmissionPolicy](objects, "ValidatingAdmissionPolicy", policyName)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// enforcePolicy puts the policy in force on nodes with the label.
func enforcePolicy(t *testing.T) {
	t.Helper()
	policy := shippedPolicy(t)
	objects, err := policies()
	if err != nil {
		t.Fatal(err)
	}
	binding, err := manifests.As[admissionregistrationv1.ValidatingAdmissionPolicyBinding](objects, "ValidatingAdmissionPolicyBinding", policyName)
	if err != nil {
		t.Fatal(err)
	}
	binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{walled: "true"}},
	}
	api := bed.admin.AdmissionregistrationV1()
	if _, err := api.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := api.ValidatingAdmissionPolicyBindings().Delete(ctx, policyName, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := api.ValidatingAdmissionPolicies().Delete(ctx, policyName, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	node := wall(t, recorded(t))
	eventually(t, "policy in force", func() error {
		a := bed.send(t, node, request{who: alice, manager: "kubectl", verb: merge, dryRun: true, change: annotate(stateKey, forged(stateKey))})
		if got := a.policyDecision(); got != policed {
			return fmt.Errorf("a forged record %s: %w", got, a.err)
		}
		return nil
	})
}

// wall labels a node, so that the policy is in force there.
func wall(t *testing.T, node string) string {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, walled)
	if _, err := bed.admin.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "wall"}); err != nil {
		t.Fatal(err)
	}
	return node
}

// policyDecision is decision, and tells refusals by the policy from others. The
// webhook may have been called before: the API server tries a write on the node
// as its cache has it first, and there the node may not be under the policy yet.
func (a *answer) policyDecision() decision {
	if apierrors.IsForbidden(a.err) && strings.Contains(a.err.Error(), "ValidatingAdmissionPolicy '"+policyName+"'") {
		return policed
	}
	return a.decision()
}

// The policy says of every request of the table what the webhook has to say.
func TestPolicyAgreesWithTheTable(t *testing.T) {
	enforcePolicy(t)
	t.Run("rows", func(t *testing.T) {
		for name, r := range table(t) {
			for _, v := range r.verbs {
				for _, path := range []string{"nodes", "nodes/status"} {
					if r.only != "" && r.only != path {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s of %s", name, v, path), func(t *testing.T) {
						t.Parallel()
						r.checkPolicy(t, v, path == "nodes/status")
					})
				}
			}
		}
	})
}

func (r *row) checkPolicy(t *testing.T, v verb, status bool) {
	before := r.before
	if before == nil {
		before = recorded
	}
	node := wall(t, before(t))
	a := bed.send(t, node, request{
		who: r.who(node), manager: r.manager, verb: v, status: status, dryRun: r.dryRun, change: r.change,
	})
	want := []decision{r.want}
	if r.want == refused {
		want = []decision{policed}
	}
	if v == apply && (r.want == refused || r.want == admitted) {
		want = append(want, conflicts)
	}
	if got := a.policyDecision(); !slices.Contains(want, got) {
		t.Fatalf("the request %s, want that it %s: %v", got, want, a.err)
	}
}

// Creations bring nothing of ours along; others do as they like.
func TestPolicyOfCreations(t *testing.T) {
	enforcePolicy(t)
	withoutMnode(t)
	cases := map[string]struct {
		who  identity
		edit func(*corev1.Node)
		want bool
	}{
		"a kubelet registers": {who: alice, edit: func(*corev1.Node) {}},
		"without metadata":    {who: alice, edit: func(n *corev1.Node) { n.Annotations = nil }},
		"with a user's key":   {who: alice, edit: func(n *corev1.Node) { n.Annotations = map[string]string{key(nodestate.KindRequest): "x"} }},
		"with a record":       {who: alice, edit: func(n *corev1.Node) { n.Annotations = map[string]string{stateKey: "x"} }, want: true},
		"with a label":        {who: alice, edit: func(n *corev1.Node) { n.Labels[statusKey] = "complete" }, want: true},
		"with an early record": {who: alice, want: true,
			edit: func(n *corev1.Node) { n.Annotations = map[string]string{blobKey: "{}"} }},
		"with a record, by break-glass": {who: repair, edit: func(n *corev1.Node) { n.Annotations = map[string]string{stateKey: forged(stateKey)} }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("n%d", nodes.Add(1)), Labels: map[string]string{walled: "true"}, Annotations: map[string]string{"a": "b"},
			}}
			tc.edit(node)
			client, _ := bed.client(t, tc.who)
			a := &answer{err: client.Post().Resource("nodes").Body(node).Do(t.Context()).Error(), calls: bed.server.calls(node.Name)}
			if got := a.policyDecision() == policed; got != tc.want || got != (a.err != nil) {
				t.Errorf("refused by the policy: %t, want %t: %v", got, tc.want, a.err)
			}
		})
	}
}

// Records of the earlier form: free while a NodeWright is in migration, frozen
// when it was given up, and the way back marks it in the same write.
func TestPolicyOfTheEarlierForm(t *testing.T) {
	enforcePolicy(t)
	phaseKey := key(nodestate.KindLegacy)
	blob := `{"driver|1.2.3":{"name":"driver","version":"1.2.3","image":"i","stage":"apply","state":"complete"}}`
	inPhase := func(phase nodestate.LegacyPhase, withBlob bool) func(t *testing.T) string {
		return func(t *testing.T) string {
			node := newNode(t)
			set := nodestate.Set{Legacy: map[string]nodestate.LegacyPhase{nodeWright: phase}}
			if withBlob {
				set.Blobs = map[string]string{nodeWright: blob}
			}
			if phase != "" {
				good(t, node, nodestate.OwnerMigration, set, firstSeq)
			}
			return node
		}
	}
	migration := func(phase nodestate.LegacyPhase, blobs map[string]string) change {
		return written(t, nodestate.OwnerMigration, nodestate.Set{Legacy: map[string]nodestate.LegacyPhase{nodeWright: phase}, Blobs: blobs}, firstSeq+1)
	}
	cases := map[string]struct {
		before  func(*testing.T) string
		who     identity
		manager string
		verb    verb
		change  change
		want    bool
		says    []string
	}{
		"an earlier operator writes in the window":     {before: inPhase(nodestate.LegacyConverging, true), who: alice, verb: merge, change: annotate(blobKey, blob+" ")},
		"an earlier operator writes before the window": {before: inPhase("", false), who: alice, verb: merge, change: annotate(blobKey, blob)},
		"an earlier operator removes in the window":    {before: inPhase(nodestate.LegacyConverging, true), who: alice, verb: merge, change: annotate(blobKey, gone)},
		"an earlier operator writes too late": {before: inPhase(nodestate.LegacyPruned, false), who: alice, verb: merge, change: annotate(blobKey, blob),
			want: true, says: []string{blobKey, "nodeState_<nodewright>_<package>", "kubectl nodewright migrate"}},
		"an earlier operator changes too late":  {before: inPhase(nodestate.LegacyPruned, true), who: alice, verb: merge, change: annotate(blobKey, blob+" "), want: true},
		"what was given up is removed":          {before: inPhase(nodestate.LegacyPruned, true), who: alice, verb: merge, change: annotate(blobKey, gone)},
		"a repair brings it back":               {before: inPhase(nodestate.LegacyPruned, false), who: repair, verb: merge, change: annotate(blobKey, blob)},
		"a repair brings it back, and marks it": {before: inPhase(nodestate.LegacyPruned, false), who: repair, verb: merge, change: annotate(blobKey, blob, phaseKey, "converging")},
		"a stranger marks it":                   {before: inPhase(nodestate.LegacyPruned, false), who: alice, verb: merge, change: annotate(blobKey, blob, phaseKey, "converging"), want: true},
		"the operator gives it up":              {before: inPhase(nodestate.LegacyConverging, true), who: operator, manager: string(nodestate.OwnerMigration), verb: force, change: migration(nodestate.LegacyPruned, nil)},
		"the operator brings it back":           {before: inPhase(nodestate.LegacyPruned, false), who: operator, manager: string(nodestate.OwnerMigration), verb: force, change: migration(nodestate.LegacyConverging, map[string]string{nodeWright: blob})},
		"the operator brings it back unmarked":  {before: inPhase(nodestate.LegacyPruned, false), who: operator, manager: string(nodestate.OwnerMigration), verb: force, change: migration(nodestate.LegacyPruned, map[string]string{nodeWright: blob}), want: true},
		"the operator as another manager":       {before: inPhase(nodestate.LegacyConverging, true), who: operator, manager: string(nodestate.OwnerNode), verb: merge, change: annotate(blobKey, blob+" "), want: true},
		"a stranger holds what stands":          {before: inPhase(nodestate.LegacyPruned, true), who: alice, verb: force, change: annotate(blobKey, blob), want: true, says: []string{"kubectl"}},
		"an earlier operator holds what stands": {before: inPhase(nodestate.LegacyConverging, true), who: alice, verb: force, change: annotate(blobKey, blob)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := wall(t, tc.before(t))
			manager := tc.manager
			if manager == "" {
				manager = "kubectl"
			}
			a := bed.send(t, node, request{who: tc.who, manager: manager, verb: tc.verb, change: tc.change})
			if got := a.policyDecision() == policed; got != tc.want || got != (a.err != nil) {
				t.Fatalf("refused by the policy: %t, want %t: %v", got, tc.want, a.err)
			}
			for _, part := range tc.says {
				if !strings.Contains(a.err.Error(), part) {
					t.Errorf("%q does not say %q", a.err, part)
				}
			}
		})
	}
}

// The operator gives a node up, or takes back what others hold too: all forms of
// its writes pass, and nobody else can make them.
func TestPolicyKnowsAllWritesOfTheOperator(t *testing.T) {
	enforcePolicy(t)
	node := wall(t, sharedWith(t, "gitops", force))
	next := int64(firstSeq + 1)
	send := func(what string, who identity, c change, want decision) {
		t.Helper()
		a := bed.send(t, node, request{who: who, manager: string(nodestate.OwnerNode), verb: force, change: c})
		got := a.policyDecision()
		if got != want {
			t.Fatalf("%s %s, want that it %s: %v", what, got, want, a.err)
		}
	}
	send("a release by a stranger", alice, change{}, policed)
	standing := written(t, nodestate.OwnerNode, records(), next)
	send("a write without number", operator, change{annotations: without(standing.annotations, nodestate.OwnerNode.SeqKey()), labels: standing.labels}, policed)
	send("a write", operator, standing, passes)
	// It removes the number, so the webhook is asked.
	send("a release", operator, change{}, admitted)
}

func without(m map[string]string, key string) map[string]string {
	m = maps.Clone(m)
	delete(m, key)
	return m
}
