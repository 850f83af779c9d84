package admission

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// kinds of keys that have an owner, but the numbers.
func ownedKinds() map[nodestate.Kind]bool {
	return map[nodestate.Kind]bool{
		nodestate.KindNodeState: true, nodestate.KindJobState: true, nodestate.KindPodState: true,
		nodestate.KindStatus: false, nodestate.KindSlot: false, nodestate.KindCordon: false, nodestate.KindDrainStart: false,
		nodestate.KindHandled: false, nodestate.KindLegacySeen: false, nodestate.KindBatch: false, nodestate.KindLegacy: false,
		nodestate.KindBlob: false,
	}
}

// keysOfAllForms are keys of every kind: plain, with a dot and a dash, and too
// long, so that they are shortened and hashed.
func keysOfAllForms() []string {
	var keys []string
	long := strings.Repeat("long.name-", 6) + "x"
	for kind, perPackage := range ownedKinds() {
		for _, nw := range []string{"a", "tuning", "a-b.c-d", long} {
			if !perPackage {
				keys = append(keys, nodestate.NewKey(kind, nw).String())
				continue
			}
			for _, p := range []string{"pa", "a-2-b", strings.Repeat("p", 43)} {
				keys = append(keys, nodestate.NewPackageKey(kind, nw, p).String())
			}
		}
	}
	for _, owner := range nodestate.Owners() {
		keys = append(keys, owner.SeqKey())
	}
	return keys
}

// The expressions spell the table of owners once more. They must agree with it.
func TestMatchConditionsKnowTheOwners(t *testing.T) {
	c := compile(t, 37)
	check := func(t *testing.T, old, now *corev1.Node, who, manager string, want bool) {
		t.Helper()
		sent, _, err := c.evaluate(t, old, now, who, manager)
		if err != nil || sent != want {
			t.Errorf("sent: %t, want %t, error %v", sent, want, err)
		}
	}
	for _, k := range keysOfAllForms() {
		owner, owned := nodestate.OwnerOf(k)
		if !owned {
			// A blob whose name does not fit has no key.
			continue
		}
		for _, writer := range nodestate.Owners() {
			t.Run(fmt.Sprintf("%s by %s", k, writer), func(t *testing.T) {
				old := &corev1.Node{}
				now := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{k: "1", writer.SeqKey(): "1"}}}
				now.ManagedFields = []metav1.ManagedFieldsEntry{entry(writer, metav1.ManagedFieldsOperationApply, now.Annotations)}
				check(t, old, now, operator.user, string(writer), writer != owner)
				check(t, old, now, "alice", string(writer), true)
				// The same, but only managedFields tell.
				old.Annotations = maps.Clone(now.Annotations)
				delete(old.Annotations, writer.SeqKey())
				if writer.SeqKey() != k {
					check(t, old, now, operator.user, string(writer), writer != owner)
				}
				check(t, old, now, "alice", string(writer), true)
				// Our own apply, but of the status: it holds the key once more.
				now.ManagedFields[0].Subresource = "status"
				check(t, old, now, operator.user, string(writer), true)
				now.ManagedFields[0].Subresource = ""
				// Our own write, that lets somebody else hold the key as well.
				now.ManagedFields = append(now.ManagedFields, entry("gitops", metav1.ManagedFieldsOperationApply, map[string]string{k: ""}))
				check(t, old, now, operator.user, string(writer), true)
				// And removal.
				check(t, now, &corev1.Node{}, "alice", string(writer), true)
			})
		}
	}
}

// keysOfUsers come close to ours, and belong to users.
func keysOfUsers() []string {
	return []string{
		nodestate.NewKey(nodestate.KindRequest, nodeWright).String(),
		nodestate.NewPackageKey(nodestate.KindPackageRequest, nodeWright, pkg).String(),
		nodestate.Prefix + "ignore", nodestate.Prefix + "note", nodestate.Prefix + "nodeState", nodestate.Prefix + "seq_mine",
		nodestate.Prefix + "seq_nodes", nodestate.Prefix + "my_status_x", "nodewright.nvidia.com", "nodeState_a_b",
		"xnodewright.nvidia.com/nodeState_a_b", nodestate.LegacyPrefix + "nodeState_a", "example.com/status_a",
	}
}

// Keys of users pass, however close they come to ours.
func TestMatchConditionsLetUsersKeysPass(t *testing.T) {
	c := compile(t, 37)
	for _, k := range keysOfUsers() {
		if owner, owned := nodestate.OwnerOf(k); owned {
			t.Fatalf("%s belongs to %s", k, owner)
		}
		t.Run(k, func(t *testing.T) {
			now := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{k: "x"}, Labels: map[string]string{k: "x"}}}
			now.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubectl", metav1.ManagedFieldsOperationApply, now.Annotations)}
			for _, pair := range [][2]*corev1.Node{{{}, now}, {now, {}}} {
				if sent, _, err := c.evaluate(t, pair[0], pair[1], "alice", "kubectl"); err != nil || sent {
					t.Errorf("sent: %t, error %v", sent, err)
				}
			}
		})
	}
}

// WH-02: whatever a node looks like, no expression fails: that would refuse every
// write of the node.
func TestMatchConditionsNeverFail_WH02(t *testing.T) {
	seq := nodestate.OwnerNode.SeqKey()
	odd := map[string]*corev1.Node{
		"nothing":         {},
		"a label":         {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{statusKey: "x"}}},
		"a record":        {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{stateKey: "x"}}},
		"an empty record": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{stateKey: ""}}},
	}
	for _, value := range []string{"", "7", "007", "-1", "1.5", "x", "1e3", " 7", "7 ", "9223372036854775807", "9223372036854775808",
		"999999999999999999", "100000000000000000", strings.Repeat("9", 400), "7\n", "٧"} {
		odd["number "+value] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{seq: value}}}
	}
	for name, raw := range map[string]string{
		"none": "", "null": "null", "empty": "{}", "no annotations": `{"f:metadata":{}}`, "no keys": `{"f:metadata":{"f:annotations":{}}}`,
		"null inside": `{"f:metadata":null}`, "text inside": `{"f:metadata":"x"}`, "list inside": `{"f:metadata":{"f:annotations":["x"]}}`,
		"ours": `{"f:metadata":{"f:annotations":{"f:` + stateKey + `":{}},"f:labels":{"f:` + statusKey + `":{}}}}`,
	} {
		for _, operation := range []metav1.ManagedFieldsOperationType{"", "Apply", "Update", "Other"} {
			fields := metav1.NewFieldsV1(raw)
			if raw == "" {
				fields = nil
			}
			odd[fmt.Sprintf("fields %s by %s", name, operation)] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Annotations:   map[string]string{stateKey: "x", seq: "7"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Operation: operation, FieldsV1: fields}, {Manager: string(nodestate.OwnerNode), Operation: operation, FieldsV1: fields}, {Manager: "m", Operation: operation, FieldsV1: fields, Subresource: "status"}},
			}}
		}
	}
	for _, minor := range []uint{30, 37} {
		c := compile(t, minor)
		for before, old := range odd {
			for after, now := range odd {
				for who, manager := range map[string]string{operator.user: string(nodestate.OwnerNode), "alice": ""} {
					if _, _, err := c.evaluate(t, old, now, who, manager); err != nil {
						t.Errorf("1.%d: from %q to %q by %s: %v", minor, before, after, who, err)
					}
				}
			}
		}
	}
}
