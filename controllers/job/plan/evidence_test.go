package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/job/plan"
)

func TestEvidence(t *testing.T) {
	t.Parallel()
	const backoff, deadline = batchv1.JobReasonBackoffLimitExceeded, batchv1.JobReasonDeadlineExceeded
	log := &plan.LogSource{Pod: "p", Container: "driver-config"}
	rejected := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu"}
	disrupted := func(status corev1.PodStatus) corev1.PodStatus {
		status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: "True", Reason: "EvictionByEvictionAPI", Message: "evicted",
		}}
		return status
	}
	gone := func(p corev1.Pod) corev1.Pod {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(ended))
		return p
	}
	for name, tc := range map[string]struct {
		reason       string
		change       func(*batchv1.Job)
		pods         func(*batchv1.Job) []corev1.Pod
		sighting     plan.Sighting
		unreachable  bool
		wantReason   string
		wantMessage  string
		wantCode     *int32
		wantHarmless bool
		wantClass    plan.Class
		wantLog      *plan.LogSource
	}{
		"F3 exit code": {
			reason: backoff, pods: one(exited(3, "Error")), wantReason: "Error", wantCode: ptr.To[int32](3),
			wantMessage: "container driver-config ended with exit code 3", wantClass: plan.ClassExit, wantLog: log,
		},
		"JB-25 out of memory": {
			reason: backoff, pods: one(exited(137, "OOMKilled")), wantReason: "OOMKilled", wantCode: ptr.To[int32](137),
			wantMessage: "container driver-config ended with exit code 137", wantClass: plan.ClassOOM, wantLog: log,
		},
		"exit code without reason": {
			reason: backoff, pods: one(exited(1, "")), wantReason: "Error", wantCode: ptr.To[int32](1),
			wantMessage: "container driver-config ended with exit code 1", wantClass: plan.ClassExit, wantLog: log,
		},
		"JB-07 rejected by the kubelet": {
			reason: backoff, pods: one(rejected), wantReason: "OutOfcpu", wantHarmless: true, wantClass: plan.ClassRejected,
			wantMessage: "the kubelet refused the pod: Node didn't have enough resource: cpu",
		},
		"rejected without reason": {
			reason: backoff, pods: one(corev1.PodStatus{Phase: corev1.PodFailed}), wantReason: plan.ReasonPodRejected,
			wantMessage: "the kubelet refused the pod: no reason given", wantHarmless: true, wantClass: plan.ClassRejected,
		},
		"evicted": {
			reason: backoff, pods: one(disrupted(exited(137, "Error"))), wantReason: "EvictionByEvictionAPI",
			wantMessage: "evicted", wantHarmless: true, wantCode: ptr.To[int32](137), wantClass: plan.ClassEnded, wantLog: log,
		},
		"JB-11 pod being deleted": {
			reason: backoff, pods: func(j *batchv1.Job) []corev1.Pod { return []corev1.Pod{gone(pod(j, "p", exited(137, "Error")))} },
			wantReason: plan.ReasonPodDeleted, wantMessage: "the pod was deleted before it ended", wantHarmless: true,
			wantCode: ptr.To[int32](137), wantClass: plan.ClassEnded, wantLog: log,
		},
		"JB-11 pod was deleted": {
			reason: backoff, sighting: plan.Sighting{PodDeleted: true}, wantReason: plan.ReasonPodDeleted,
			wantMessage: "the pod was deleted before it ended", wantHarmless: true, wantClass: plan.ClassEnded,
		},
		"replaced after a deletion, then failed": {
			reason: backoff, sighting: plan.Sighting{PodDeleted: true}, pods: one(exited(2, "Error")), wantReason: "Error",
			wantMessage: "container driver-config ended with exit code 2", wantCode: ptr.To[int32](2),
			wantClass: plan.ClassExit, wantLog: log,
		},
		"JB-11 suspended": {
			reason: backoff, change: func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }, wantReason: plan.ReasonSuspended,
			wantMessage: "the Job was suspended, which ended its pod", wantHarmless: true, wantClass: plan.ClassEnded,
		},
		"suspended, pod left": {
			reason: backoff, change: func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }, pods: one(exited(143, "Error")),
			wantReason: plan.ReasonSuspended, wantMessage: "the Job was suspended, which ended its pod", wantHarmless: true,
			wantCode: ptr.To[int32](143), wantClass: plan.ClassEnded, wantLog: log,
		},
		"exit code 75": {
			reason: backoff, pods: one(exited(75, "Error")), wantReason: plan.ReasonTerminated, wantHarmless: true,
			wantMessage: "the agent was ended by SIGTERM", wantCode: ptr.To[int32](75), wantClass: plan.ClassEnded, wantLog: log,
		},
		"no pod left": {
			reason: backoff, wantReason: plan.ReasonEvidenceLost, wantClass: plan.ClassLost,
			wantMessage: "the Job failed (BackoffLimitExceeded) and no pod of it is left to tell why",
		},
		"no pod left and no reason": {
			wantReason: plan.ReasonEvidenceLost, wantClass: plan.ClassLost,
			wantMessage: "the Job failed (no reason given) and no pod of it is left to tell why",
		},
		"pods of another job of the name": {
			reason: backoff, wantReason: plan.ReasonEvidenceLost, wantClass: plan.ClassLost,
			wantMessage: "the Job failed (BackoffLimitExceeded) and no pod of it is left to tell why",
			pods: func(j *batchv1.Job) []corev1.Pod {
				other := j.DeepCopy()
				other.UID = "other"
				return []corev1.Pod{pod(other, "p", exited(1, "Error"))}
			},
		},
		"deadline": {
			reason: deadline, change: func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](90) },
			wantReason: plan.ReasonDeadlineExceeded, wantMessage: "the stage took longer than its timeout of 90 seconds",
			wantClass: plan.ClassDeadline,
		},
		"deadline, pod killed by it": {
			reason: deadline, pods: one(exited(137, "Error")), wantReason: plan.ReasonDeadlineExceeded,
			wantMessage: "the stage took longer than its timeout", wantClass: plan.ClassDeadline, wantLog: log,
		},
		"deadline on an unreachable node": {
			reason: deadline, unreachable: true, wantReason: plan.ReasonNodeUnreachable, wantHarmless: true,
			wantMessage: "the deadline passed while the node was unreachable", wantClass: plan.ClassUnreachable,
		},
		"deadline, node was unreachable": {
			reason: deadline, sighting: plan.Sighting{Unreachable: true}, wantReason: plan.ReasonNodeUnreachable,
			wantMessage: "the deadline passed while the node was unreachable", wantHarmless: true, wantClass: plan.ClassUnreachable,
		},
		"failed on an unreachable node": {
			reason: backoff, unreachable: true, pods: one(exited(1, "Error")), wantReason: "Error", wantCode: ptr.To[int32](1),
			wantMessage: "container driver-config ended with exit code 1", wantClass: plan.ClassExit, wantLog: log,
		},
		"the last pod decides": {
			reason: backoff, wantReason: "Error", wantCode: ptr.To[int32](4), wantClass: plan.ClassExit,
			wantMessage: "container driver-config ended with exit code 4", wantLog: &plan.LogSource{Pod: "a", Container: "driver-config"},
			pods: func(j *batchv1.Job) []corev1.Pod {
				first, last := pod(j, "z", exited(75, "Error")), pod(j, "a", exited(4, "Error"))
				last.CreationTimestamp = metav1.NewTime(created.Add(time.Second))
				return []corev1.Pod{last, first}
			},
		},
		"failed for a reason of its own": {
			reason: backoff, wantReason: "Weird", wantMessage: "it is weird", wantClass: plan.ClassOther,
			pods: one(corev1.PodStatus{
				Phase: corev1.PodFailed, Reason: "Weird", Message: "it is weird",
				ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}},
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(t, identity(nil), batchv1.JobFailed, tc.reason)
			if tc.change != nil {
				tc.change(j)
			}
			var pods []corev1.Pod
			if tc.pods != nil {
				pods = tc.pods(j)
			}
			got := plan.Evidence(&plan.Facts{
				Attempt: attempt(j), Pods: pods, Sighting: tc.sighting, Unreachable: tc.unreachable,
				Now: metav1.NewTime(ended.Add(time.Hour)),
			})
			want := plan.Finding{
				Class: tc.wantClass, Log: tc.wantLog,
				Report: report(func(r *nodestate.JobReport) {
					r.Reason, r.Message, r.ExitCode, r.Harmless = tc.wantReason, tc.wantMessage, tc.wantCode, tc.wantHarmless
					r.StartedAt = nodestate.FormatTime(created)
				}),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Evidence() (-want +got):\n%s", diff)
			}
			if err := got.Report.Validate(); err != nil {
				t.Errorf("the report is not valid: %v", err)
			}
		})
	}
}

func one(status corev1.PodStatus) func(*batchv1.Job) []corev1.Pod {
	return func(j *batchv1.Job) []corev1.Pod { return []corev1.Pod{pod(j, "p", status)} }
}

func TestEvidenceTimes(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(ended.Add(time.Hour))
	for name, tc := range map[string]struct {
		at   metav1.Time
		want time.Time
	}{
		"as the job says":      {at: metav1.NewTime(ended), want: ended},
		"job does not say":     {want: now.Time},
		"a clock that lags":    {at: metav1.NewTime(created.Add(-time.Minute)), want: created},
		"parts of a second go": {at: metav1.NewTime(ended.Add(300 * time.Millisecond)), want: ended},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(t, identity(nil), batchv1.JobFailed, "")
			j.Status.Conditions[0].LastTransitionTime = tc.at
			got := plan.Evidence(&plan.Facts{Attempt: attempt(j), Now: now}).Report
			if got.FinishedAt != nodestate.FormatTime(tc.want) {
				t.Errorf("FinishedAt = %s, want %s", got.FinishedAt, nodestate.FormatTime(tc.want))
			}
			// What was made counts as the report of this Job in the next pass.
			rec := record(entry(nil))
			rec.JobReports = map[nodestate.PackageRef]nodestate.JobReport{ref: got}
			if p := plan.Compute(input(rec, j)); len(p.Evidence) != 0 {
				t.Error("the next pass wants evidence again")
			}
		})
	}
}

func TestSee(t *testing.T) {
	t.Parallel()
	running := corev1.PodStatus{
		Phase: corev1.PodRunning,
		InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "driver-config", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		},
	}
	failing := func(reason string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: "True", Reason: reason}}
		}
	}
	deadline := failing(batchv1.JobReasonDeadlineExceeded)
	for name, tc := range map[string]struct {
		before      plan.Sighting
		change      func(*batchv1.Job)
		gone        bool
		stranger    bool
		unreachable bool
		want        plan.Sighting
		wantLog     bool
	}{
		"runs":                              {},
		"runs on an unreachable node":       {unreachable: true},
		"pod deleted":                       {gone: true, want: plan.Sighting{PodDeleted: true}},
		"another job's pod deleted":         {gone: true, stranger: true},
		"pod deleted before":                {before: plan.Sighting{PodDeleted: true}, want: plan.Sighting{PodDeleted: true}},
		"pod deleted with its job":          {gone: true, change: deleting},
		"pod deleted by the deadline":       {gone: true, change: deadline, wantLog: true},
		"pod deleted by another failure":    {gone: true, change: failing(batchv1.JobReasonBackoffLimitExceeded)},
		"deadline, log is there":            {before: plan.Sighting{LogTail: "x"}, gone: true, change: deadline, want: plan.Sighting{LogTail: "x"}},
		"deadline on an unreachable node":   {change: deadline, unreachable: true, want: plan.Sighting{Unreachable: true}, wantLog: true},
		"finished: nothing new, all stands": {before: plan.Sighting{Unreachable: true}, gone: true, change: finish, want: plan.Sighting{Unreachable: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(t, identity(nil), "", "")
			owner := j.DeepCopy()
			if tc.stranger {
				owner.UID = "other"
			}
			if tc.change != nil {
				tc.change(j)
			}
			p := pod(owner, "p", running)
			if tc.gone {
				p.DeletionTimestamp = ptr.To(metav1.NewTime(ended))
			}
			got, log := plan.See(tc.before, j, []*corev1.Pod{&p}, tc.unreachable)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("See() (-want +got):\n%s", diff)
			}
			if (log != nil) != tc.wantLog {
				t.Errorf("log to read = %+v, want one = %t", log, tc.wantLog)
			}
		})
	}
}

func finish(j *batchv1.Job) {
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: "True"}}
}
