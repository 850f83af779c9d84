package sim

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/packagejob"
)

const (
	// brokenImage cannot be pulled.
	brokenImage = "reg/broken"
	// exitTerminated is the exit code of an agent that was ended by SIGTERM.
	exitTerminated = 75
)

// cluster is what Job controller, garbage collector and kubelets do. Each does
// one thing to one object that is due for it.
func (w *world) cluster() []play {
	return []play{
		{40, func() bool { return w.some(4, w.syncJob) }},
		{40, func() bool { return w.some(4, w.actKubelet) }},
		{4, w.collectGarbage},
		{6, func() bool { w.passTime(time.Duration(1+w.rng.IntN(20)) * time.Second); return true }},
		{2, func() bool { w.passTime(time.Duration(1+w.rng.IntN(10)) * time.Minute); return true }},
	}
}

func controlledBy(pod *corev1.Pod, job *batchv1.Job) bool { return metav1.IsControlledBy(pod, job) }

func (w *world) podsOfJob(job *batchv1.Job) []*corev1.Pod {
	var out []*corev1.Pod
	for _, name := range w.api.podsOf[job.UID] {
		out = append(out, w.api.live.pods.get(name))
	}
	return out
}

// anyOf acts on one of the objects, tried in random order.
func anyOf[T any](w *world, objects []T, act func(T) bool) bool {
	if len(objects) == 0 {
		return false
	}
	first := w.rng.IntN(len(objects))
	for i := range objects {
		if act(objects[(first+i)%len(objects)]) {
			return true
		}
	}
	return false
}

// syncJob is one sync of the Job controller.
func (w *world) syncJob() bool {
	return w.expireSome() || anyOf(w, w.api.openJobs(), func(job *batchv1.Job) bool {
		pods := w.podsOfJob(job)
		if job.DeletionTimestamp != nil {
			return w.finishDeletion(job, pods)
		}
		return w.syncUnfinished(job, pods)
	})
}

// expireSome ends a Job whose TTL is over, if there is one.
func (w *world) expireSome() bool {
	if w.api.expiry.IsZero() || w.now.Before(w.api.expiry) {
		return false
	}
	if anyOf(w, w.api.jobs(), func(job *batchv1.Job) bool {
		return job.DeletionTimestamp == nil && w.expire(job, w.podsOfJob(job))
	}) {
		return true
	}
	w.api.expiry = time.Time{}
	for _, job := range w.api.jobs() {
		if at, ok := expiry(job); ok && job.DeletionTimestamp == nil && (w.api.expiry.IsZero() || at.Before(w.api.expiry)) {
			w.api.expiry = at
		}
	}
	return false
}

// finishDeletion lets a Job go that is deleted in the foreground.
func (w *world) finishDeletion(job *batchv1.Job, pods []*corev1.Pod) bool {
	acted := false
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			w.api.changePod(pod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: w.now} })
			acted = true
		} else if podEnded(pod) {
			w.api.remove(kindPod, pod.Name)
			acted = true
		}
	}
	if len(pods) == 0 {
		w.log("Job %s is gone", job.Name)
		w.api.remove(kindJob, job.Name)
		acted = true
	}
	return acted
}

// expire is the TTL of finished Jobs.
func (w *world) expire(job *batchv1.Job, pods []*corev1.Pod) bool {
	end, ok := expiry(job)
	if !ok || w.now.Before(end) {
		return false
	}
	w.log("the TTL of Job %s is over", job.Name)
	for _, pod := range pods {
		w.api.remove(kindPod, pod.Name)
	}
	w.api.remove(kindJob, job.Name)
	return true
}

func expiry(job *batchv1.Job) (time.Time, bool) {
	c, finished := packagejob.Outcome(job)
	ttl := job.Spec.TTLSecondsAfterFinished
	if !finished || ttl == nil {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Add(time.Duration(*ttl) * time.Second), true
}

func deadlineOf(job *batchv1.Job) (time.Time, bool) {
	if job.Spec.ActiveDeadlineSeconds == nil || job.Status.StartTime == nil {
		return time.Time{}, false
	}
	return job.Status.StartTime.Add(time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second), true
}

// endPods deletes the pods of a suspended Job, whose time begins anew when it
// goes on.
func (w *world) endPods(job *batchv1.Job, pods []*corev1.Pod) bool {
	acted := w.deletePods(pods)
	if job.Status.StartTime != nil {
		w.api.changeJob(job.Name, func(j *batchv1.Job) { j.Status.StartTime = nil })
		acted = true
	}
	return acted
}

// deletePods begins the end of pods that run, and tells whether there are any.
func (w *world) deletePods(pods []*corev1.Pod) bool {
	acted := false
	for _, pod := range pods {
		if !podEnded(pod) && pod.DeletionTimestamp == nil {
			w.log("pod %s is deleted with the end of its Job, or since it is suspended", pod.Name)
			w.api.changePod(pod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: w.now} })
			acted = true
		}
	}
	return acted
}

// tellSuspended says on a suspended Job that it has no pods left, and takes that
// back once it goes on.
func (w *world) tellSuspended(job *batchv1.Job, pods []*corev1.Pod) bool {
	open := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !podEnded(p) })
	if asleep := packagejob.Suspended(job) && !open; asleep == packagejob.Asleep(job) {
		return false
	}
	w.api.changeJob(job.Name, func(j *batchv1.Job) {
		j.Status.Conditions = slices.DeleteFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended })
		if packagejob.Suspended(job) {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue})
		}
	})
	return true
}

func (w *world) syncUnfinished(job *batchv1.Job, pods []*corev1.Pod) bool {
	if packagejob.Suspended(job) && !ending(job) && w.endPods(job, pods) || w.tellSuspended(job, pods) {
		return true
	}
	if !packagejob.Suspended(job) && job.Status.StartTime == nil {
		w.api.changeJob(job.Name, func(j *batchv1.Job) { j.Status.StartTime = &metav1.Time{Time: w.now} })
		return true
	}
	if ending(job) {
		return w.endJob(job, pods)
	}
	if at, ok := deadlineOf(job); ok && !w.now.Before(at) {
		w.log("the deadline of Job %s has passed", job.Name)
		if w.eager {
			w.deletePods(pods)
			w.condition(job, batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded)
			return true
		}
		w.condition(job, batchv1.JobFailureTarget, batchv1.JobReasonDeadlineExceeded)
		return true
	}
	return w.followPods(job, pods)
}

// followPods ends a Job with its pods, or creates one.
func (w *world) followPods(job *batchv1.Job, pods []*corev1.Pod) bool {
	running, failed := false, false
	for _, pod := range pods {
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
			w.log("Job %s succeeded", job.Name)
			w.condition(job, batchv1.JobComplete, "")
			return true
		case corev1.PodFailed:
			failed = failed || !ignored(pod)
		default:
			running = true
		}
	}
	switch {
	case failed:
		w.log("Job %s failed", job.Name)
		w.condition(job, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
		return true
	case running, packagejob.Suspended(job):
		return false
	}
	w.createPod(job)
	return true
}

func ending(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailureTarget {
			return true
		}
	}
	return false
}

// endJob fails a Job once its pods have ended.
func (w *world) endJob(job *batchv1.Job, pods []*corev1.Pod) bool {
	for _, pod := range pods {
		if podEnded(pod) {
			continue
		}
		if pod.DeletionTimestamp != nil {
			return false
		}
		w.api.changePod(pod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: w.now} })
		return true
	}
	w.condition(job, batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded)
	return true
}

func (w *world) condition(job *batchv1.Job, kind batchv1.JobConditionType, reason string) {
	w.api.changeJob(job.Name, func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(w.now),
		})
	})
}

// ignored tells whether the failure policy passes the pod over, which is then
// replaced.
func ignored(pod *corev1.Pod) bool {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.State.Terminated != nil && c.State.Terminated.ExitCode == exitTerminated {
			return true
		}
	}
	return false
}

func (w *world) createPod(job *batchv1.Job) {
	w.api.uids++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", job.Name, w.api.uids), UID: w.api.uid("pod"), CreationTimestamp: metav1.NewTime(w.now),
			Labels: map[string]string{batchv1.JobNameLabel: job.Name}, Annotations: job.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{Name: job.Name, UID: job.UID, Controller: ptr.To(true)}},
		},
		Spec:   *job.Spec.Template.Spec.DeepCopy(),
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for k, v := range job.Labels {
		pod.Labels[k] = v
	}
	w.log("pod %s is created", pod.Name)
	w.api.put(kindPod, pod)
	w.checks.podCreated(pod)
}

// deleteJob deletes a Job in the foreground, where it waits for its pods, or in
// the background.
func (w *world) deleteJob(job *batchv1.Job, foreground bool) {
	pods := w.podsOfJob(job)
	if !foreground || len(pods) == 0 {
		w.api.remove(kindJob, job.Name)
	} else {
		w.api.changeJob(job.Name, func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: w.now} })
	}
}

// collectGarbage deletes pods whose Job or node is gone.
func (w *world) collectGarbage() bool {
	return anyOf(w, w.api.pods(), func(pod *corev1.Pod) bool {
		owner := w.api.job(packagejob.JobOf(pod))
		switch {
		case w.api.node(pod.Spec.NodeName) == nil:
			w.log("pod %s of a node that is gone is removed", pod.Name)
			w.api.remove(kindPod, pod.Name)
		case owner != nil && controlledBy(pod, owner):
			return false
		case podEnded(pod):
			w.api.remove(kindPod, pod.Name)
		case pod.DeletionTimestamp == nil:
			w.log("pod %s, whose Job is gone, is deleted", pod.Name)
			w.api.changePod(pod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: w.now} })
		default:
			return false
		}
		return true
	})
}
