package admission

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// Who passes the review for the verb override may write our keys, and is warned.
func overrideRows() map[string]row {
	rows := map[string]row{}
	for name, r := range map[string]row{
		"break-glass completes a package": {verbs: everyVerb, change: annotate(stateKey, forged(stateKey)), want: admitted,
			says: []string{stateKey, string(nodestate.OwnerNode)}},
		"break-glass removes a record":  {verbs: updates, change: annotate(stateKey, gone), want: admitted, says: []string{stateKey}},
		"break-glass removes the fence": {verbs: []verb{merge}, change: annotate(nodestate.OwnerNode.SeqKey(), gone), want: admitted},
		"break-glass sets the label":    {verbs: []verb{merge}, change: label(statusKey, "unknown"), want: admitted, says: []string{statusKey}},
		"break-glass on trial":          {verbs: []verb{merge}, dryRun: true, change: annotate(stateKey, forged(stateKey)), want: admitted},
		"break-glass writes what cannot be read": {verbs: []verb{merge, force}, change: annotate(stateKey, "{"), want: admitted,
			says: []string{stateKey, "cannot be read"}},
		"break-glass writes a record of another package": {verbs: []verb{merge}, change: annotate(stateKey, otherPackage()), want: admitted,
			says: []string{stateKey, "cannot be read"}},
		"break-glass annotates for others": {verbs: updates, change: annotate("example.com/other", "x"), want: passes},
	} {
		r.who = is(repair)
		if r.manager == "" {
			r.manager = "kubectl-edit"
		}
		rows[name] = r
	}
	rows["administrator completes a package"] = row{who: is(admin), manager: "kubectl-edit", verbs: everyVerb,
		change: annotate(stateKey, forged(stateKey)), want: admitted, says: []string{stateKey}}
	return rows
}

// resetManagers empties managedFields, as the API server lets everybody do.
const resetManagers = `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`

// Nodes with a past: what was there already is nobody's fault.
func historyRows() map[string]row {
	complete := forged(stateKey)
	foreign := annotate("example.com/other", "x")
	shared := func(t *testing.T) string { return sharedWith(t, "gitops", force) }
	inherited := func(t *testing.T) string { return sharedWith(t, "manager", merge) }
	return map[string]row{
		"managers are reset":                         {who: is(alice), manager: "kubectl", verbs: []verb{jsonPatch}, change: change{raw: resetManagers}, want: passes},
		"managers are reset, and the kubelet writes": {who: kubelet, manager: "kubelet", verbs: updates, before: reset, change: foreign, want: passes},
		// The API server makes up a holder of everything.
		"managers are reset, and a stranger applies his own": {who: is(alice), manager: "gitops", verbs: applies, before: reset, change: foreign, want: passes},
		"managers are reset, and the operator writes": {who: is(operator), manager: string(nodestate.OwnerNode), verbs: []verb{force}, only: "nodes",
			before: reset, change: change{annotations: map[string]string{stateKey: complete, nodestate.OwnerNode.SeqKey(): "6"}}, want: passes},
		"managers are reset, and a stranger completes a package": {who: is(alice), manager: "kubectl", verbs: everyVerb, before: reset,
			change: annotate(stateKey, complete), want: refused, says: []string{stateKey}},
		"managers are reset, and a stranger applies what stands": {who: is(alice), manager: "gitops", verbs: applies, before: reset,
			change: annotate(stateKey, standing(stateKey)), want: refused},
		"managers are reset together with a record": {who: is(alice), manager: "kubectl", verbs: []verb{put},
			change: change{annotations: map[string]string{stateKey: complete}, edit: func(n *corev1.Node) { n.ManagedFields = []metav1.ManagedFieldsEntry{{}} }},
			want:   refused},

		"our manager is dropped": {who: is(alice), manager: "kubectl", verbs: []verb{put}, only: "nodes", change: change{edit: dropOurs}, want: passes},
		"our manager is dropped, and the operator writes": {who: is(operator), manager: string(nodestate.OwnerNode), verbs: []verb{force}, only: "nodes", before: dropped,
			change: change{annotations: map[string]string{stateKey: complete, nodestate.OwnerNode.SeqKey(): "6"}}, want: passes},
		"our manager is dropped, and a stranger takes its place": {who: is(alice), manager: "gitops", verbs: applies, before: dropped,
			change: annotate(stateKey, standing(stateKey)), want: refused},

		"a stranger who shares a key applies his own": {who: is(alice), manager: "gitops", verbs: applies, only: "nodes", before: shared,
			change: annotate(stateKey, standing(stateKey), "example.com/other", "x"), want: passes},
		// The status has managers of its own.
		"a stranger who shares a key shares it once more": {who: is(alice), manager: "gitops", verbs: applies, only: "nodes/status", before: shared,
			change: annotate(stateKey, standing(stateKey)), want: refused},
		"a stranger who shares a key lets go":    {who: is(alice), manager: "gitops", verbs: applies, before: shared, change: foreign, want: passes},
		"a stranger who shares a key changes it": {who: is(alice), manager: "gitops", verbs: []verb{force}, before: shared, change: annotate(stateKey, complete), want: refused},
		"another stranger wants to share it too": {who: is(alice), manager: "argo", verbs: applies, before: shared, change: annotate(stateKey, standing(stateKey)), want: refused},
		"a cordon of a node that a stranger shares": {who: is(alice), manager: "kubectl-cordon", verbs: updates, only: "nodes", before: shared,
			change: change{spec: `{"unschedulable":true}`}, want: passes},
		"the operator where a stranger shares": {who: is(operator), manager: string(nodestate.OwnerNode), verbs: []verb{force}, only: "nodes", before: shared,
			change: change{annotations: map[string]string{stateKey: complete, nodestate.OwnerNode.SeqKey(): "6"}}, want: passes},
		"the kubelet where an earlier operator wrote":       {who: kubelet, manager: "kubelet", verbs: updates, before: inherited, change: foreign, want: passes},
		"an earlier operator writes its own where it wrote": {who: is(alice), manager: "manager", verbs: updates, before: inherited, change: foreign, want: passes},
		"the operator where an earlier one wrote": {who: is(operator), manager: string(nodestate.OwnerNode), verbs: []verb{force}, only: "nodes", before: inherited,
			change: change{annotations: map[string]string{stateKey: complete, nodestate.OwnerNode.SeqKey(): "6"}}, want: passes},

		"WH-02 node without annotations gets a label":       {who: is(alice), manager: "kubectl-label", verbs: everyVerb, before: bare, change: label("a", "b"), want: passes},
		"WH-02 node without annotations gets an annotation": {who: kubelet, manager: "kubelet", verbs: updates, before: bare, change: foreign, want: passes},
		"WH-02 node without annotations is cordoned": {who: is(alice), manager: "kubectl-cordon", verbs: updates, only: "nodes", before: bare,
			change: change{spec: `{"unschedulable":true}`}, want: passes},
		"WH-02 node without annotations and a forger": {who: kubelet, manager: "kubelet", verbs: everyVerb, before: bare,
			change: annotate(stateKey, complete), want: refused},
		"WH-02 node without annotations and the operator": {who: is(operator), manager: string(nodestate.OwnerNode), verbs: []verb{force}, only: "nodes", before: bare,
			change: change{annotations: map[string]string{stateKey: complete, nodestate.OwnerNode.SeqKey(): "1"}}, want: passes},
		"WH-02 node that loses its last annotation": {who: is(alice), manager: "kubectl", verbs: []verb{put}, before: func(t *testing.T) string { return newNode(t) },
			change: change{edit: func(n *corev1.Node) { n.Annotations, n.Labels = nil, nil }}, want: passes},
		"WH-02 node with odd annotations": {who: is(alice), manager: "kubectl", verbs: everyVerb, before: odd, change: foreign, want: passes},
		"node without a number":           {who: is(alice), manager: "kubectl", verbs: updates, before: unfenced, change: foreign, want: passes},
		"operator on a node without a number": {who: is(operator), manager: string(nodestate.OwnerNode), verbs: []verb{force}, only: "nodes", before: unfenced,
			change: change{annotations: map[string]string{stateKey: complete, nodestate.OwnerNode.SeqKey(): "6"}}, want: passes},
	}
}

// bare is a node without annotations and labels.
func bare(t *testing.T) string {
	return newNode(t, func(n *corev1.Node) { n.Annotations, n.Labels = nil, nil })
}

// odd is a node with keys that come close to ours.
func odd(t *testing.T) string {
	return newNode(t, func(n *corev1.Node) {
		n.Annotations = map[string]string{
			nodestate.Prefix + "nodeState": "x", nodestate.Prefix + "seq_x": "x", nodestate.Prefix + "seq-node": "x",
			nodestate.Prefix + "xstatus_y": "x", "nodewright.nvidia.com": "x", "nodeState_tuning_driver": "x",
			"example.com/it-s": "it's \\ \"quoted\"",
		}
	})
}

// unfenced is a recorded node whose number somebody with the right removed.
func unfenced(t *testing.T) string {
	node := recorded(t)
	breakGlass(t, node, request{manager: "kubectl-edit", verb: merge, change: annotate(nodestate.OwnerNode.SeqKey(), gone)})
	return node
}

// nearlyFull is a recorded node whose number is the last but one.
func nearlyFull(t *testing.T) string {
	node := recorded(t)
	breakGlass(t, node, request{manager: "kubectl-edit", verb: merge,
		change: annotate(nodestate.OwnerNode.SeqKey(), fmt.Sprint(int64(nodestate.MaxSeq)-1))})
	return node
}

// reset is a recorded node whose managedFields were emptied.
func reset(t *testing.T) string {
	node := recorded(t)
	if a := bed.send(t, node, request{who: alice, manager: "kubectl", verb: jsonPatch, change: change{raw: resetManagers}}); a.err != nil {
		t.Fatal(a.err)
	}
	if left := bed.live(t, node).ManagedFields; len(left) != 0 {
		t.Fatalf("managers are left: %v", left)
	}
	return node
}

// dropOurs edits managedFields, as the API server lets everybody do.
func dropOurs(n *corev1.Node) {
	n.ManagedFields = slices.DeleteFunc(n.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == string(nodestate.OwnerNode) })
}

// dropped is a recorded node on which somebody edited managedFields.
func dropped(t *testing.T) string {
	node := recorded(t)
	if a := bed.send(t, node, request{who: alice, manager: "kubectl", verb: put, change: change{edit: dropOurs}}); a.err != nil {
		t.Fatal(a.err)
	}
	return node
}

// sharedWith is a recorded node on which another manager holds the record too,
// since before there was admission.
func sharedWith(t *testing.T, manager string, v verb) string {
	t.Helper()
	node := newNode(t)
	breakGlass(t, node, request{manager: manager, verb: v, change: annotate(stateKey, standing(stateKey))})
	for _, owner := range nodestate.Owners() {
		good(t, node, owner, records(), firstSeq)
	}
	held := 0
	for _, entry := range bed.live(t, node).ManagedFields {
		if holds(entry, stateKey) {
			held++
		}
	}
	if held != 2 {
		t.Fatalf("%d managers hold the record, want 2", held)
	}
	return node
}

// breakGlass writes what only few may.
func breakGlass(t *testing.T, node string, r request) {
	t.Helper()
	r.who = repair
	if a := bed.send(t, node, r); a.err != nil {
		t.Fatalf("break the glass: %v", a.err)
	}
}

// holding is an entry of managedFields.
func holding(key, manager string) metav1.ManagedFieldsEntry {
	now := metav1.Now()
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &now, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:metadata":{"f:annotations":{"f:%s":{}}}}`, key)),
	}
}
