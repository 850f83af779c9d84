package envtest

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/test/faults"
)

// appliedBy is what a manager applied to the node, and when.
func appliedBy(t *testing.T, node string, owner nodestate.Owner) metav1.ManagedFieldsEntry {
	t.Helper()
	for _, e := range liveNode(t, node).ManagedFields {
		if e.Manager == string(owner) && e.Operation == metav1.ManagedFieldsOperationApply {
			return e
		}
	}
	t.Fatalf("node %s has nothing of %s", node, owner)
	return metav1.ManagedFieldsEntry{}
}

// ST-01: a pass that was computed from an old snapshot puts nothing back, neither
// what another controller wrote meanwhile nor what its own controller did.
func TestStalePassPutsNothingBack_ST01(t *testing.T) {
	p := startProcess(t, processOptions{})
	name := createNode(t, nil).Name
	node, job := p.writer(nodestate.OwnerNode), p.writer(nodestate.OwnerJob)
	report := func(reason string) nodestate.Set {
		return nodestate.Set{JobReports: map[nodestate.PackageRef]nodestate.JobReport{
			{NodeWright: testNodeWright, Package: "pa"}: {Job: "j", Reason: reason, Stage: nodestate.StageApply, Version: "1.0.0"},
		}}
	}
	bring(t, node, name, packages(nodestate.StageApply, "pa", "pb"), apply.Written)
	bring(t, job, name, report("Error"), apply.Written)

	late, overtaken := read(t, node, name), read(t, node, name)
	bring(t, job, name, report("DeadlineExceeded"), apply.Written)
	reported := appliedBy(t, name, nodestate.OwnerJob)
	reportKey := nodestate.NewPackageKey(nodestate.KindJobState, testNodeWright, "pa").String()
	value := liveNode(t, name).Annotations[reportKey]

	// The late pass knows nothing of the second report.
	set := packages(nodestate.StageApply, "pa", "pb")
	pa := nodestate.PackageRef{NodeWright: testNodeWright, Package: "pa"}
	entry := set.Packages[pa]
	entry.State = nodestate.StateComplete
	set.Packages[pa] = entry
	if outcome, err := node.Apply(t.Context(), late, set, false); err != nil || outcome != apply.Written {
		t.Fatalf("apply: %s, %v", outcome, err)
	}
	if got := liveNode(t, name).Annotations[reportKey]; got != value {
		t.Errorf("report is %s, want %s", got, value)
	}
	if diff := cmp.Diff(reported, appliedBy(t, name, nodestate.OwnerJob)); diff != "" {
		t.Errorf("what the other controller holds (-before +after):\n%s", diff)
	}

	// A pass of the same controller that moves pb, and has pa as it was.
	_, err := node.Apply(t.Context(), overtaken, packages(nodestate.StageConfig, "pb"), false)
	if !errors.Is(err, apply.ErrStaleView) {
		t.Fatalf("apply of an overtaken pass: %v, want ErrStaleView", err)
	}
	now := read(t, node, name)
	if got := now.Record.Packages[pa].State; got != nodestate.StateComplete {
		t.Errorf("pa is %s in the next view, want complete", got)
	}
	next := packages(nodestate.StageConfig, "pb")
	next.Packages[pa] = now.Record.Packages[pa]
	if outcome, err := node.Apply(t.Context(), now, next, false); err != nil || outcome != apply.Written {
		t.Fatalf("apply: %s, %v", outcome, err)
	}
	record := decoded(t, name)
	if got := record.Packages[pa].State; got != nodestate.StateComplete {
		t.Errorf("pa is %s, want complete", got)
	}
	if got := record.Packages[nodestate.PackageRef{NodeWright: testNodeWright, Package: "pb"}].Stage; got != nodestate.StageConfig {
		t.Errorf("pb is at %s, want config", got)
	}
}

// ST-05: where others were faster the node is read again from the API server: a
// cache that is behind would answer with what was refused already.
func TestOvertakenChangeReadsLive_ST05(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{ourTaint} }).Name
	view := read(t, w, name)
	p.lag.Set(faults.Hold)
	changed := liveNode(t, name)
	changed.Spec.Taints = append(changed.Spec.Taints, userTaint)
	if err := admin(t).Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	p.counter.Reset()
	began := time.Now()
	outcome, err := w.ChangeTaints(t.Context(), view, apply.TaintChange{Remove: []corev1.Taint{ourTaint}})
	if err != nil || outcome != apply.Written {
		t.Fatalf("outcome %s, error %v, want written", outcome, err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %s, although nothing had to be waited for", took)
	}
	counts := p.counter.Snapshot()
	patches := func(code int) int { return counts[faults.Request{Verb: "patch", Resource: "nodes", Code: code}] }
	if patches(http.StatusUnprocessableEntity) != 1 || patches(http.StatusOK) != 1 ||
		counts[faults.Request{Verb: "get", Resource: "nodes", Code: http.StatusOK}] != 1 {
		t.Errorf("requests %v, want one that was refused, one read, one that was taken", counts)
	}
	if now := liveNode(t, name); hasTaint(now, ourTaint) || !hasTaint(now, userTaint) {
		t.Errorf("taints %v", now.Spec.Taints)
	}
}

// ST-11: somebody resets who holds what in the middle of a stage; the stage is
// recorded all the same, and what is left out later goes.
func TestOwnershipIsResetInAStage_ST11(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	bring(t, w, name, packages(nodestate.StageApply, "pa"), apply.Written)
	patch(t, name, "kubectl", `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`)
	p.awaitCache(t, liveNode(t, name))
	bring(t, w, name, packages(nodestate.StageConfig, "pa"), apply.Written)
	pa := nodestate.PackageRef{NodeWright: testNodeWright, Package: "pa"}
	if got := decoded(t, name).Packages[pa].Stage; got != nodestate.StageConfig {
		t.Errorf("recorded is %s, want config", got)
	}
	bring(t, w, name, nodestate.Set{}, apply.Written)
	wantKeys(t, name, nodestate.OwnerNode.SeqKey())
}

// ST-14: what was reset does not come back from a cache that still has it.
func TestStaleCacheNeverRestoresAKey_ST14(t *testing.T) {
	for name, opts := range map[string]processOptions{"read-your-writes": {}, "plain reads": {plainReads: true}} {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, opts)
			w := p.writer(nodestate.OwnerNode, apply.WithRequestTimeout(impatient))
			name := createNode(t, nil).Name
			bring(t, w, name, packages(nodestate.StageConfig, "pa", "pb"), apply.Written)
			p.awaitCache(t, liveNode(t, name))
			p.lag.Set(faults.Hold)
			bring(t, w, name, packages(nodestate.StageConfig, "pb"), apply.Written)
			// The next pass carries on with what it finds.
			view := read(t, w, name)
			set := packages(nodestate.StageApply, "pc")
			for ref, s := range view.Record.Packages {
				set.Packages[ref] = s
			}
			if outcome, err := w.Apply(t.Context(), view, set, false); err != nil || outcome != apply.Written {
				t.Fatalf("apply: %s, %v", outcome, err)
			}
			wantKeys(t, name, stateKey("pb"), stateKey("pc"), statusKey, nodestate.OwnerNode.SeqKey())
		})
	}
}

// UN-06: what is removed are exact keys: not what ends or begins with the name of
// the NodeWright, which may be a key of a user or of another NodeWright.
func TestCleanUpRemovesExactKeys_UN06(t *testing.T) {
	p := startProcess(t, processOptions{})
	users := []string{
		nodestate.Prefix + "autoTaint_" + testNodeWright, nodestate.Prefix + testNodeWright, nodestate.Prefix + "my_" + testNodeWright,
		nodestate.Prefix + "note", nodestate.NewKey(nodestate.KindRequest, testNodeWright).String(),
	}
	name := createNode(t, func(n *corev1.Node) {
		for _, key := range users {
			n.Annotations[key] = "theirs"
		}
		n.Labels[nodestate.Prefix+"my_"+testNodeWright] = "theirs"
	}).Name
	node, rollout := p.writer(nodestate.OwnerNode), p.writer(nodestate.OwnerRollout)
	const neighbour = testNodeWright + "-b"
	next := nodestate.PackageRef{NodeWright: neighbour, Package: "pa"}
	full := packages(nodestate.StageConfig, "pa")
	full.Packages[next] = full.Packages[nodestate.PackageRef{NodeWright: testNodeWright, Package: "pa"}]
	full.Status[neighbour] = nodestate.StatusInProgress
	full.Cordons = map[string]time.Time{testNodeWright: time.Unix(1_700_000_000, 0).UTC(), neighbour: time.Unix(1_700_000_000, 0).UTC()}
	bringCordon(t, node, name, full, true, apply.Written)
	grants := map[string]nodestate.Batch{testNodeWright: {ID: "1", Batch: 1}, neighbour: {ID: "2", Batch: 1}}
	bring(t, rollout, name, nodestate.Set{Batches: grants}, apply.Written)

	// The NodeWright goes.
	rest := nodestate.Set{
		Packages: map[nodestate.PackageRef]nodestate.PackageStatus{next: full.Packages[next]},
		Status:   map[string]nodestate.StatusWord{neighbour: nodestate.StatusInProgress},
		Cordons:  map[string]time.Time{neighbour: full.Cordons[neighbour]},
	}
	bringCordon(t, node, name, rest, true, apply.Written)
	delete(grants, testNodeWright)
	bring(t, rollout, name, nodestate.Set{Batches: grants}, apply.Written)
	wantKeys(t, name, append(users,
		nodestate.NewPackageKey(nodestate.KindNodeState, neighbour, "pa").String(), nodestate.NewKey(nodestate.KindStatus, neighbour).String(),
		nodestate.NewKey(nodestate.KindCordon, neighbour).String(), nodestate.NewKey(nodestate.KindBatch, neighbour).String(),
		nodestate.OwnerNode.SeqKey(), nodestate.OwnerRollout.SeqKey())...)
	got := liveNode(t, name)
	if got.Labels[nodestate.Prefix+"my_"+testNodeWright] != "theirs" || !got.Spec.Unschedulable {
		t.Errorf("labels %v, cordoned %t: the user's label and the neighbour's cordon have to stay", got.Labels, got.Spec.Unschedulable)
	}
	if _, ok := got.Labels[statusKey]; ok {
		t.Error("the label of the NodeWright stays")
	}
}
