package envtest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/test/faults"
)

func TestRolloutWithinTheBudget(t *testing.T) {
	b := newRolloutBed(t)
	n1, n2, n3 := b.createNode(t).Name, b.createNode(t).Name, b.createNode(t).Name
	nw := b.createNodeWright(t, "", budgetOf(2))
	first := b.awaitGrant(t, n1, nw.Name)
	b.awaitGrant(t, n2, nw.Name)
	if first.Order != 0 || first.Rollout != revision.Of(nw) || first.UID != string(nw.UID) || first.Compartment != v1alpha1.DefaultCompartment {
		t.Errorf("first grant is %+v", first)
	}
	b.answer(t, n1, nw.Name, nodestate.SlotWorking, nodestate.StatusInProgress)
	b.settle(t)
	if _, granted := recordOn(t, n3).Batches[nw.Name]; granted {
		t.Fatal("a third node holds a slot with a budget of 2")
	}
	now := b.nodeWright(t, nw.Name)
	if now.Status.NextOrder != 2 || now.Status.NodesInProgress != 2 || now.Status.CompleteNodes != "0/3" {
		t.Errorf("status %+v", now.Status)
	}
	b.complete(t, n1, nw.Name)
	b.awaitGrant(t, n3, nw.Name)
	b.complete(t, n2, nw.Name)
	b.complete(t, n3, nw.Name)
	now = b.awaitStatus(t, nw.Name, nodestate.StatusComplete)
	if c := conditionOf(t, now, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue || now.Status.CompleteNodes != "3/3" {
		t.Errorf("Ready %+v with %s complete", c, now.Status.CompleteNodes)
	}
	// The event follows the status.
	b.settle(t)
	if b.recorder.count(v1alpha1.ReasonComplete) != 1 {
		t.Errorf("%d events of completion, want 1", b.recorder.count(v1alpha1.ReasonComplete))
	}
	// Nothing is left to do, so nothing is written.
	b.counter.Reset()
	patch(t, n1, "somebody", `{"metadata":{"annotations":{"example.com/note":"x"}}}`)
	setReady(t, b, n1, corev1.ConditionTrue)
	b.settle(t)
	if got := b.counter.Snapshot().PerResource(); len(got) > 0 {
		t.Errorf("writes without a reason: %v", got)
	}
}

// Two NodeWrights on the same nodes keep each other's grants.
func TestRolloutKeepsOtherGrants(t *testing.T) {
	b := newRolloutBed(t)
	node := b.createNode(t).Name
	one := b.createNodeWright(t, "-one", nil)
	two := b.createNodeWright(t, "-two", nil)
	batchOne, batchTwo := b.awaitGrant(t, node, one.Name), b.awaitGrant(t, node, two.Name)
	if batchOne.ID == batchTwo.ID {
		t.Errorf("both grants have id %s", batchOne.ID)
	}
	b.complete(t, node, one.Name)
	b.edit(t, one.Name, func(nw *v1alpha1.NodeWright) {
		nw.Spec.Packages["driver"] = v1alpha1.Package{Version: "2.0.0", Image: "registry.example.com/driver"}
	})
	eventually(t, "another grant for the new version", func() bool {
		got := recordOn(t, node).Batches[one.Name]
		return got.ID != batchOne.ID && got.Order == batchOne.Order && got.Rollout != batchOne.Rollout
	})
	if got := recordOn(t, node).Batches[two.Name]; got != batchTwo {
		t.Errorf("grant of the other NodeWright is %+v, was %+v", got, batchTwo)
	}
	// One goes; the other stays as it is.
	b.removeOrdinarily(t, one.Name, node)
	if got := recordOn(t, node).Batches[two.Name]; got != batchTwo {
		t.Errorf("grant of the other NodeWright is %+v after the deletion, was %+v", got, batchTwo)
	}
	if keys := keysLike(t, node, one.Name); len(keys) > 0 {
		t.Errorf("keys %v are left", keys)
	}
}

// removeOrdinarily deletes a NodeWright and waits until it is gone.
func (b *bed) removeOrdinarily(t *testing.T, name string, nodes ...string) {
	t.Helper()
	if err := b.admin.Delete(t.Context(), &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		b.forgetOn(t, node, name)
	}
	eventually(t, name+" is gone", func() bool { return b.nodeWright(t, name) == nil })
}

// A slot that a node works with is renewed for a changed spec, at the same
// order, and with another id.
func TestRolloutRenewsSlots(t *testing.T) {
	b := newRolloutBed(t)
	node := b.createNode(t).Name
	nw := b.createNodeWright(t, "", nil)
	before := b.awaitGrant(t, node, nw.Name)
	b.answer(t, node, nw.Name, nodestate.SlotWorking, nodestate.StatusInProgress)
	b.edit(t, nw.Name, func(nw *v1alpha1.NodeWright) {
		nw.Spec.Packages["driver"] = v1alpha1.Package{Version: "2.0.0", Image: "registry.example.com/driver"}
	})
	eventually(t, "the slot is renewed", func() bool {
		got := recordOn(t, node).Batches[nw.Name]
		return got.Rollout != before.Rollout && got.Order == before.Order && got.ID != before.ID
	})
	b.complete(t, node, nw.Name)
	b.awaitStatus(t, nw.Name, nodestate.StatusComplete)
}

// Grants whose answers are lost, or that the API server refuses for a while,
// neither exceed the budget nor stay out.
func TestRolloutWithLostAnswers(t *testing.T) {
	for name, fault := range map[string]faults.Fault{"cut": faults.Cut, "refused": faults.Refuse, "failed": faults.Fail, "late": faults.FailLate} {
		t.Run(name, func(t *testing.T) {
			b := newRolloutBed(t)
			var nodes []string
			for range 4 {
				nodes = append(nodes, b.createNode(t).Name)
			}
			b.injector.Plan(faults.Every(2, faults.IsWrite("nodes"), fault))
			nw := b.createNodeWright(t, "", budgetOf(2))
			for done := 0; done < len(nodes); {
				var holding []string
				eventually(t, "some node holds a slot", func() bool {
					holding = nil
					for _, node := range nodes {
						record := recordOn(t, node)
						batch, granted := record.Batches[nw.Name]
						slot, answered := record.Slots[nw.Name]
						if granted && (!answered || batch.Holds(&slot)) {
							holding = append(holding, node)
						}
					}
					return len(holding) > 0
				})
				if len(holding) > 2 {
					t.Fatalf("%v hold slots with a budget of 2", holding)
				}
				b.complete(t, holding[0], nw.Name)
				done++
			}
			got := b.awaitStatus(t, nw.Name, nodestate.StatusComplete)
			if got.Status.NextOrder != 4 {
				t.Errorf("next order is %d, want 4", got.Status.NextOrder)
			}
		})
	}
}

// A node whose writes fail keeps nobody waiting, and a status that cannot be
// written keeps no node waiting.
func TestRolloutGoesOnBesideFailures(t *testing.T) {
	b := newRolloutBed(t)
	n1, n2, n3 := b.createNode(t).Name, b.createNode(t).Name, b.createNode(t).Name
	b.injector.Plan(func(req *http.Request) faults.Fault {
		if faults.IsWrite("nodes")(req) && strings.HasSuffix(req.URL.Path, "/"+n1) {
			return faults.Fail
		}
		return faults.None
	})
	nw := b.createNodeWright(t, "", budgetOf(2))
	b.complete(t, n2, nw.Name)
	eventually(t, "the status shows the second node", func() bool { return b.nodeWright(t, nw.Name).Status.CompleteNodes == "1/3" })
	b.injector.Plan(faults.Every(1, faults.IsWrite(statusWrite), faults.Fail))
	patch(t, n1, "somebody", `{"metadata":{"annotations":{"example.com/note":"x"}}}`)
	b.awaitGrant(t, n1, nw.Name)
	b.injector.Plan(nil)
	b.complete(t, n1, nw.Name)
	b.complete(t, n3, nw.Name)
	if got := b.awaitStatus(t, nw.Name, nodestate.StatusComplete); got.Status.NextOrder != 3 {
		t.Errorf("next order is %d, want 3: retries leave no gaps", got.Status.NextOrder)
	}
}

// Nodes that join are picked up; a node that goes frees its slot.
func TestRolloutFollowsTheFleet(t *testing.T) {
	b := newRolloutBed(t)
	n1 := b.createNode(t).Name
	nw := b.createNodeWright(t, "", budgetOf(1))
	b.awaitGrant(t, n1, nw.Name)
	n2 := b.createNode(t).Name
	b.answer(t, n1, nw.Name, nodestate.SlotWorking, nodestate.StatusInProgress)
	deleteNode(t, n1)
	if batch := b.awaitGrant(t, n2, nw.Name); batch.Order != 1 {
		t.Errorf("order of the second node is %d, want 1", batch.Order)
	}
	b.complete(t, n2, nw.Name)
	b.awaitStatus(t, nw.Name, nodestate.StatusComplete)
	n3 := b.createNode(t).Name
	b.awaitGrant(t, n3, nw.Name)
	if got := b.awaitStatus(t, nw.Name, nodestate.StatusInProgress); got.Status.CompleteNodes != "1/2" {
		t.Errorf("%s complete, want 1/2", got.Status.CompleteNodes)
	}
	// A node whose kubelet is silent gets no slot until it is back.
	n4 := createNode(t, func(n *corev1.Node) {
		n.Labels[bedLabel] = b.namespace
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	}).Name
	setReady(t, b, n4, corev1.ConditionUnknown)
	b.complete(t, n3, nw.Name)
	got := b.awaitStatus(t, nw.Name, nodestate.StatusBlocked)
	if c := conditionOf(t, got, v1alpha1.ConditionBlocked); c.Reason != v1alpha1.ReasonNodesNotReady || !strings.Contains(c.Message, n4) {
		t.Errorf("condition %+v does not name %s", c, n4)
	}
	setReady(t, b, n4, corev1.ConditionTrue)
	b.complete(t, n4, nw.Name)
	b.awaitStatus(t, nw.Name, nodestate.StatusComplete)
}

func TestRolloutHoldsWhatIsNotSupported(t *testing.T) {
	b := newRolloutBed(t)
	node := b.createNode(t).Name
	nw := b.createNodeWright(t, "", func(nw *v1alpha1.NodeWright) { nw.Spec.DeploymentPolicy = "gradual" })
	got := b.awaitStatus(t, nw.Name, nodestate.StatusBlocked)
	c := conditionOf(t, got, v1alpha1.ConditionBlocked)
	if c.Reason != v1alpha1.ReasonNotSupported || !strings.Contains(c.Message, "spec.deploymentPolicy (deployment policies)") {
		t.Errorf("condition %+v", c)
	}
	b.settle(t)
	if keys := keysLike(t, node, nw.Name); len(keys) > 0 || b.recorder.count(v1alpha1.ReasonNotSupported) != 1 {
		t.Errorf("keys %v, %d events", keys, b.recorder.count(v1alpha1.ReasonNotSupported))
	}
	b.edit(t, nw.Name, func(nw *v1alpha1.NodeWright) { nw.Spec.DeploymentPolicy = "" })
	b.complete(t, node, nw.Name)
	b.awaitStatus(t, nw.Name, nodestate.StatusComplete)
}

// A value of batch_* that cannot be read stays byte for byte, and the NodeWright
// says so; another NodeWright on the node goes on.
func TestRolloutCarriesWhatItCannotRead(t *testing.T) {
	b := newRolloutBed(t)
	nwName := b.namespace + "-bad"
	key := nodestate.NewKey(nodestate.KindBatch, nwName).String()
	node := createNode(t, func(n *corev1.Node) {
		n.Labels[bedLabel] = b.namespace
		n.Annotations[key] = "{nonsense"
	}).Name
	bad := b.createNodeWright(t, "-bad", nil)
	good := b.createNodeWright(t, "-good", nil)
	b.awaitGrant(t, node, good.Name)
	eventually(t, "the NodeWright names node and key", func() bool {
		for _, c := range b.nodeWright(t, bad.Name).Status.Conditions {
			if c.Type == v1alpha1.ConditionNodeStateMalformed {
				return strings.Contains(c.Message, node) && strings.Contains(c.Message, key)
			}
		}
		return false
	})
	if got := liveNode(t, node).Annotations[key]; got != "{nonsense" {
		t.Errorf("value is %q now", got)
	}
}

// WH-14: what the user wrote stays as it is, byte for byte, and the generation
// stays 1: finalizer and status do not touch the spec.
func TestRolloutLeavesTheSpecAlone(t *testing.T) {
	b := newRolloutBed(t)
	node := b.createNode(t).Name
	name := b.namespace
	raw := `{"apiVersion":"nodewright.nvidia.com/v1alpha1","kind":"NodeWright","metadata":{"name":"` + name + `","finalizers":["example.com/other"]},
"spec":{"nodeSelectors":{"matchLabels":{"` + bedLabel + `":"` + b.namespace + `"}},
"packages":{"driver":{"version":"1.0.0","image":"registry.example.com/driver",
"resources":{"cpuRequest":"4000m","cpuLimit":"4000m","memoryRequest":"8192Mi","memoryLimit":"8192Mi"},"env":[{"name":"A","value":"B"}]}}}}`
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(raw), &object.Object); err != nil {
		t.Fatal(err)
	}
	if err := b.admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.removeNodeWright(t, name) })
	before := specOf(t, object)
	if !strings.Contains(before, `"cpuLimit":"4000m"`) {
		t.Fatalf("spec as created: %s", before)
	}
	b.complete(t, node, name)
	b.awaitStatus(t, name, nodestate.StatusComplete)
	if err := b.admin.Get(t.Context(), types.NamespacedName{Name: name}, object); err != nil {
		t.Fatal(err)
	}
	if after := specOf(t, object); after != before {
		t.Errorf("spec is\n%s\nand was\n%s", after, before)
	}
	if object.GetGeneration() != 1 {
		t.Errorf("generation is %d, want 1", object.GetGeneration())
	}
	if got := strings.Join(object.GetFinalizers(), " "); got != "example.com/other "+v1alpha1.Finalizer {
		t.Errorf("finalizers are %q", got)
	}
}

func specOf(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	raw, err := json.Marshal(object.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Many nodes that report at the same time cause a few passes and about one
// write of the status a second.
func TestRolloutWritesStatusSparingly(t *testing.T) {
	b := newRolloutBed(t)
	var nodes []string
	for range 30 {
		nodes = append(nodes, b.createNode(t).Name)
	}
	nw := b.createNodeWright(t, "", nil)
	for _, node := range nodes {
		b.awaitGrant(t, node, nw.Name)
	}
	b.settle(t)
	b.counter.Reset()
	began := time.Now()
	for _, node := range nodes {
		b.complete(t, node, nw.Name)
		time.Sleep(50 * time.Millisecond)
	}
	b.awaitStatus(t, nw.Name, nodestate.StatusComplete)
	took := time.Since(began)
	if got, most := b.writes(statusWrite), int(took/time.Second)+2; got > most {
		t.Errorf("%d writes of the status in %s, want at most %d", got, took, most)
	}
	if got := b.writes("nodes") + b.writes(nodeWrightWrite); got > 0 {
		t.Errorf("%d other writes", got)
	}
	if conflicts := b.counter.Snapshot().Conflicts(); conflicts > 0 {
		t.Errorf("%d requests were answered %d", conflicts, http.StatusConflict)
	}
}
