package envtest

import (
	"net/http"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/test/faults"
)

// overtake calls change once, when the manager is about to delete the first object
// of a resource that is named so.
func (b *bed) overtake(resource, name string, change func()) {
	done := false
	b.injector.Plan(func(req *http.Request) faults.Fault {
		r := faults.Classify(req)
		if !done && r.Verb == "delete" && r.Resource == resource && (name == "" || lastOf(req.URL.Path) == name) {
			done = true
			change()
		}
		return faults.None
	})
}

func lastOf(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}

// recreate puts an object in the place of another one of its name.
func (b *bed) recreate(t *testing.T, old, now client.Object) {
	t.Helper()
	now.SetNamespace(old.GetNamespace())
	now.SetName(old.GetName())
	if err := b.admin.Delete(t.Context(), old, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Error(err)
	}
	if err := b.admin.Create(t.Context(), now); err != nil {
		t.Error(err)
	}
}

// wantOvertaken checks that one deletion was refused since another object has the
// name, and that this one stays.
func (b *bed) wantOvertaken(t *testing.T, resource string, now client.Object) {
	t.Helper()
	refused := func() int {
		return b.counter.Snapshot()[faults.Request{Verb: "delete", Resource: resource, Code: http.StatusConflict}]
	}
	eventually(t, "a deletion is refused", func() bool { return refused() > 0 })
	b.settle(t)
	stored := now.DeepCopyObject().(client.Object)
	if err := b.admin.Get(t.Context(), client.ObjectKeyFromObject(now), stored); err != nil {
		t.Fatalf("what came in the place of the deleted object: %v", err)
	}
	if stored.GetUID() != now.GetUID() || stored.GetDeletionTimestamp() != nil {
		t.Errorf("%s %s was deleted, and was not meant", resource, now.GetName())
	}
	if n := refused(); n != 1 {
		t.Errorf("%d deletions were refused, want 1", n)
	}
}

// theirJob is a Job that has nothing to do with packages.
func theirJob(node string) *batchv1.Job {
	return &batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: podSpec(node)}}}
}

// UN-14: what is deleted is the object that was looked at, never another one that
// has taken its name since.
func TestDeletionsMeanOneObject_UN14(t *testing.T) {
	t.Run("Job of a former node", func(t *testing.T) {
		b := jobBed(t, fixedLog(""))
		node := b.createNode(t)
		now := theirJob(node.Name)
		old := b.createJob(t, identityOn(node, "driver"), func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })
		b.overtake("jobs.batch", old.Name, func() { b.recreate(t, old, now) })
		deleteNode(t, node.Name)
		again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}}
		if err := b.admin.Create(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		b.wantOvertaken(t, "jobs.batch", now)
	})
	t.Run("Job of an old spec", func(t *testing.T) {
		b := newTaintBed(t)
		node := b.createNode(t).Name
		nw := b.createNodeWright(t, "", nil)
		old := b.awaitJob(t, node)
		now := theirJob(node)
		b.overtake("jobs.batch", old.Name, func() { b.recreate(t, old, now) })
		b.edit(t, nw.Name, func(nw *v1alpha1.NodeWright) {
			nw.Spec.Packages["driver"] = v1alpha1.Package{Version: "1.0.0", Image: "registry.example.com/other"}
		})
		b.wantOvertaken(t, "jobs.batch", now)
		eventually(t, "the new spec runs", func() bool { j := b.awaitJob(t, node); return j.UID != old.UID })
	})
	t.Run("ConfigMap that nobody needs", func(t *testing.T) {
		b := newRolloutBed(t)
		node := b.createNode(t).Name
		nw := b.createNodeWright(t, "", withConfig("one"))
		roll := func(content string) {
			t.Helper()
			b.awaitGrant(t, node, nw.Name)
			b.answer(t, node, nw.Name, nodestate.SlotReleased, nodestate.StatusComplete, configured(nw, content))
			b.awaitStatus(t, nw.Name, nodestate.StatusComplete)
		}
		roll("one")
		old := b.configMap(t, configName(nw, "one"))
		now := &corev1.ConfigMap{Data: map[string]string{"a": "theirs"}}
		b.overtake("configmaps", old.Name, func() { b.recreate(t, old, now) })
		b.edit(t, nw.Name, withConfig("two"))
		eventually(t, "the new content is there", func() bool { return b.configMap(t, configName(nw, "two")) != nil })
		roll("two")
		b.wantOvertaken(t, "configmaps", now)
	})
	t.Run("ConfigMap that is replaced", func(t *testing.T) {
		b := newRolloutBed(t)
		node := b.createNode(t).Name
		nw := b.createNodeWright(t, "", func(nw *v1alpha1.NodeWright) { withConfig("one")(nw); held(nw) })
		b.awaitStatus(t, nw.Name, nodestate.StatusBlocked)
		old := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: configName(nw, "one")}, Data: map[string]string{"driver.conf": "wrong"},
		}
		if err := b.admin.Create(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		now := &corev1.ConfigMap{Data: map[string]string{"driver.conf": "one"}}
		b.overtake("configmaps", old.Name, func() { b.recreate(t, old, now) })
		b.edit(t, nw.Name, func(nw *v1alpha1.NodeWright) { nw.Spec.DeploymentPolicy = "" })
		b.awaitGrant(t, node, nw.Name)
		b.wantOvertaken(t, "configmaps", now)
		wantConfigMap(t, b.configMap(t, now.Name), nw, "one")
	})
}

// awaitJob waits for a Job of the node that has not ended and is not being
// deleted.
func (b *bed) awaitJob(t *testing.T, node string) *batchv1.Job {
	t.Helper()
	var found *batchv1.Job
	eventually(t, "a Job runs on "+node, func() bool {
		var jobs batchv1.JobList
		if err := b.admin.List(t.Context(), &jobs, client.InNamespace(b.namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range jobs.Items {
			j := &jobs.Items[i]
			if _, ended := packagejob.Finished(j); !ended && j.DeletionTimestamp == nil && packagejob.Owned(j.Labels) && packagejob.NodeName(j) == node {
				found = j
			}
		}
		return found != nil
	})
	return found
}

// UN-13: nothing of ours keeps a node from being deleted, whatever runs there.
func TestNodeIsDeletedAtOnce_UN13(t *testing.T) {
	b := newTaintBed(t)
	node := b.createTainted(t, ourTaint)
	nw := b.createNodeWright(t, "", func(nw *v1alpha1.NodeWright) {
		runtimeRequired(nw)
		pkg := nw.Spec.Packages["driver"]
		pkg.Uninstall = &v1alpha1.Uninstall{Enabled: true}
		nw.Spec.Packages["driver"] = pkg
	})
	b.awaitJob(t, node)
	b.runJobs(t, node, nw.Name)
	awaitTaints(t, node, nil, []corev1.Taint{ourTaint})
	if err := b.admin.Delete(t.Context(), nw.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	job := b.awaitJob(t, node)
	if id, err := packagejob.Parse(job); err != nil || id.Stage != nodestate.StageUninstall {
		t.Fatalf("the node is at %s (%v), want its uninstall to run", id.Stage, err)
	}
	if f := liveNode(t, node).Finalizers; len(f) != 0 {
		t.Errorf("finalizers %v are on the node", f)
	}
	deleteNode(t, node)
	if liveNode(t, node) != nil {
		t.Error("the node is still there after its deletion")
	}
	eventually(t, "the NodeWright is gone", func() bool { return b.nodeWright(t, nw.Name) == nil })
}

// begin lets a stage begin, with the controller of Jobs alone.
func begin(t *testing.T, stage nodestate.Stage) (*bed, *corev1.Node, packagejob.Identity, *batchv1.Job) {
	t.Helper()
	b := jobBed(t, fixedLog(""))
	node := b.createNode(t)
	id := identityOn(node, "driver")
	id.Stage = stage
	b.record(t, node.Name, entryOf(&id, nil))
	return b, node, id, b.createJob(t, id, nil)
}

// JB-10: a pod that was marked for disruption, ended well all the same and is run
// again is no failure, and the stage is complete once.
func TestDisruptedPodThatSucceeds_JB10(t *testing.T) {
	t.Parallel()
	b, node, id, j := begin(t, nodestate.StageApply)
	done := corev1.PodStatus{Phase: corev1.PodSucceeded, Conditions: []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"},
	}, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}},
	}}}
	first := b.createPod(t, j, done)
	b.settle(t)
	if err := b.admin.Delete(t.Context(), first, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	done.Conditions = nil
	b.createPod(t, j, done)
	b.settle(t)
	if n := b.counter.Snapshot().Writes(); n != 0 {
		t.Errorf("%d writes while the Job goes on, want none", n)
	}
	b.end(t, j, batchv1.JobComplete, "")
	b.settle(t)
	if reports := decoded(t, node.Name).JobReports; len(reports) != 0 {
		t.Errorf("a success is reported as %+v", reports)
	}
	b.record(t, node.Name, entryOf(&id, func(s *nodestate.PackageStatus) { s.State = nodestate.StateComplete }))
	eventually(t, "the Job is marked", func() bool { return packagejob.Recorded(b.stored(t, j.Name)) })
	b.settle(t)
	if n := b.writes("jobs.batch"); n != 1 {
		t.Errorf("%d writes of Jobs, want its mark alone", n)
	}
}

// JB-18: the Job of an uninstall keeps its logs for the TTL of a success, although
// its entry is gone.
func TestUninstallJobStays_JB18(t *testing.T) {
	t.Parallel()
	b, node, _, j := begin(t, nodestate.StageUninstall)
	pod := b.createPod(t, j, corev1.PodStatus{Phase: corev1.PodSucceeded})
	b.end(t, j, batchv1.JobComplete, "")
	b.record(t, node.Name)
	eventually(t, "the Job is marked", func() bool { return packagejob.Recorded(b.stored(t, j.Name)) })
	b.settle(t)
	stored := b.stored(t, j.Name)
	if stored == nil || stored.DeletionTimestamp != nil {
		t.Fatal("the Job is deleted")
	}
	if ttl := stored.Spec.TTLSecondsAfterFinished; ttl == nil || *ttl < 60 {
		t.Errorf("TTL = %v, want that of a success", ptr.Deref(ttl, -1))
	}
	if err := b.admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.DeletionTimestamp != nil {
		t.Errorf("the pod with the logs: %v, being deleted: %t", err, pod.DeletionTimestamp != nil)
	}
}
