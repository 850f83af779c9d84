package admission

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// Which numbers make a write of ours a good one, that passes without a call. All
// others are sent, and judged by the webhook.
func TestMatchConditionsReadNumbers(t *testing.T) {
	const most = int64(nodestate.MaxSeq)
	text := func(n int64) string { return fmt.Sprint(n) }
	cases := map[string]struct {
		old, now string
		want     bool
	}{
		"the first":              {"", "1", false},
		"the first, any":         {"", "17", false},
		"the first is 0":         {"", "0", true},
		"the first with a zero":  {"", "01", true},
		"the next":               {"5", "6", false},
		"the next, longer":       {"9", "10", false},
		"the next with a zero":   {"5", "06", true},
		"the next with a sign":   {"5", "+6", true},
		"the next and a blank":   {"5", "6 ", true},
		"the next and a line":    {"5", "6\n", true},
		"the same":               {"5", "5", true},
		"the one before":         {"5", "4", true},
		"one is left out":        {"5", "7", true},
		"it goes":                {"5", "", true},
		"a word before":          {"x", "1", true},
		"a sign before":          {"-5", "6", true},
		"a zero before":          {"0", "1", false},
		"the largest":            {text(most - 1), text(most), false},
		"beyond the largest":     {text(most), text(most + 1), true},
		"18 digits before":       {strings.Repeat("9", 18), "1", true},
		"19 digits before":       {"9223372036854775807", "1", true},
		"more than int64 before": {strings.Repeat("9", 19), "1", true},
		"more than int64":        {"5", strings.Repeat("9", 19), true},
	}
	node := func(seq, value string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{stateKey: value}}}
		if seq != "" {
			n.Annotations[nodestate.OwnerNode.SeqKey()] = seq
		}
		n.ManagedFields = []metav1.ManagedFieldsEntry{entry(nodestate.OwnerNode, metav1.ManagedFieldsOperationApply, n.Annotations)}
		return n
	}
	for _, minor := range []uint{30, 37} {
		c := compile(t, minor)
		for name, tc := range cases {
			t.Run(fmt.Sprintf("1.%d/%s", minor, name), func(t *testing.T) {
				sent, _, err := c.evaluate(t, node(tc.old, "a"), node(tc.now, "b"), operator.user, string(nodestate.OwnerNode))
				if err != nil || sent != tc.want {
					t.Errorf("sent: %t, want %t, error %v", sent, tc.want, err)
				}
			})
		}
	}
}

// A name that begins as ours, or is shorter than any of ours, makes no good write
// and no expression fail.
func TestMatchConditionsReadManagers(t *testing.T) {
	c := compile(t, 37)
	old := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{stateKey: "a"}}}
	for _, manager := range []string{"", "x", "nodewright", "nodewright-", "nodewright-nod", "nodewright-nodes", "nodewright-manager", "NODEWRIGHT-NODE"} {
		t.Run(manager, func(t *testing.T) {
			seq := nodestate.Prefix + "seq_" + strings.TrimPrefix(manager, "nodewright-")
			ours := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{stateKey: "b", seq: "1"}}}
			foreign := old.DeepCopy()
			foreign.Annotations["example.com/a"] = "b"
			for now, want := range map[*corev1.Node]bool{ours: true, foreign: false} {
				if sent, _, err := c.evaluate(t, old, now, operator.user, manager); err != nil || sent != want {
					t.Errorf("sent: %t, want %t, error %v", sent, want, err)
				}
			}
		})
	}
}

// A creation is sent if it brings along what the operator would have written, or
// says that it applied something.
func TestMatchConditionsOfCreations(t *testing.T) {
	const taints = `{"f:spec":{"f:taints":{}}}`
	claim := func(manager nodestate.Owner, operation metav1.ManagedFieldsOperationType, subresource string) *corev1.Node {
		e := entry(manager, operation, nil)
		e.FieldsV1, e.Subresource = metav1.NewFieldsV1(taints), subresource
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
			entry("kubelet", metav1.ManagedFieldsOperationUpdate, map[string]string{"example.com/a": ""}), e,
		}}}
	}
	type creation struct {
		node *corev1.Node
		want bool
	}
	cases := map[string]creation{
		"nothing":                {&corev1.Node{}, false},
		"a taint":                {&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a", Effect: "NoSchedule"}}}}, false},
		"an update of ours":      {claim(nodestate.OwnerNode, metav1.ManagedFieldsOperationUpdate, ""), false},
		"an apply of the status": {claim(nodestate.OwnerNode, metav1.ManagedFieldsOperationApply, "status"), false},
		"an apply of another":    {claim("gitops", metav1.ManagedFieldsOperationApply, ""), false},
		"an apply of nobody":     {claim("", metav1.ManagedFieldsOperationApply, ""), false},
	}
	for _, owner := range nodestate.Owners() {
		cases["an apply of "+string(owner)] = creation{claim(owner, metav1.ManagedFieldsOperationApply, ""), true}
	}
	with := func(k string, want bool) {
		for kind, n := range map[string]*corev1.Node{
			"annotation": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"example.com/a": "b", k: "x"}}},
			"label":      {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"example.com/a": "b", k: "x"}}},
		} {
			cases[kind+" "+k] = creation{n, want}
		}
	}
	for _, k := range keysOfAllForms() {
		if _, owned := nodestate.OwnerOf(k); owned {
			with(k, true)
		}
	}
	for _, k := range keysOfUsers() {
		with(k, false)
	}
	for _, minor := range []uint{30, 37} {
		c := compile(t, minor)
		for name, tc := range cases {
			t.Run(fmt.Sprintf("1.%d/%s", minor, name), func(t *testing.T) {
				sent, cost, err := c.evaluate(t, nil, tc.node, "system:node:n1", "kubelet")
				if err != nil || sent != tc.want {
					t.Errorf("sent: %t, want %t, error %v, cost %d", sent, tc.want, err, cost)
				}
			})
		}
	}
}
