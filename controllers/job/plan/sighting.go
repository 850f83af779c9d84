package plan

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/packagejob"
)

// See adds what an unfinished Job and its pods show now to what was seen of it
// before. log is set if the Job is coming to its end in a way that takes its
// pods away, so that their log has to be read now.
func See(before Sighting, job *batchv1.Job, pods []*corev1.Pod, unreachable bool) (after Sighting, log *LogSource) {
	after = before
	if _, finished := packagejob.Finished(job); finished {
		return after, nil
	}
	target := failureTarget(job)
	deadline := target != nil && target.Reason == batchv1.JobReasonDeadlineExceeded
	after.Unreachable = after.Unreachable || deadline && unreachable
	for _, pod := range pods {
		if !metav1.IsControlledBy(pod, job) {
			continue
		}
		if pod.DeletionTimestamp != nil && target == nil && job.DeletionTimestamp == nil {
			after.PodDeleted = true
		}
		if deadline && after.LogTail == "" {
			log = logOf(log, pod)
		}
	}
	return after, log
}

// logOf prefers the container that runs, or ended badly.
func logOf(log *LogSource, pod *corev1.Pod) *LogSource {
	for _, c := range containers(pod) {
		if c.State.Running != nil || c.State.Terminated != nil && c.State.Terminated.ExitCode != 0 {
			return &LogSource{Pod: pod.Name, Container: c.Name}
		}
	}
	return log
}

// failureTarget is the condition that says that the Job is going to fail, while
// its pods are still ending.
func failureTarget(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == batchv1.JobFailureTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
