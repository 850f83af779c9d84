package envtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/job"
	"github.com/nodewright/nodewright/test/faults"
)

// logs stands in for kubelets, which there are none of.
type logs struct {
	tail func(pod string) (string, error)
}

func (l logs) Tail(_ context.Context, _, pod, _ string) (string, error) { return l.tail(pod) }

func fixedLog(text string) logs {
	return logs{func(string) (string, error) { return text, nil }}
}

func jobBed(t *testing.T, l job.LogReader) *bed {
	t.Helper()
	return newBed(t, func(b *bed) {
		err := job.AddToManager(b.mgr, job.Options{
			Writer: b.writer(nodestate.OwnerJob), Namespace: b.namespace, Logs: l, Recorder: b.recorder,
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// F3, JB-03, F7: a failed attempt leaves its evidence, and stays until the
// record has moved on; then it gets its mark and TTL, once.
func TestFailedJobLeavesEvidence(t *testing.T) {
	t.Parallel()
	b := jobBed(t, fixedLog(strings.Repeat("日本\xff", 1000)))
	node := b.createNode(t)
	id := identityOn(node, "driver")
	b.record(t, node.Name, entryOf(&id, nil))
	j := b.createJob(t, id, nil)
	b.createPod(t, j, exited(3))
	b.end(t, j, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)

	eventually(t, "the failure is reported", func() bool { return len(decoded(t, node.Name).JobReports) == 1 })
	got := decoded(t, node.Name).JobReports[id.Ref()]
	want := nodestate.JobReport{
		Attempt: 1, ExitCode: ptr.To[int32](3), Job: j.Name, Message: "container main ended with exit code 3",
		Name: "driver", NodeWright: testNodeWright, Reason: "Error", Run: 1, Stage: nodestate.StageApply, Version: "1.0.0",
	}
	ignored := cmpopts.IgnoreFields(nodestate.JobReport{}, "LogTail", "StartedAt", "FinishedAt")
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if len(got.LogTail) > nodestate.MaxLogTail || len(got.LogTail) < nodestate.MaxLogTail-3 || !utf8.ValidString(got.LogTail) {
		t.Errorf("log tail has %d bytes, valid = %t", len(got.LogTail), utf8.ValidString(got.LogTail))
	}
	b.settle(t)
	if packagejob.Recorded(b.stored(t, j.Name)) {
		t.Error("the Job that the record names is marked")
	}

	b.record(t, node.Name, entryOf(&id, func(s *nodestate.PackageStatus) { s.Attempt = 2 }))
	eventually(t, "the report is gone", func() bool { return len(decoded(t, node.Name).JobReports) == 0 })
	b.settle(t)
	if packagejob.Recorded(b.stored(t, j.Name)) {
		t.Error("the Job is marked while the next attempt is under way")
	}
	b.record(t, node.Name, entryOf(&id, func(s *nodestate.PackageStatus) { s.Attempt, s.State = 2, nodestate.StateComplete }))
	eventually(t, "the Job is marked", func() bool { return packagejob.Recorded(b.stored(t, j.Name)) })
	if ttl := b.stored(t, j.Name).Spec.TTLSecondsAfterFinished; ttl == nil || *ttl != 24*60*60 {
		t.Errorf("TTL = %v, want a day", ptr.Deref(ttl, -1))
	}

	// Whatever happens on the node now: nothing is left to write.
	for i := range 5 {
		b.record(t, node.Name, entryOf(&id, func(s *nodestate.PackageStatus) {
			s.Attempt, s.Message = 2, fmt.Sprint("change ", i)
		}))
	}
	b.settle(t)
	if n := b.writes("jobs.batch"); n != 1 {
		t.Errorf("%d writes of Jobs, want 1", n)
	}
	if n := b.writes("nodes"); n != 2 {
		t.Errorf("%d writes of nodes, want 2: the report comes and goes", n)
	}
}

// A last attempt keeps its evidence and its logs, for its TTL.
func TestTerminalFailureGetsItsTTL(t *testing.T) {
	t.Parallel()
	b := jobBed(t, fixedLog("bad"))
	node := b.createNode(t)
	id := identityOn(node, "driver")
	b.record(t, node.Name, entryOf(&id, nil))
	j := b.createJob(t, id, nil)
	b.end(t, j, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	eventually(t, "the failure is reported", func() bool { return len(decoded(t, node.Name).JobReports) == 1 })
	if got := decoded(t, node.Name).JobReports[id.Ref()]; got.Reason != "EvidenceLost" || got.Harmless {
		t.Errorf("report of a Job without pods = %+v, want EvidenceLost, which counts", got)
	}
	b.record(t, node.Name, entryOf(&id, func(s *nodestate.PackageStatus) {
		s.State, s.Reason = nodestate.StateErroring, "EvidenceLost"
	}))
	eventually(t, "the Job is marked", func() bool { return packagejob.Recorded(b.stored(t, j.Name)) })
	b.settle(t)
	if len(decoded(t, node.Name).JobReports) != 1 {
		t.Error("the report of the last attempt is gone")
	}
}

// The TTL is the NodeWright's, if it says one; a success waits for the record.
func TestSucceededJobGetsTheTTLOfItsNodeWright(t *testing.T) {
	t.Parallel()
	b := jobBed(t, fixedLog(""))
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: dnsName(t)}}
	nw.Spec.JobTTL = &v1alpha1.JobTTL{Succeeded: &metav1.Duration{Duration: 90 * time.Second}}
	nw.Spec.Packages = map[string]v1alpha1.Package{"driver": {Name: "driver", Version: "1.0.0", Image: "registry.example.com/driver"}}
	if err := b.admin.Create(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.admin.Delete(context.Background(), nw) })
	node := b.createNode(t)
	id := identityOn(node, "driver")
	id.NodeWright, id.NodeWrightUID = nw.Name, nw.UID
	b.record(t, node.Name, entryOf(&id, nil))
	j := b.createJob(t, id, nil)
	b.end(t, j, batchv1.JobComplete, "")
	b.settle(t)
	if packagejob.Recorded(b.stored(t, j.Name)) {
		t.Fatal("a success is marked before the record has it")
	}
	b.record(t, node.Name, entryOf(&id, func(s *nodestate.PackageStatus) { s.State = nodestate.StateComplete }))
	eventually(t, "the Job is marked", func() bool { return packagejob.Recorded(b.stored(t, j.Name)) })
	if ttl := b.stored(t, j.Name).Spec.TTLSecondsAfterFinished; ttl == nil || *ttl != 90 {
		t.Errorf("TTL = %v, want 90 seconds", ptr.Deref(ttl, -1))
	}
	if n := b.writes("nodes"); n != 0 {
		t.Errorf("%d writes of nodes for a success, want none", n)
	}
}

// Q3: a Job that does not say what it ran is told once, and its TTL runs.
func TestUnreadableJobIsMarkedOnce(t *testing.T) {
	t.Parallel()
	b := jobBed(t, fixedLog(""))
	node := b.createNode(t)
	id := identityOn(node, "driver")
	b.record(t, node.Name, entryOf(&id, nil))
	j := b.createJob(t, id, func(j *batchv1.Job) {
		j.Name, j.Annotations[packagejob.AnnotationIdentity] = "unreadable", `{"node":`
	})
	good := b.createJob(t, id, nil)
	b.settle(t)
	if n := b.counter.Snapshot().Writes(); n != 0 {
		t.Fatalf("%d writes for running Jobs, want none", n)
	}
	b.end(t, j, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	b.end(t, good, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	eventually(t, "the unreadable Job is marked", func() bool { return packagejob.Recorded(b.stored(t, j.Name)) })
	eventually(t, "the other Job is reported", func() bool { return len(decoded(t, node.Name).JobReports) == 1 })
	b.settle(t)
	if n := b.recorder.count(job.EventIdentityUnreadable); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	if ttl := b.stored(t, j.Name).Spec.TTLSecondsAfterFinished; ttl == nil || *ttl != 24*60*60 {
		t.Errorf("TTL = %v, want a day", ptr.Deref(ttl, -1))
	}
}

// Q2, ST-03: what fails for one Job holds back neither the others of its node
// nor other nodes; a node is worked on by one worker at a time, nodes by many.
func TestOneFailingJobHoldsNobodyBack_ST03(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	inFlight, most, mostPerNode := map[string]int{}, 0, 0
	b := jobBed(t, logs{func(pod string) (string, error) {
		node := strings.Split(pod, "-")[0]
		mu.Lock()
		inFlight[node]++
		mostPerNode, most = max(mostPerNode, inFlight[node]), max(most, len(inFlight))
		mu.Unlock()
		time.Sleep(50 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if inFlight[node]--; inFlight[node] == 0 {
			delete(inFlight, node)
		}
		return "", errors.New("no kubelet")
	}})
	var broken string
	var isBroken sync.Mutex
	b.injector.Plan(func(req *http.Request) faults.Fault {
		isBroken.Lock()
		defer isBroken.Unlock()
		if broken != "" && strings.HasSuffix(req.URL.Path, "/pods") && strings.Contains(req.URL.Query().Get("labelSelector"), broken) {
			return faults.Fail
		}
		return faults.None
	})
	const nodes, perNode = 8, 3
	var all []*corev1.Node
	var jobs []*batchv1.Job
	for i := range nodes {
		node := b.createNode(t)
		all = append(all, node)
		var ids []packagejob.Identity
		var entries []nodestate.PackageStatus
		for k := range perNode {
			// The package is named by node and number, so that pods are, too.
			id := identityOn(node, fmt.Sprintf("n%cx-p%cx", 'a'+i, 'a'+k))
			ids, entries = append(ids, id), append(entries, entryOf(&id, nil))
		}
		b.record(t, node.Name, entries...)
		for _, id := range ids {
			j := b.createJob(t, id, nil)
			b.createPod(t, j, exited(1))
			jobs = append(jobs, j)
		}
	}
	isBroken.Lock()
	broken = jobs[0].Name
	isBroken.Unlock()
	for _, j := range jobs {
		b.end(t, j, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	}
	for i, node := range all {
		want := perNode
		if i == 0 {
			want--
		}
		eventually(t, "all but the broken one are reported", func() bool { return len(decoded(t, node.Name).JobReports) == want })
	}
	isBroken.Lock()
	broken = ""
	isBroken.Unlock()
	eventually(t, "the broken one is reported in the end", func() bool { return len(decoded(t, all[0].Name).JobReports) == perNode })
	mu.Lock()
	defer mu.Unlock()
	if mostPerNode != 1 {
		t.Errorf("up to %d reconciles of one node at a time, want 1", mostPerNode)
	}
	if most < 2 {
		t.Error("nodes were worked on one after the other")
	}
	for _, r := range decoded(t, all[1].Name).JobReports {
		if !strings.Contains(r.Message, "its log cannot be read: no kubelet") {
			t.Errorf("message = %q, want it to say that the log is missing", r.Message)
		}
	}
}

// JB-11: of a pod that somebody deletes nothing is left when its Job has
// failed; what was seen before tells that the package did not fail.
func TestDeletedPodIsNoFailure(t *testing.T) {
	t.Parallel()
	b := jobBed(t, fixedLog(""))
	node := b.createNode(t)
	id := identityOn(node, "driver")
	b.record(t, node.Name, entryOf(&id, nil))
	j := b.createJob(t, id, nil)
	pod := b.createPod(t, j, corev1.PodStatus{Phase: corev1.PodRunning})
	finalizer := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["batch.kubernetes.io/job-tracking"]}}`))
	if err := b.admin.Patch(t.Context(), pod, finalizer); err != nil {
		t.Fatal(err)
	}
	cached := b.mgr.GetCache()
	if err := b.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deletion is seen", func() bool {
		var p corev1.Pod
		return cached.Get(t.Context(), client.ObjectKeyFromObject(pod), &p) == nil && p.DeletionTimestamp != nil
	})
	b.settle(t)
	release := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := b.admin.Patch(t.Context(), pod, release); err != nil {
		t.Fatal(err)
	}
	b.end(t, j, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	eventually(t, "the attempt is reported", func() bool { return len(decoded(t, node.Name).JobReports) == 1 })
	if got := decoded(t, node.Name).JobReports[id.Ref()]; !got.Harmless || got.Reason != "PodDeleted" {
		t.Errorf("report = %+v, want PodDeleted, harmless", got)
	}
}

// JB-19, JB-21: Jobs of a node that is gone, or another one of the name, are
// deleted, with an event each; those of the node that is there stay.
func TestJobsOfAGoneNodeAreDeleted_JB19_JB21(t *testing.T) {
	t.Parallel()
	b := jobBed(t, fixedLog(""))
	node := b.createNode(t)
	old := b.createJob(t, identityOn(node, "driver"), nil)
	done := b.createJob(t, identityOn(node, "other"), nil)
	b.end(t, done, batchv1.JobComplete, "")
	deleteNode(t, node.Name)
	again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}}
	if err := b.admin.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	present := b.createJob(t, identityOn(again, "driver"), nil)
	ending := func(name string) func() bool {
		return func() bool { j := b.stored(t, name); return j == nil || j.DeletionTimestamp != nil }
	}
	eventually(t, "the Jobs of the former node are deleted", func() bool { return ending(old.Name)() && ending(done.Name)() })
	b.settle(t)
	if j := b.stored(t, present.Name); j == nil || j.DeletionTimestamp != nil {
		t.Fatal("the Job of the present node is deleted")
	}
	deleteNode(t, node.Name)
	eventually(t, "the Job of the node that went is deleted", ending(present.Name))
	b.settle(t)
	if n := b.recorder.count(job.EventOrphanDeleted); n != 3 {
		t.Errorf("%d events, want one per Job", n)
	}
}

// ST-19: a report that cannot be read is carried, and does not hold back the
// deletion of its NodeWright.
func TestGarbledReportIsCarried(t *testing.T) {
	t.Parallel()
	b := jobBed(t, fixedLog(""))
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: dnsName(t)}}
	nw.Spec.Packages = map[string]v1alpha1.Package{"driver": {Name: "driver", Version: "1.0.0", Image: "registry.example.com/driver"}}
	if err := b.admin.Create(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	node := b.createNode(t)
	id := identityOn(node, "driver")
	id.NodeWright, id.NodeWrightUID = nw.Name, nw.UID
	other := id
	other.Package = "other"
	b.record(t, node.Name, entryOf(&id, nil), entryOf(&other, nil))
	garbled := nodestate.NewPackageKey(nodestate.KindJobState, nw.Name, "driver").String()
	patch(t, node.Name, "somebody", fmt.Sprintf(`{"metadata":{"annotations":{%q:"{"}}}`, garbled))
	j := b.createJob(t, other, nil)
	b.end(t, j, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	eventually(t, "the other package is reported", func() bool { return len(decoded(t, node.Name).JobReports) == 1 })
	if value := liveNode(t, node.Name).Annotations[garbled]; value != "{" {
		t.Errorf("the garbled value is %q now", value)
	}
	if err := b.admin.Delete(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the NodeWright is gone", func() bool {
		return client.IgnoreNotFound(b.admin.Get(t.Context(), client.ObjectKeyFromObject(nw), nw)) == nil &&
			b.admin.Get(t.Context(), client.ObjectKeyFromObject(nw), nw) != nil
	})
	b.record(t, node.Name)
	eventually(t, "all reports are gone", func() bool {
		_, there := liveNode(t, node.Name).Annotations[garbled]
		return !there && len(decoded(t, node.Name).JobReports) == 0
	})
}
