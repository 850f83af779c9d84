package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/pod/plan"
)

// job is that of the pod of the first attempt.
func job(t *testing.T, began time.Time, change func(*batchv1.Job)) *batchv1.Job {
	t.Helper()
	p := pod(t, "p", 1, corev1.PodStatus{})
	id, err := packagejob.Parse(p)
	if err != nil {
		t.Fatal(err)
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: id.JobName(), UID: "job-uid", Labels: p.Labels, Annotations: p.Annotations, CreationTimestamp: metav1.NewTime(began),
	}}
	j.Status.StartTime = ptr.To(metav1.NewTime(began))
	if change != nil {
		change(j)
	}
	return j
}

func TestJobWithoutPod(t *testing.T) {
	name := job(t, now, nil).Name
	its := pod(t, "p", 1, running())
	its.Labels[batchv1.JobNameLabel] = name
	refusal := corev1.Event{
		Reason: "FailedCreate", LastTimestamp: metav1.NewTime(now.Add(-5 * time.Second)),
		Message: fmt.Sprintf(`Error creating: pods "%s-x7k2p" is forbidden: exceeded quota: small`, name),
	}
	says := fmt.Sprintf(`Error creating: pods %q is forbidden: exceeded quota: small`, name)
	older := refusal
	older.LastTimestamp, older.Message = metav1.NewTime(now.Add(-time.Hour)), "older"
	refused := func(since time.Time, message string) *nodestate.PodReport {
		return &nodestate.PodReport{
			Job: name, Name: "driver", NodeWright: "tuning", Reason: "FailedCreate", Message: message, WaitingSince: nodestate.FormatTime(since),
		}
	}
	began := now.Add(-time.Minute)
	for title, tc := range map[string]struct {
		job      *batchv1.Job
		pods     []*corev1.Pod
		events   []corev1.Event
		standing *nodestate.PodReport
		want     *nodestate.PodReport
		// wantNext is when to look again, zero for never.
		wantNext time.Time
	}{
		"refused":           {job: job(t, began, nil), events: []corev1.Event{older, refusal}, want: refused(now.Add(-5*time.Second), says), wantNext: now.Add(10 * time.Second)},
		"the time stays":    {job: job(t, began, nil), events: []corev1.Event{refusal}, standing: refused(began, "other"), want: refused(began, says), wantNext: now.Add(10 * time.Second)},
		"just begun":        {job: job(t, now.Add(-time.Second), nil), events: []corev1.Event{refusal}, wantNext: now.Add(29 * time.Second)},
		"on its way":        {job: job(t, began, nil), wantNext: now.Add(10 * time.Second)},
		"has a pod":         {job: job(t, began, nil), pods: []*corev1.Pod{its}, events: []corev1.Event{refusal}},
		"suspended":         {job: job(t, began, func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }), events: []corev1.Event{refusal}},
		"being deleted":     {job: job(t, began, func(j *batchv1.Job) { j.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }), events: []corev1.Event{refusal}},
		"of another's pods": {job: job(t, began, func(j *batchv1.Job) { j.Labels = nil }), events: []corev1.Event{refusal}},
		"failed": {job: job(t, began, func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		}), events: []corev1.Event{refusal}},
		"not begun": {job: job(t, began, func(j *batchv1.Job) { j.Status.StartTime = nil }), want: &nodestate.PodReport{
			Job: name, Name: "driver", NodeWright: "tuning", Reason: "JobNotBegun", WaitingSince: nodestate.FormatTime(now),
			Message: "Kubernetes has not begun the Job: see that kube-controller-manager runs",
		}, wantNext: now.Add(10 * time.Second)},
	} {
		t.Run(title, func(t *testing.T) {
			in := &plan.Input{Now: now, NodeUID: "node-uid", Pods: tc.pods, Jobs: []*batchv1.Job{tc.job}, Grace: grace}
			if tc.standing != nil {
				in.Standing = map[nodestate.PackageRef]nodestate.PodReport{ref: *tc.standing}
			}
			got := plan.Compute(in)
			for _, w := range got.Without {
				got.ReportWithout(in, w, tc.events)
			}
			var want map[nodestate.PackageRef]nodestate.PodReport
			if tc.want != nil {
				want = map[nodestate.PackageRef]nodestate.PodReport{ref: *tc.want}
			}
			if diff := cmp.Diff(want, got.Reports); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
			if !got.NextCheck.Equal(tc.wantNext) {
				t.Errorf("next check %s, want %s", got.NextCheck, tc.wantNext)
			}
		})
	}
}
