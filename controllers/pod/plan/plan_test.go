package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/pod/plan"
)

var (
	ref   = nodestate.PackageRef{NodeWright: "tuning", Package: "driver"}
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now   = start.Add(10 * time.Minute)
)

const grace = 2 * time.Minute

func container(state corev1.ContainerState) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{Name: "driver-init", State: state}}
}

func waiting(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: container(
		corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})}
}

func running() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: container(
		corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})}
}

func unprepared(since time.Time) corev1.PodStatus {
	status := waiting("PodInitializing", "")
	status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReadyToStartContainers, Status: "False", LastTransitionTime: metav1.NewTime(since),
	}}
	return status
}

func pod(t testing.TB, name string, attempt int32, status corev1.PodStatus) *corev1.Pod {
	t.Helper()
	id := packagejob.Identity{
		Attempt: attempt, Node: "n1", NodeUID: "node-uid", NodeWright: "tuning", NodeWrightUID: "nw-uid",
		Package: "driver", Run: 7, Stage: nodestate.StageApply, Version: "1.2.3",
	}
	annotations, err := id.Annotations()
	if err != nil {
		t.Fatal(err)
	}
	labels := id.Labels()
	labels[batchv1.JobNameLabel] = "job-" + string('0'+attempt)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: "uid", Labels: labels, Annotations: annotations,
			CreationTimestamp: metav1.NewTime(start.Add(time.Duration(attempt) * time.Minute)),
		},
		Status: status,
	}
}

func report(reason, message string, since time.Time) nodestate.PodReport {
	return nodestate.PodReport{
		Job: "job-1", Message: message, Name: "driver", NodeWright: "tuning", Pod: "p", Reason: reason,
		WaitingSince: nodestate.FormatTime(since),
	}
}

// JB-01, JB-02: each way in which a pod cannot start, and those in which it
// only takes its time.
func TestStartWait_JB01_JB02(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{
		"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
		"SignatureValidationFailed", "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			got, ok := plan.StartWait(pod(t, "p", 1, waiting(reason, "says the kubelet")))
			if want := (plan.Waiting{Reason: reason, Message: "says the kubelet"}); !ok || got != want {
				t.Errorf("StartWait() = %+v, %t, want %+v", got, ok, want)
			}
		})
	}
	ended := waiting("ErrImagePull", "")
	ended.Phase = corev1.PodFailed
	prepared := waiting("PodInitializing", "")
	prepared.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: "True"}}
	torndown := unprepared(start)
	torndown.Phase = corev1.PodRunning
	second := waiting("ErrImagePull", "agent image")
	second.InitContainerStatuses = append(container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}),
		second.InitContainerStatuses...)
	for name, tc := range map[string]struct {
		status     corev1.PodStatus
		deleted    bool
		want       bool
		wantReason string
	}{
		"new":                         {status: corev1.PodStatus{Phase: corev1.PodPending}},
		"being created":               {status: waiting("ContainerCreating", "")},
		"waits for its turn":          {status: waiting("PodInitializing", "")},
		"pulls a large image":         {status: prepared},
		"runs":                        {status: running()},
		"ended":                       {status: ended},
		"being deleted":               {status: waiting("ErrImagePull", ""), deleted: true},
		"volumes do not mount":        {status: unprepared(start), want: true, wantReason: "PodNotReadyToStart"},
		"sandbox goes after the end":  {status: torndown},
		"second container cannot run": {status: second, want: true, wantReason: "ErrImagePull"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pod(t, "p", 1, tc.status)
			if tc.deleted {
				p.DeletionTimestamp = ptr.To(metav1.NewTime(now))
			}
			if got, ok := plan.StartWait(p); ok != tc.want || got.Reason != tc.wantReason {
				t.Errorf("StartWait() = %+v, %t, want %q, %t", got, ok, tc.wantReason, tc.want)
			}
		})
	}
}

func TestCompute(t *testing.T) {
	t.Parallel()
	before := now.Add(-5 * time.Minute)
	for name, tc := range map[string]struct {
		status      corev1.PodStatus
		standing    *nodestate.PodReport
		change      func(*corev1.Pod)
		want        *nodestate.PodReport
		wantExplain bool
		wantNext    time.Time
	}{
		"runs, nothing stands": {status: running()},
		"runs, a report goes":  {status: running(), standing: ptr.To(report("ErrImagePull", "m", before))},
		"first sight":          {status: waiting("ErrImagePull", "m"), want: ptr.To(report("ErrImagePull", "m", now))},
		"nothing changed":      {status: waiting("ErrImagePull", "m"), standing: ptr.To(report("ErrImagePull", "m", before)), want: ptr.To(report("ErrImagePull", "m", before))},
		"back-off brings no news": {
			status: waiting("ImagePullBackOff", "back-off"), standing: ptr.To(report("ErrImagePull", "m", before)),
			want: ptr.To(report("ErrImagePull", "m", before)),
		},
		"another error of the pull": {
			status: waiting("ErrImagePull", "unauthorized"), standing: ptr.To(report("ErrImagePull", "m", before)),
			want: ptr.To(report("ErrImagePull", "unauthorized", before)),
		},
		"seen in back-off first": {
			status: waiting("ErrImagePull", "m"), standing: ptr.To(report("ImagePullBackOff", "back-off", before)),
			want: ptr.To(report("ErrImagePull", "m", before)),
		},
		"another reason, same time": {
			status: waiting("CreateContainerConfigError", "secret missing"), standing: ptr.To(report("ErrImagePull", "m", before)),
			want: ptr.To(report("CreateContainerConfigError", "secret missing", before)),
		},
		"replaced pod of the same job": {
			status:   waiting("ImagePullBackOff", "back-off"),
			standing: ptr.To(func() nodestate.PodReport { r := report("ErrImagePull", "m", before); r.Pod = "old"; return r }()),
			want:     ptr.To(report("ImagePullBackOff", "back-off", before)),
		},
		"report of the attempt before": {
			status:   waiting("ErrImagePull", "m"),
			standing: ptr.To(func() nodestate.PodReport { r := report("ErrImagePull", "m", before); r.Job = "old"; return r }()),
			want:     ptr.To(report("ErrImagePull", "m", now)),
		},
		"report from the future": {
			status: waiting("ErrImagePull", "m"), standing: ptr.To(report("ErrImagePull", "m", now.Add(time.Hour))),
			want: ptr.To(report("ErrImagePull", "m", now)),
		},
		"volumes take a moment": {status: unprepared(now.Add(-time.Minute)), wantNext: now.Add(time.Minute)},
		"volumes do not mount":  {status: unprepared(before), want: ptr.To(report("PodNotReadyToStart", notReady, before)), wantExplain: true},
		"volumes, explained": {
			status: unprepared(before), standing: ptr.To(report("FailedMount", "secret missing", before)),
			want: ptr.To(report("FailedMount", "secret missing", before)),
		},
		"volumes, not explained": {
			status: unprepared(before), standing: ptr.To(report("PodNotReadyToStart", notReady, before)),
			want: ptr.To(report("PodNotReadyToStart", notReady, before)), wantExplain: true,
		},
		"identity unreadable": {status: waiting("ErrImagePull", "m"), change: func(p *corev1.Pod) { p.Annotations[packagejob.AnnotationIdentity] = "{" }},
		"not ours":            {status: waiting("ErrImagePull", "m"), change: func(p *corev1.Pod) { p.Labels = nil }},
		"of a former node": {
			status: waiting("ErrImagePull", "m"),
			change: func(p *corev1.Pod) {
				p.Annotations[packagejob.AnnotationIdentity] =
					`{"attempt":1,"node":"n1","nodeUID":"old","nodewright":"tuning","nodewrightUID":"u","package":"driver","run":7,"stage":"apply","version":"1"}`
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pod(t, "p", 1, tc.status)
			if tc.change != nil {
				tc.change(p)
			}
			in := &plan.Input{Now: now, NodeUID: "node-uid", Pods: []*corev1.Pod{p}, Grace: grace}
			if tc.standing != nil {
				in.Standing = map[nodestate.PackageRef]nodestate.PodReport{ref: *tc.standing}
			}
			got := plan.Compute(in)
			var want map[nodestate.PackageRef]nodestate.PodReport
			if tc.want != nil {
				want = map[nodestate.PackageRef]nodestate.PodReport{ref: *tc.want}
			}
			if diff := cmp.Diff(want, got.Reports); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
			if (len(got.Explain) == 1) != tc.wantExplain || !got.NextCheck.Equal(tc.wantNext) {
				t.Errorf("explain = %v, next check = %s, want %t and %s", got.Explain, got.NextCheck, tc.wantExplain, tc.wantNext)
			}
		})
	}
}

const notReady = "volumes, network or sandbox of the pod are not ready; the events of the pod say more"

func TestTheNewestPodCounts(t *testing.T) {
	t.Parallel()
	blocked := func(name string, attempt int32) *corev1.Pod {
		return pod(t, name, attempt, waiting("ErrImagePull", "m"))
	}
	gone := func(p *corev1.Pod) *corev1.Pod {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		return p
	}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"newest waits":          {pods: []*corev1.Pod{blocked("a", 1), blocked("b", 2)}, want: "b"},
		"newest runs":           {pods: []*corev1.Pod{blocked("a", 1), pod(t, "b", 2, running())}},
		"newest is deleted":     {pods: []*corev1.Pod{blocked("a", 1), gone(blocked("b", 2))}, want: "a"},
		"all are deleted":       {pods: []*corev1.Pod{gone(blocked("a", 1))}},
		"equal age: by name":    {pods: []*corev1.Pod{blocked("b", 1), blocked("a", 1)}, want: "b"},
		"no pods, no reports":   {},
		"order does not matter": {pods: []*corev1.Pod{blocked("b", 2), blocked("a", 1)}, want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plan.Compute(&plan.Input{Now: now, NodeUID: "node-uid", Pods: tc.pods, Grace: grace})
			if got.Reports[ref].Pod != tc.want {
				t.Errorf("report is of pod %q, want %q", got.Reports[ref].Pod, tc.want)
			}
		})
	}
}

// However a pod alternates between reasons, the time since when it waits never
// begins anew, and pull and back-off change the report at most once each.
func TestWaitingSinceIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		standing := map[nodestate.PackageRef]nodestate.PodReport{}
		first, at, changes := "", now, 0
		for i := range rapid.IntRange(1, 20).Draw(rt, "passes") {
			reason := rapid.SampledFrom([]string{"ErrImagePull", "ImagePullBackOff"}).Draw(rt, "reason")
			p := pod(t, "p", 1, waiting(reason, "message of "+reason))
			got := plan.Compute(&plan.Input{Now: at, NodeUID: "node-uid", Standing: standing, Pods: []*corev1.Pod{p}, Grace: grace})
			if i == 0 {
				first = got.Reports[ref].WaitingSince
			} else if !cmp.Equal(standing, got.Reports) {
				changes++
			}
			if got.Reports[ref].WaitingSince != first {
				rt.Fatalf("pass %d: waits since %s, want %s", i, got.Reports[ref].WaitingSince, first)
			}
			standing, at = got.Reports, at.Add(time.Minute)
		}
		if changes > 1 {
			rt.Fatalf("the report changed %d times, want at most once", changes)
		}
	})
}

func TestExplain(t *testing.T) {
	t.Parallel()
	event := func(reason, message string, at time.Time) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Name: "p"}, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(at),
		}
	}
	series := event("FailedMount", "in a series", start)
	series.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(now)}
	other := event("FailedMount", "of another pod", now)
	other.InvolvedObject.Name = "q"
	plain := report("PodNotReadyToStart", notReady, start)
	for name, tc := range map[string]struct {
		events []corev1.Event
		want   nodestate.PodReport
	}{
		"no events":         {want: plain},
		"nothing that fits": {events: []corev1.Event{event("Pulling", "x", now), other}, want: plain},
		"one":               {events: []corev1.Event{event("FailedMount", "secret missing", now)}, want: report("FailedMount", "secret missing", start)},
		"the newest": {
			events: []corev1.Event{event("FailedMount", "new", now), event("FailedCreatePodSandBox", "old", start)},
			want:   report("FailedMount", "new", start),
		},
		"the newest of a series": {
			events: []corev1.Event{series, event("FailedCreatePodSandBox", "old", start.Add(time.Second))},
			want:   report("FailedMount", "in a series", start),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, plan.Explain(plain, tc.events)); diff != "" {
				t.Errorf("Explain() (-want +got):\n%s", diff)
			}
		})
	}
}
