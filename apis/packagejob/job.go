package packagejob

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	// IndexNode is the name of the cache index of Jobs by the node that their pod
	// template names.
	IndexNode = "spec.template.spec.nodeName"
	// IndexPodNode is the name of the cache index of pods by their node.
	IndexPodNode = "spec.nodeName"
)

// NodeName is the name of the node that the Job runs on. It comes from the pod
// template, never from a label, whose value may be a hash.
func NodeName(job *batchv1.Job) string { return job.Spec.Template.Spec.NodeName }

// Outcome gives the condition that ended the Job, of type Complete or Failed.
// FailureTarget and SuccessCriteriaMet do not end a Job: its pods may still
// run.
func Outcome(job *batchv1.Job) (batchv1.JobCondition, bool) {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c, true
		}
	}
	return batchv1.JobCondition{}, false
}

// Finished tells whether the Job has ended, and as what: Complete or Failed.
func Finished(job *batchv1.Job) (batchv1.JobConditionType, bool) {
	c, ok := Outcome(job)
	return c.Type, ok
}

// Suspended tells whether the Job is to have no pods for now.
func Suspended(job *batchv1.Job) bool { return ptr.Deref(job.Spec.Suspend, false) }

// Asleep tells whether the Job is suspended and has no pods left, as the Job
// controller says. The number of pods alone may be from before there were any.
func Asleep(job *batchv1.Job) bool {
	said := slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
	return said && job.Status.Active == 0 && ptr.Deref(job.Status.Terminating, 0) == 0
}

// Recorded tells whether the Job carries the recorded mark.
func Recorded(job *batchv1.Job) bool { return job.Annotations[AnnotationRecorded] != "" }
