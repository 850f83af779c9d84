package envtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/node"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
	"github.com/nodewright/nodewright/controllers/rollout"
)

// newTaintBed runs the controllers of nodes and of rollouts. Nobody runs Jobs: the
// test ends them.
func newTaintBed(t *testing.T) *bed {
	t.Helper()
	taints := []corev1.Taint{ourTaint, kubeletTaint}
	return newBed(t, func(b *bed) {
		jobs := stagejob.Settings{
			Namespace: b.namespace, AgentImage: "registry.example.com/agent:1", CopyDirRoot: "/var/lib/skyhook",
			AgentLogRoot: "/var/log/skyhook", HostRoot: "/", Tolerated: taints,
		}
		err := rollout.AddToManager(b.mgr, rollout.Options{
			Writer: b.writer(nodestate.OwnerRollout), Namespace: b.namespace, Recorder: b.recorder,
			RuntimeRequired: taints, Intolerable: jobs.Intolerable,
		})
		if err != nil {
			t.Fatal(err)
		}
		err = node.AddToManager(b.mgr, node.Options{
			Writer: b.writer(nodestate.OwnerNode), Jobs: jobs, Recorder: b.recorder, StageTimeout: time.Hour,
			RetryLimit: 3, PodStartGrace: 2 * time.Minute, RuntimeRequired: taints,
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func (b *bed) createTainted(t *testing.T, taints ...corev1.Taint) string {
	t.Helper()
	return createNode(t, func(n *corev1.Node) {
		n.Labels[bedLabel] = b.namespace
		n.Spec.Taints = taints
	}).Name
}

func runtimeRequired(nw *v1alpha1.NodeWright) { nw.Spec.RuntimeRequired = true }

func autoTaint(nw *v1alpha1.NodeWright) {
	nw.Spec.RuntimeRequired, nw.Spec.AutoTaintNewNodes = true, true
}

// runJobs lets Jobs succeed until the NodeWright is complete on the node.
func (b *bed) runJobs(t *testing.T, node, nodeWright string) {
	t.Helper()
	eventually(t, nodeWright+" is complete on "+node, func() bool {
		var jobs batchv1.JobList
		if err := b.admin.List(t.Context(), &jobs, client.InNamespace(b.namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range jobs.Items {
			job := &jobs.Items[i]
			if _, finished := packagejob.Finished(job); !finished && packagejob.NodeName(job) == node {
				b.end(t, job, batchv1.JobComplete, "")
			}
		}
		return recordOn(t, node, nodeWright).Status[nodeWright] == nodestate.StatusComplete
	})
}

func awaitTaints(t *testing.T, node string, wanted, unwanted []corev1.Taint) {
	t.Helper()
	eventually(t, "taints of "+node+" are as wanted", func() bool {
		n := liveNode(t, node)
		return !slices.ContainsFunc(wanted, func(x corev1.Taint) bool { return !hasTaint(n, x) }) &&
			!slices.ContainsFunc(unwanted, func(x corev1.Taint) bool { return hasTaint(n, x) })
	})
}

// editTaints changes the taints of a node as kubectl does, which tries again where
// the operator wrote in between.
func (b *bed) editTaints(t *testing.T, node string, edit func([]corev1.Taint) []corev1.Taint) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n := liveNode(t, node)
		n.Spec.Taints = edit(n.Spec.Taints)
		return b.admin.Update(t.Context(), n)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// DR-18: the taints go when the node is complete, not before, and whenever they
// stand on a complete node.
func TestTaintsGoWithCompletion(t *testing.T) {
	b := newTaintBed(t)
	nw := b.createNodeWright(t, "", runtimeRequired)
	name := b.createTainted(t, userTaint, ourTaint, kubeletTaint)
	b.awaitGrant(t, name, nw.Name)
	b.settle(t)
	if n := liveNode(t, name); !hasTaint(n, ourTaint) || !hasTaint(n, kubeletTaint) {
		t.Fatalf("taints %v of a node that is not complete", n.Spec.Taints)
	}
	b.runJobs(t, name, nw.Name)
	awaitTaints(t, name, []corev1.Taint{userTaint}, []corev1.Taint{ourTaint, kubeletTaint})
	if got := b.awaitStatus(t, nw.Name, nodestate.StatusComplete).Status.RuntimeRequiredTaint; got != ourTaint.ToString() {
		t.Errorf("status says taint %q", got)
	}
	// It is level-triggered: somebody who read before brings it back.
	b.editTaints(t, name, func(taints []corev1.Taint) []corev1.Taint { return append(taints, ourTaint) })
	awaitTaints(t, name, []corev1.Taint{userTaint}, []corev1.Taint{ourTaint, kubeletTaint})
	eventually(t, "both removals are told", func() bool { return b.recorder.count("TaintRemoved") == 2 })
	b.settle(t)
	if told := b.recorder.count("TaintRemoved"); told != 2 || b.recorder.count("TaintPut") != 0 {
		t.Errorf("events %v", b.recorder.reasons)
	}
}

// A package may be what makes a node ready.
func TestRuntimeRequiredNodeThatIsNotReady(t *testing.T) {
	b := newTaintBed(t)
	name := b.createTainted(t, ourTaint)
	setReady(t, b, name, corev1.ConditionFalse)
	other := b.createNodeWright(t, "-other", nil)
	b.awaitStatus(t, other.Name, nodestate.StatusBlocked)
	nw := b.createNodeWright(t, "", runtimeRequired)
	b.runJobs(t, name, nw.Name)
	awaitTaints(t, name, nil, []corev1.Taint{ourTaint})
}

// The controller puts the taint on a node that was created without admission, and
// does not put it back.
func TestTaintOfANewNode(t *testing.T) {
	b := newTaintBed(t)
	nw := b.createNodeWright(t, "", autoTaint)
	awaitInformed(t, b, nw.Name)
	name := b.createTainted(t, userTaint)
	awaitTaints(t, name, []corev1.Taint{userTaint, ourTaint}, nil)
	// The documented way out.
	b.editTaints(t, name, func(taints []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&ourTaint) })
	})
	b.settle(t)
	b.runJobs(t, name, nw.Name)
	b.settle(t)
	if n := liveNode(t, name); hasTaint(n, ourTaint) || !hasTaint(n, userTaint) {
		t.Errorf("taints %v", n.Spec.Taints)
	}
	if told := b.recorder.count("TaintPut"); told != 1 {
		t.Errorf("the taint was put %d times", told)
	}
}

// DR-22a: a NodeWright that comes later taints no node that is there.
func TestNoTaintForALaterNodeWright(t *testing.T) {
	b := newTaintBed(t)
	name := b.createTainted(t)
	created := liveNode(t, name).CreationTimestamp
	eventually(t, "the next second begins", func() bool { return time.Since(created.Time) > time.Second })
	nw := b.createNodeWright(t, "", autoTaint)
	b.awaitGrant(t, name, nw.Name)
	b.runJobs(t, name, nw.Name)
	if told := b.recorder.count("TaintPut"); told != 0 || hasTaint(liveNode(t, name), ourTaint) {
		t.Errorf("put %d times", told)
	}
}

// Where no NodeWright asks for it any more the taint that we put goes, one with
// which kubelets register stays.
func TestTaintGoesWithTheRequirement(t *testing.T) {
	b := newTaintBed(t)
	nw := b.createNodeWright(t, "", runtimeRequired)
	name := b.createTainted(t, kubeletTaint, ourTaint)
	b.awaitGrant(t, name, nw.Name)
	b.edit(t, nw.Name, func(nw *v1alpha1.NodeWright) {
		nw.Spec.NodeSelectors.MatchLabels = map[string]string{"example.com/nobody": "true"}
	})
	awaitTaints(t, name, []corev1.Taint{kubeletTaint}, []corev1.Taint{ourTaint})
}

// A node that came with the taint before there was a NodeWright for it keeps it.
func TestTaintStaysWithoutNodeWright(t *testing.T) {
	b := newTaintBed(t)
	name := b.createTainted(t, ourTaint)
	b.settle(t)
	if n := liveNode(t, name); !hasTaint(n, ourTaint) {
		t.Errorf("taints %v", n.Spec.Taints)
	}
}

// The condition names node and taint where pods of packages would be evicted.
func TestTaintNotTolerable(t *testing.T) {
	b := newTaintBed(t)
	nw := b.createNodeWright(t, "", nil)
	evicts := corev1.Taint{Key: "example.com/broken", Effect: corev1.TaintEffectNoExecute}
	name := b.createTainted(t, evicts)
	eventually(t, "the condition is true", func() bool {
		for _, c := range b.nodeWright(t, nw.Name).Status.Conditions {
			if c.Type == v1alpha1.ConditionTaintNotTolerable && c.Status == "True" {
				return strings.Contains(c.Message, name) && strings.Contains(c.Message, evicts.ToString())
			}
		}
		return false
	})
	if _, granted := recordOn(t, name, nw.Name).Batches[nw.Name]; granted {
		t.Error("the node was granted a slot")
	}
	b.edit(t, nw.Name, func(nw *v1alpha1.NodeWright) {
		nw.Spec.AdditionalTolerations = []corev1.Toleration{{Key: evicts.Key, Operator: corev1.TolerationOpExists}}
	})
	b.awaitGrant(t, name, nw.Name)
}

// awaitInformed waits until the controllers work for the NodeWright, which they
// show by its finalizer.
func awaitInformed(t *testing.T, b *bed, name string) {
	t.Helper()
	eventually(t, "NodeWright "+name+" is seen", func() bool { return len(b.nodeWright(t, name).Finalizers) > 0 })
}
