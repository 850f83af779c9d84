package admission

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/test/manifests"
)

const vnode = "vnode.nodewright.nvidia.com"

// conditions evaluates the match conditions that ship with the API server's own
// code, which also tells what they cost.
type conditions struct {
	evaluator admissioncel.ConditionEvaluator
}

// compile compiles the conditions of vnode as an API server of a version does.
func compile(t testing.TB, minor uint) *conditions {
	t.Helper()
	c, err := manifests.As[admissionregistrationv1.ValidatingWebhookConfiguration](bed.objects, "ValidatingWebhookConfiguration")
	if err != nil {
		t.Fatal(err)
	}
	var expressions []admissioncel.ExpressionAccessor
	for i := range c.Webhooks {
		for _, condition := range c.Webhooks[i].MatchConditions {
			if c.Webhooks[i].Name == vnode {
				expressions = append(expressions, (*matchconditions.MatchCondition)(&condition))
			}
		}
	}
	if len(expressions) != 2 {
		t.Fatalf("%d match conditions, want 2", len(expressions))
	}
	compiler := admissioncel.NewConditionCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, minor)))
	evaluator := compiler.CompileCondition(expressions, admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
	for _, err := range evaluator.CompilationErrors() {
		t.Fatal(err)
	}
	return &conditions{evaluator: evaluator}
}

// evaluate says whether the request is sent, what that cost, and how an
// expression failed. Without an old node it is a creation.
func (c *conditions) evaluate(t testing.TB, old, now *corev1.Node, who, manager string) (sent bool, cost int64, err error) {
	t.Helper()
	gvk, gvr := corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithResource("nodes")
	attributes := admission.NewAttributesRecord(now, nil, gvk, "", now.Name, gvr, "", admission.Create,
		&metav1.CreateOptions{FieldManager: manager}, false, &user.DefaultInfo{Name: who})
	versioned := &admission.VersionedAttributes{VersionedKind: gvk, VersionedObject: admission.NewLazyObject(now)}
	if old != nil {
		attributes = admission.NewAttributesRecord(now, old, gvk, "", now.Name, gvr, "", admission.Update,
			&metav1.UpdateOptions{FieldManager: manager}, false, &user.DefaultInfo{Name: who})
		versioned.VersionedOldObject = admission.NewLazyObject(old)
	}
	versioned.Attributes = attributes
	review := admissioncel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(gvr), metav1.GroupVersionKind(gvk))
	results, left, err := c.evaluator.ForInput(t.Context(), versioned, review, admissioncel.OptionalVariableBindings{}, nil,
		celconfig.RuntimeCELCostBudgetMatchConditions)
	if err != nil {
		return false, 0, err
	}
	sent = true
	for _, result := range results {
		if result.Error != nil {
			return false, 0, result.Error
		}
		sent = sent && result.EvalResult.Value().(bool)
	}
	return sent, celconfig.RuntimeCELCostBudgetMatchConditions - left, nil
}

// laden is a node with keys of nodewright-node and so many managers in all, each
// of which holds an annotation of its own.
func laden(keys, managers int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "laden", Annotations: map[string]string{}, Labels: map[string]string{statusKey: "in_progress"}}}
	for i := range keys - 1 {
		k := nodestate.NewPackageKey(nodestate.KindNodeState, "some-nodewright", "package-"+strings.Repeat("x", i%20)+fmt.Sprint(i)+"x").String()
		node.Annotations[k] = fmt.Sprintf("%0450d", i)
	}
	node.Annotations[nodestate.OwnerNode.SeqKey()] = "7"
	node.ManagedFields = []metav1.ManagedFieldsEntry{entry(nodestate.OwnerNode, metav1.ManagedFieldsOperationApply, node.Annotations)}
	for i := range managers - 1 {
		k := fmt.Sprintf("example.com/note-%d", i)
		node.Annotations[k] = "x"
		node.ManagedFields = append(node.ManagedFields,
			entry(nodestate.Owner(fmt.Sprintf("manager-%d", i)), metav1.ManagedFieldsOperationUpdate, map[string]string{k: ""}))
	}
	return node
}

func entry(manager nodestate.Owner, operation metav1.ManagedFieldsOperationType, annotations map[string]string) metav1.ManagedFieldsEntry {
	var fields []string
	for k := range maps.Keys(annotations) {
		fields = append(fields, fmt.Sprintf(`"f:%s":{}`, k))
	}
	return metav1.ManagedFieldsEntry{
		Manager: string(manager), Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{` + strings.Join(fields, ",") + `}}}`),
	}
}

// writes of a laden node, as many ways as there are to make the conditions work.
func writes() map[string]struct {
	who, manager string
	edit         func(*corev1.Node)
} {
	type write = struct {
		who, manager string
		edit         func(*corev1.Node)
	}
	touch := func(node *corev1.Node, i int) {
		node.ManagedFields[i].Time = &metav1.Time{Time: time.Unix(1_700_000_000, 0)}
	}
	next := func(node *corev1.Node) {
		touch(node, 0)
		node.Annotations[nodestate.OwnerNode.SeqKey()] = "8"
	}
	return map[string]write{
		"heartbeat": {"system:node:laden", "kubelet", func(n *corev1.Node) { touch(n, len(n.ManagedFields)-1) }},
		"foreign annotation": {"alice", "kubectl", func(n *corev1.Node) {
			n.Annotations["example.com/other"] = "x"
			n.ManagedFields[len(n.ManagedFields)-1] = entry("manager-x", metav1.ManagedFieldsOperationUpdate, map[string]string{"example.com/other": ""})
		}},
		"all annotations are removed": {"alice", "kubectl", func(n *corev1.Node) { n.Annotations = nil }},
		"all managers are removed":    {"alice", "kubectl", func(n *corev1.Node) { n.ManagedFields = nil }},
		"a manager gets everything": {"alice", "kubectl", func(n *corev1.Node) {
			n.ManagedFields[len(n.ManagedFields)-1] = entry("manager-x", metav1.ManagedFieldsOperationUpdate, n.Annotations)
		}},
		"a manager gets everything, and is ours": {"alice", "kubectl", func(n *corev1.Node) {
			n.ManagedFields[0] = entry(nodestate.OwnerNode, metav1.ManagedFieldsOperationApply, n.Annotations)
		}},
		"all managers get everything": {"alice", "kubectl", func(n *corev1.Node) {
			for i := range n.ManagedFields {
				n.ManagedFields[i] = entry(nodestate.Owner(fmt.Sprintf("other-%d", i)), metav1.ManagedFieldsOperationUpdate, n.Annotations)
			}
		}},
		"ours": {operator.user, string(nodestate.OwnerNode), next},
		"all of ours": {operator.user, string(nodestate.OwnerNode), func(n *corev1.Node) {
			for k := range n.Annotations {
				if strings.HasPrefix(k, nodestate.Prefix) {
					n.Annotations[k] += " "
				}
			}
			next(n)
		}},
		"the first of ours": {operator.user, string(nodestate.OwnerNode), next},
	}
}

// A tenth of what the API server grants is enough where nodes have as much as
// they may have. Beyond that the expressions give up at once, and never fail.
func TestMatchConditionsAreCheap(t *testing.T) {
	const tenth = celconfig.RuntimeCELCostBudgetMatchConditions / 10
	sizes := []struct{ keys, managers int }{{3, 5}, {300, 11}, {400, 50}, {401, 50}, {400, 51}, {600, 11}, {600, 151}, {600, 600}, {2, 601}}
	for _, minor := range []uint{30, 37} {
		c := compile(t, minor)
		for _, size := range sizes {
			for name, write := range writes() {
				t.Run(fmt.Sprintf("1.%d/%d keys, %d managers/%s", minor, size.keys, size.managers, name), func(t *testing.T) {
					old := laden(size.keys, size.managers)
					if name == "the first of ours" {
						old.Annotations, old.ManagedFields = map[string]string{}, old.ManagedFields[1:]
					}
					now := laden(size.keys, size.managers)
					write.edit(now)
					sent, cost, err := c.evaluate(t, old, now, write.who, write.manager)
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("sent: %t, cost %d", sent, cost)
					if size.keys <= 300 && size.managers <= 11 && cost > tenth {
						t.Errorf("cost %d, want at most %d", cost, tenth)
					}
					if (size.keys > 400 || size.managers > 50) && !sent {
						t.Error("a node that is too large to look at was not sent")
					}
				})
			}
		}
	}
}
