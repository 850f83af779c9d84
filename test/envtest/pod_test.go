package envtest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/pod"
)

func podBed(t *testing.T, grace time.Duration) *bed {
	t.Helper()
	return newBed(t, func(b *bed) {
		err := pod.AddToManager(b.mgr, pod.Options{
			Writer: b.writer(nodestate.OwnerPod), Namespace: b.namespace, Grace: grace, Recorder: b.recorder,
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func waitingFor(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}
}

func runs() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}}
}

// JB-01: an image that cannot be pulled is reported with the kubelet's words,
// once, whatever turns pull and back-off take; the report goes with the start.
func TestImageThatCannotBePulledIsReported(t *testing.T) {
	t.Parallel()
	b := podBed(t, time.Minute)
	node := b.createNode(t)
	id := identityOn(node, "driver")
	j := b.createJob(t, id, nil)
	p := b.createPod(t, j, waitingFor("ContainerCreating", ""))
	b.settle(t)
	if n := b.writes("nodes"); n != 0 {
		t.Fatalf("%d writes of nodes for a pod that starts, want none", n)
	}
	b.setPod(t, p, waitingFor("ErrImagePull", "not found"))
	eventually(t, "the pod is reported", func() bool { return len(decoded(t, node.Name).PodReports) == 1 })
	first := decoded(t, node.Name).PodReports[id.Ref()]
	want := nodestate.PodReport{
		Job: j.Name, Message: "not found", Name: "driver", NodeWright: testNodeWright, Pod: p.Name, Reason: "ErrImagePull",
		WaitingSince: first.WaitingSince,
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	for range 3 {
		b.setPod(t, p, waitingFor("ImagePullBackOff", "back-off"))
		b.setPod(t, p, waitingFor("ErrImagePull", "not found"))
	}
	b.settle(t)
	if n := b.writes("nodes"); n != 1 {
		t.Errorf("%d writes of nodes, want 1", n)
	}
	b.setPod(t, p, waitingFor("CreateContainerConfigError", "secret missing"))
	eventually(t, "the other reason is reported", func() bool {
		r := decoded(t, node.Name).PodReports[id.Ref()]
		return r.Reason == "CreateContainerConfigError" && r.WaitingSince == first.WaitingSince
	})
	b.setPod(t, p, runs())
	eventually(t, "the report is gone", func() bool { return len(decoded(t, node.Name).PodReports) == 0 })
}

// A report goes with its pod, and with the last report the number goes, too.
func TestReportGoesWithThePod(t *testing.T) {
	t.Parallel()
	b := podBed(t, time.Minute)
	node := b.createNode(t)
	id := identityOn(node, "driver")
	p := b.createPod(t, b.createJob(t, id, nil), waitingFor("InvalidImageName", "bad"))
	eventually(t, "the pod is reported", func() bool { return len(decoded(t, node.Name).PodReports) == 1 })
	if err := b.admin.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing of ours is left", func() bool {
		rec := decoded(t, node.Name)
		return len(rec.PodReports) == 0 && rec.Seq[nodestate.OwnerPod] == 0
	})
}

// JB-02: volumes that do not mount are reported after the grace period, with
// what events say.
func TestVolumesThatDoNotMountAreReported_JB02(t *testing.T) {
	t.Parallel()
	const grace = 3 * time.Second
	b := podBed(t, grace)
	node := b.createNode(t)
	id := identityOn(node, "driver")
	status := waitingFor("ContainerCreating", "")
	since := metav1.NewTime(time.Now().Truncate(time.Second))
	status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: since,
	}}
	p := b.createPod(t, b.createJob(t, id, nil), status)
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: b.namespace, Name: p.Name + ".1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: b.namespace, Name: p.Name, UID: p.UID},
		Reason:         "FailedMount", Message: `secret "keys" not found`, Type: corev1.EventTypeWarning, LastTimestamp: metav1.Now(),
	}
	if err := b.admin.Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is reported", func() bool { return len(decoded(t, node.Name).PodReports) == 1 })
	if early := since.Add(grace); time.Now().Before(early) {
		t.Errorf("reported before %s", early)
	}
	got := decoded(t, node.Name).PodReports[id.Ref()]
	if got.Reason != "FailedMount" || got.Message != event.Message || got.WaitingSince != nodestate.FormatTime(since.Time) {
		t.Errorf("report = %+v", got)
	}
}
