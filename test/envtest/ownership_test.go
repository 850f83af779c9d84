package envtest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodestate/managers"
	"github.com/nodewright/nodewright/controllers/apply"
)

// What one writer leaves out goes, and nothing of anybody else.
func TestOmissionClearsMineAndNobodyElses(t *testing.T) {
	p := startProcess(t, processOptions{})
	users := nodestate.Prefix + "note"
	request := nodestate.NewKey(nodestate.KindRequest, testNodeWright).String()
	name := createNode(t, func(n *corev1.Node) {
		n.Annotations[users], n.Annotations[request] = "mine", `{"action":"rerun","id":"1"}`
	}).Name
	node, job, rollout := p.writer(nodestate.OwnerNode), p.writer(nodestate.OwnerJob), p.writer(nodestate.OwnerRollout)
	batch := nodestate.NewKey(nodestate.KindBatch, testNodeWright).String()
	report := nodestate.NewPackageKey(nodestate.KindJobState, testNodeWright, "pa").String()

	bring(t, node, name, packages(nodestate.StageApply, "pa", "pb"), apply.Written)
	bring(t, job, name, nodestate.Set{JobReports: map[nodestate.PackageRef]nodestate.JobReport{
		{NodeWright: testNodeWright, Package: "pa"}: {Job: "j", Reason: "Error", Stage: nodestate.StageApply, Version: "1.0.0"},
	}}, apply.Written)
	bring(t, rollout, name, nodestate.Set{Batches: map[string]nodestate.Batch{
		testNodeWright: {ID: "1", Rollout: "r", Batch: 1},
	}}, apply.Written)
	seqs := []string{nodestate.OwnerNode.SeqKey(), nodestate.OwnerJob.SeqKey(), nodestate.OwnerRollout.SeqKey()}
	others := append([]string{users, request, report, batch}, seqs...)
	wantKeys(t, name, append([]string{stateKey("pa"), stateKey("pb"), statusKey}, others...)...)
	if got := liveNode(t, name).Labels[statusKey]; got != string(nodestate.StatusInProgress) {
		t.Errorf("label %s=%q, want the status word", statusKey, got)
	}

	bring(t, node, name, packages(nodestate.StageConfig, "pb"), apply.Written)
	wantKeys(t, name, append([]string{stateKey("pb"), statusKey}, others...)...)
	bring(t, job, name, nodestate.Set{}, apply.Written)
	others = append([]string{users, request, batch}, seqs...)
	wantKeys(t, name, append([]string{stateKey("pb"), statusKey}, others...)...)
	bring(t, node, name, nodestate.Set{}, apply.Written)
	wantKeys(t, name, others...)
	if _, ok := liveNode(t, name).Labels[statusKey]; ok {
		t.Error("the label of the status stays")
	}

	// Release takes the number along, and then the manager is gone.
	for _, w := range []*apply.Writer{node, job, rollout} {
		outcome, err := w.Release(t.Context(), read(t, w, name))
		if err != nil || outcome != apply.Written {
			t.Fatalf("release: %s, %v", outcome, err)
		}
	}
	wantKeys(t, name, users, request)
	for _, e := range liveNode(t, name).ManagedFields {
		if e.Operation == metav1.ManagedFieldsOperationApply {
			t.Errorf("manager %s stays: %s", e.Manager, e.FieldsV1)
		}
	}
	if outcome, err := node.Release(t.Context(), read(t, node, name)); err != nil || outcome != apply.Unchanged {
		t.Errorf("second release: %s, %v", outcome, err)
	}
}

// A set that stands is not sent, and does not move the node.
func TestSecondApplyWritesNothing(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name

	p.counter.Reset()
	bring(t, w, name, nodestate.Set{}, apply.Unchanged)
	if writes := p.counter.Snapshot().Writes(); writes != 0 {
		t.Errorf("%d writes for an empty set on a new node", writes)
	}
	bringCordon(t, w, name, packages(nodestate.StageApply, "pa"), true, apply.Written)
	before := liveNode(t, name)
	p.counter.Reset()
	bringCordon(t, w, name, packages(nodestate.StageApply, "pa"), true, apply.Unchanged)
	if counts := p.counter.Snapshot(); len(counts) != 0 {
		t.Errorf("second apply made requests: %v", counts)
	}
	if after := liveNode(t, name); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the node moved from version %s to %s", before.ResourceVersion, after.ResourceVersion)
	}
	// Others' writes are no reason to write either.
	patch(t, name, "kubectl-label", `{"metadata":{"labels":{"x":"y"},"annotations":{"x":"y"}}}`)
	p.awaitCache(t, liveNode(t, name))
	p.counter.Reset()
	bringCordon(t, w, name, packages(nodestate.StageApply, "pa"), true, apply.Unchanged)
	if writes := p.counter.Snapshot().Writes(); writes != 0 {
		t.Errorf("%d writes after a foreign write", writes)
	}
}

// awkward is text that JSON and YAML read in different ways.
const awkward = "{ \x7f\u0080\u0085\u009f\u00a0\u2028\u2029\ufeff\ufffd\ufffe\uffff \U0001f600 \t\n\r\x01 é \\u007f \"'#: "

// A value that cannot be read is carried byte for byte, as long as the intent
// carries it.
func TestMalformedValueSurvives(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	bad := map[string]string{
		stateKey("pb"): `{"version":""}`,
		nodestate.NewKey(nodestate.KindSlot, testNodeWright).String(): awkward,
	}
	name := createNode(t, func(n *corev1.Node) {
		for key, value := range bad {
			n.Annotations[key] = value
		}
	}).Name
	p.awaitCache(t, liveNode(t, name))
	for _, stage := range []nodestate.Stage{nodestate.StageApply, nodestate.StageConfig} {
		view := read(t, w, name)
		if got := len(view.Record.Malformed); got != len(bad) {
			t.Fatalf("%d malformed values, want %d", got, len(bad))
		}
		set := packages(stage, "pa")
		set.Raw = view.Carried(nodestate.OwnerNode)
		if outcome, err := w.Apply(t.Context(), view, set, false); err != nil || outcome != apply.Written {
			t.Fatalf("apply: %s, %v", outcome, err)
		}
		for key, want := range bad {
			if got := liveNode(t, name).Annotations[key]; got != want {
				t.Errorf("%s is %q after %s, want %q", key, got, stage, want)
			}
		}
	}
	// Left out, it goes, although its first writer held it too.
	bring(t, w, name, packages(nodestate.StageConfig, "pa"), apply.Written)
	wantKeys(t, name, stateKey("pa"), statusKey, nodestate.OwnerNode.SeqKey())
}

// A key that others hold too is removed all the same.
func TestCoOwnedKeyIsRemoved_ST10_ST11(t *testing.T) {
	const reset = `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`
	set := packages(nodestate.StageApply, "pa")
	encoded, err := set.Encode(nodestate.OwnerNode, 1)
	if err != nil {
		t.Fatal(err)
	}
	value := encoded.Annotations[stateKey("pa")]
	annotate := `{"metadata":{"annotations":{"` + stateKey("pa") + `":` + quoteJSON(t, value) + `}}}`
	label := `{"metadata":{"labels":{"` + statusKey + `":"in_progress"}}}`
	// A stranger that applies the same value.
	stranger := func(t *testing.T, name string) {
		c := corev1ac.Node(name).WithAnnotations(map[string]string{stateKey("pa"): value})
		if err := admin(t).Apply(t.Context(), c, client.FieldOwner("gitops")); err != nil {
			t.Fatal(err)
		}
	}
	do := func(manager, body string) func(*testing.T, string) {
		return func(t *testing.T, name string) { patch(t, name, manager, body) }
	}
	cases := map[string]struct {
		before, after func(*testing.T, string)
		// again: the same set is applied after that, and this comes of it.
		again apply.Outcome
		// writes that the removal takes.
		writes int
	}{
		"annotated before our first apply": {before: do("kubectl-annotate", annotate), writes: 3},
		"labelled before our first apply":  {before: do("kubectl-label", label), writes: 3},
		"annotated after our apply":        {after: do("kubectl-annotate", annotate), writes: 1},
		"applied by a stranger":            {after: stranger, writes: 3},
		"ownership reset":                  {after: do("kubectl", reset), writes: 3},
		"ownership reset and taken back":   {after: do("kubectl", reset), again: apply.Written, writes: 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, processOptions{})
			w := p.writer(nodestate.OwnerNode)
			node := createNode(t, nil).Name
			if tc.before != nil {
				tc.before(t, node)
			}
			bring(t, w, node, set, apply.Written)
			if tc.after != nil {
				tc.after(t, node)
			}
			p.awaitCache(t, liveNode(t, node))
			if tc.again != 0 {
				bring(t, w, node, set, tc.again)
				bring(t, w, node, set, apply.Unchanged)
			}
			p.counter.Reset()
			bring(t, w, node, nodestate.Set{}, apply.Written)
			counts := p.counter.Snapshot()
			wantKeys(t, node, nodestate.OwnerNode.SeqKey())
			if _, ok := liveNode(t, node).Labels[statusKey]; ok {
				t.Error("the label stays")
			}
			if got := counts.Writes(); got != tc.writes {
				t.Errorf("removal took %d writes, want %d: %v", got, tc.writes, counts)
			}
			bring(t, w, node, nodestate.Set{}, apply.Unchanged)
		})
	}
}

// Ownership that was lost is taken back although all values are right: else
// nothing that is left out later would go.
func TestLostOwnershipIsTakenBack(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	set := packages(nodestate.StageApply, "pa")
	bring(t, w, name, set, apply.Written)
	patch(t, name, "kubectl", `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`)
	p.awaitCache(t, liveNode(t, name))
	bring(t, w, name, set, apply.Written)
	holders, err := managers.Holders(liveNode(t, name).ManagedFields, managers.Annotation(stateKey("pa")))
	if err != nil {
		t.Fatal(err)
	}
	want := []managers.Manager{
		{Name: "before-first-apply", Operation: metav1.ManagedFieldsOperationUpdate},
		managers.Applier(string(nodestate.OwnerNode)),
	}
	if diff := cmp.Diff(want, holders); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	bring(t, w, name, set, apply.Unchanged)
}

// A value that somebody else changed is put right, without a conflict.
func TestForeignChangeIsPutRight(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	set := packages(nodestate.StageApply, "pa")
	bring(t, w, name, set, apply.Written)
	want := liveNode(t, name).Annotations[stateKey("pa")]
	patch(t, name, "kubectl-annotate", `{"metadata":{"annotations":{"`+stateKey("pa")+`":"x","`+stateKey("forged")+`":"x"}}}`)
	p.awaitCache(t, liveNode(t, name))
	bring(t, w, name, set, apply.Written)
	if got := liveNode(t, name).Annotations[stateKey("pa")]; got != want {
		t.Errorf("value %q, want %q", got, want)
	}
	wantKeys(t, name, stateKey("pa"), statusKey, nodestate.OwnerNode.SeqKey())
}

// A cordon of ours goes with us, one of an administrator stays, as the API
// server has it: who set a field first, or to another value, holds it too.
func TestCordon_DR15_DR29(t *testing.T) {
	const cordon = `{"spec":{"unschedulable":true}}`
	cases := map[string]struct {
		before, after string
		want          bool
	}{
		"ours alone":                 {want: false},
		"of an administrator before": {before: cordon, want: true},
		// The server sees no change in what the administrator asks for.
		"of an administrator after":           {after: cordon, want: false},
		"of an administrator, ours, uncordon": {before: cordon, after: `{"spec":{"unschedulable":null}}`, want: false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, processOptions{})
			w := p.writer(nodestate.OwnerNode)
			node := createNode(t, nil).Name
			if tc.before != "" {
				patch(t, node, "kubectl-cordon", tc.before)
			}
			p.awaitCache(t, liveNode(t, node))
			set := packages(nodestate.StageInterrupt, "pa")
			bringCordon(t, w, node, set, true, apply.Written)
			if !liveNode(t, node).Spec.Unschedulable {
				t.Fatal("the node is not cordoned")
			}
			if tc.after != "" {
				patch(t, node, "kubectl-cordon", tc.after)
			}
			p.awaitCache(t, liveNode(t, node))
			if tc.after != "" && !liveNode(t, node).Spec.Unschedulable {
				// Somebody undid the cordon that we hold: it comes back.
				bringCordon(t, w, node, set, true, apply.Written)
				if !liveNode(t, node).Spec.Unschedulable {
					t.Fatal("the cordon did not come back")
				}
			}
			bringCordon(t, w, node, set, false, apply.Written)
			if got := liveNode(t, node).Spec.Unschedulable; got != tc.want {
				t.Errorf("unschedulable after our cordon: %t, want %t", got, tc.want)
			}
			bringCordon(t, w, node, set, false, apply.Unchanged)
		})
	}
}

// What goes over the wire is our keys, name and UID: nothing else is taken.
func TestRequestBody_ST29(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerRollout)
	node := createNode(t, nil)
	p.awaitCache(t, node)
	bodies := captureBodies(t, p)
	bring(t, w, node.Name, nodestate.Set{Batches: map[string]nodestate.Batch{
		testNodeWright: {ID: "1", Rollout: "r", Batch: 1},
	}}, apply.Written)
	want := `{"kind":"Node","apiVersion":"v1","metadata":{"name":"` + node.Name + `","uid":"` + string(node.UID) + `","annotations":{` +
		`"nodewright.nvidia.com/batch_tuning":"{\"batch\":1,\"id\":\"1\",\"nodewright\":\"tuning\",\"order\":0,\"rollout\":\"r\"}",` +
		`"nodewright.nvidia.com/seq_rollout":"1"}}}`
	if diff := cmp.Diff([]string{want}, *bodies); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
}

// A writer owns nothing on the node but what is in its set.
func TestOwnsOnlyItsKeys_ST29(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	bringCordon(t, w, name, packages(nodestate.StageApply, "pa"), true, apply.Written)
	fields, err := managers.Owned(liveNode(t, name).ManagedFields, string(nodestate.OwnerNode))
	if err != nil {
		t.Fatal(err)
	}
	want := managers.Fields{
		Annotations:   []string{stateKey("pa"), nodestate.OwnerNode.SeqKey(), statusKey},
		Labels:        []string{statusKey},
		Unschedulable: true,
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("owned fields (-want +got):\n%s", diff)
	}
}

// A release has no number to be told from a late one by: it is for the node as
// viewed only.
func TestLateReleaseTakesNothingAway(t *testing.T) {
	p, other := startProcess(t, processOptions{}), startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	bring(t, w, name, packages(nodestate.StageApply, "pa"), apply.Written)
	view := read(t, w, name)
	other.awaitCache(t, liveNode(t, name))
	bring(t, other.writer(nodestate.OwnerNode), name, packages(nodestate.StageConfig, "pa"), apply.Written)
	if _, err := w.Release(t.Context(), view); !errors.Is(err, apply.ErrStaleView) {
		t.Errorf("release of an old view: %v, want ErrStaleView", err)
	}
	wantKeys(t, name, stateKey("pa"), statusKey, nodestate.OwnerNode.SeqKey())
	// Decided anew, it takes effect.
	if outcome, err := w.Release(t.Context(), read(t, w, name)); err != nil || outcome != apply.Written {
		t.Fatalf("release: %s, %v", outcome, err)
	}
	wantKeys(t, name)
}
