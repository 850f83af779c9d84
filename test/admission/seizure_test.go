package admission

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// taintFields are the taints of a node, as managedFields have them.
const taintFields = `{"f:spec":{"f:taints":{}}}`

// seize says that the operator applied these fields, in the place of what it did
// apply.
func seize(fields string) change { return claim(string(nodestate.OwnerNode), fields) }

func claim(manager, fields string) change {
	return change{edit: func(n *corev1.Node) {
		n.ManagedFields = slices.DeleteFunc(n.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == manager })
		claimed := holding(stateKey, manager)
		claimed.FieldsV1 = metav1.NewFieldsV1(fields)
		n.ManagedFields = append(n.ManagedFields, claimed)
	}}
}

// Who may say what the operator has applied: nobody else, since its next apply
// takes off what it leaves out. So a kubelet could have taints and labels removed
// that it may not touch itself.
func seizureRows() map[string]row {
	rows := map[string]row{}
	for name, r := range map[string]row{
		"us hold taints":       {change: seize(taintFields), want: refused, says: []string{string(nodestate.OwnerNode), "managedFields"}},
		"us hold a label":      {change: seize(`{"f:metadata":{"f:labels":{"f:example.com/pool":{}}}}`), want: refused},
		"us hold all labels":   {change: seize(`{"f:metadata":{"f:labels":{}}}`), want: refused},
		"us hold metadata":     {change: seize(`{"f:metadata":{}}`), want: refused},
		"us hold the spec":     {change: seize(`{"f:spec":{}}`), want: refused},
		"us hold a finalizer":  {change: seize(`{"f:metadata":{"f:finalizers":{".":{},"v:\"a/b\"":{}}}}`), want: refused},
		"us hold nothing":      {change: seize(`{"f:metadata":{"f:annotations":{"f:` + stateKey + `":{}}}}`), want: passes},
		"another hold taints":  {change: claim("gitops", taintFields), want: passes},
		"another hold a label": {change: claim("gitops", `{"f:metadata":{"f:labels":{"f:example.com/pool":{}}}}`), want: passes},
	} {
		for who, identity := range map[string]func(string) identity{"stranger": is(alice), "WH-06 kubelet": kubelet} {
			r.who, r.manager, r.verbs, r.only = identity, "kubectl", []verb{put}, "nodes"
			rows[who+" lets "+name] = r
		}
	}
	rows["break-glass lets us hold taints"] = row{who: is(repair), manager: "kubectl", verbs: []verb{put}, only: "nodes",
		change: seize(taintFields), want: admitted, says: []string{string(nodestate.OwnerNode)}}
	// Under our name, where we have nothing yet: the operator would take it off.
	for manager, want := range map[string]decision{string(nodestate.OwnerPod): refused, "gitops": passes} {
		rows["stranger applies his own as "+manager] = row{who: is(alice), manager: manager, verbs: applies, only: "nodes",
			before: func(t *testing.T) string { return newNode(t) }, change: annotate("example.com/other", "x"), want: want}
	}
	rows["uncordon of what we cordoned"] = row{who: is(alice), manager: "kubectl-cordon", verbs: updates, only: "nodes",
		before: cordoned, change: change{spec: `{"unschedulable":false}`}, want: passes}
	return rows
}

// cordoned is a recorded node that the operator cordoned.
func cordoned(t *testing.T) string {
	t.Helper()
	node := recorded(t)
	c := written(t, nodestate.OwnerNode, records(), firstSeq+1)
	c.spec = `{"unschedulable":true}`
	a := bed.send(t, node, request{who: operator, manager: string(nodestate.OwnerNode), verb: force, change: c})
	if got := a.decision(); got != passes || !a.node.Spec.Unschedulable {
		t.Fatalf("the operator's cordon %s, unschedulable: %t: %v", got, a.node.Spec.Unschedulable, a.err)
	}
	return node
}
