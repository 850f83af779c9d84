package plan

import (
	"cmp"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// Reasons of a report that are not the kubelet's or the Job's own.
const (
	// ReasonEvidenceLost: the Job failed and no pod of it is left. It counts as a
	// failure, so that no loop is endless.
	ReasonEvidenceLost = "EvidenceLost"
	// ReasonDeadlineExceeded: the attempt took longer than its stage timeout.
	ReasonDeadlineExceeded = batchv1.JobReasonDeadlineExceeded
	// ReasonNodeUnreachable: the deadline passed while nobody could see the node.
	ReasonNodeUnreachable = "NodeUnreachable"
	// ReasonPodDeleted: somebody deleted the pod of the attempt.
	ReasonPodDeleted = "PodDeleted"
	// ReasonSuspended: the Job was suspended, which ends its pod.
	ReasonSuspended = "Suspended"
	// ReasonTerminated: the agent was ended by SIGTERM and says so.
	ReasonTerminated = "Terminated"
	// ReasonPodRejected: the kubelet refused the pod and gave no reason.
	ReasonPodRejected = "PodRejected"
	// ReasonError: a container failed and gave no reason.
	ReasonError = "Error"

	// reasonOOMKilled is the kubelet's.
	reasonOOMKilled = "OOMKilled"
)

// ExitTerminated is the exit code of an agent that was ended by SIGTERM.
const ExitTerminated = 75

// Facts is what can be known about a failed attempt.
type Facts struct {
	Attempt Attempt
	// Pods of the Job that are left.
	Pods []corev1.Pod
	// Sighting is what was seen of the attempt before it ended.
	Sighting Sighting
	// Unreachable says that the node's Ready condition is Unknown.
	Unreachable bool
	// Now stands in for the time of the end where the Job does not tell it.
	Now metav1.Time
}

// Sighting is what a running attempt showed that its end hides: the pods that a
// deletion, a suspension or a deadline ended are gone when the Job has failed.
type Sighting struct {
	// PodDeleted says that a pod was being deleted, and not by the Job's end.
	PodDeleted bool
	// Unreachable says that the node was unreachable when the deadline had passed.
	Unreachable bool
	// LogTail of the container that ran when the Job began to end.
	LogTail string
}

// LogSource names the log that belongs to a report.
type LogSource struct {
	Pod       string
	Container string
}

// Class sorts reasons into few, whatever kubelets and runtimes say.
type Class string

// The classes of reasons.
const (
	ClassExit        Class = "exit"
	ClassOOM         Class = "oom"
	ClassDeadline    Class = "deadline"
	ClassLost        Class = "evidence-lost"
	ClassUnreachable Class = "unreachable"
	ClassEnded       Class = "ended-from-outside"
	ClassRejected    Class = "rejected"
	ClassOther       Class = "other"
)

// Finding is what became known about a failed attempt.
type Finding struct {
	// Report without log tail.
	Report nodestate.JobReport
	Class  Class
	// Log to read, nil for none.
	Log *LogSource
}

// Evidence makes the report of a failed attempt.
func Evidence(f *Facts) Finding {
	job, id := f.Attempt.Job, f.Attempt.Identity
	outcome, _ := packagejob.Outcome(job)
	ended := outcome.LastTransitionTime
	if ended.IsZero() {
		ended = f.Now
	}
	if ended.Before(&job.CreationTimestamp) {
		// Two clocks: the end must not look like that of an earlier Job of the name.
		ended = job.CreationTimestamp
	}
	report := nodestate.JobReport{
		Attempt: id.Attempt, FinishedAt: nodestate.FormatTime(ended.Time), Job: job.Name, Name: id.Package,
		NodeWright: id.NodeWright, Run: id.Run, Stage: id.Stage, Version: id.Version,
	}
	if job.Status.StartTime != nil {
		report.StartedAt = nodestate.FormatTime(job.Status.StartTime.Time)
	}
	pod := deciding(job, f.Pods)
	cause := causeOf(f, outcome, pod)
	report.Reason, report.Message, report.ExitCode = cause.reason, cause.message, cause.exitCode
	report.Harmless = cause.class.harmless()
	finding := Finding{Report: report, Class: cause.class}
	if pod != nil {
		if c := failedContainer(pod); c != nil {
			finding.Log = &LogSource{Pod: pod.Name, Container: c.Name}
		}
	}
	return finding
}

// harmless tells whether an attempt of the class was not failed by the
// package, and uses up no retry.
func (c Class) harmless() bool {
	return c == ClassUnreachable || c == ClassEnded || c == ClassRejected
}

// cause is why an attempt failed.
type cause struct {
	class    Class
	reason   string
	message  string
	exitCode *int32
}

func causeOf(f *Facts, outcome batchv1.JobCondition, pod *corev1.Pod) cause {
	job := f.Attempt.Job
	suspended := packagejob.Suspended(job)
	switch {
	case outcome.Reason == ReasonDeadlineExceeded && (f.Unreachable || f.Sighting.Unreachable):
		return cause{ClassUnreachable, ReasonNodeUnreachable, "the deadline passed while the node was unreachable", nil}
	case outcome.Reason == ReasonDeadlineExceeded:
		return cause{ClassDeadline, ReasonDeadlineExceeded, deadlineMessage(job), nil}
	case pod != nil:
		return podCause(pod, suspended)
	case suspended:
		return cause{ClassEnded, ReasonSuspended, messageSuspended, nil}
	case f.Sighting.PodDeleted:
		return cause{ClassEnded, ReasonPodDeleted, messagePodDeleted, nil}
	default:
		return cause{ClassLost, ReasonEvidenceLost, fmt.Sprintf(
			"the Job failed (%s) and no pod of it is left to tell why", cmp.Or(outcome.Reason, "no reason given")), nil}
	}
}

const (
	messageSuspended  = "the Job was suspended, which ended its pod"
	messagePodDeleted = "the pod was deleted before it ended"
)

func deadlineMessage(job *batchv1.Job) string {
	if s := job.Spec.ActiveDeadlineSeconds; s != nil {
		return fmt.Sprintf("the stage took longer than its timeout of %d seconds", *s)
	}
	return "the stage took longer than its timeout"
}

// podCause tells what the package did from what was done to its pod.
func podCause(pod *corev1.Pod, suspended bool) cause {
	failed := failedContainer(pod)
	code := exitCode(failed)
	if c := disruption(pod); c != nil {
		return cause{ClassEnded, cmp.Or(c.Reason, pod.Status.Reason, string(c.Type)), cmp.Or(c.Message, pod.Status.Message), code}
	}
	switch {
	case suspended:
		return cause{ClassEnded, ReasonSuspended, messageSuspended, code}
	case pod.DeletionTimestamp != nil:
		return cause{ClassEnded, ReasonPodDeleted, messagePodDeleted, code}
	case failed == nil && !anyRan(pod):
		return cause{
			ClassRejected, cmp.Or(pod.Status.Reason, ReasonPodRejected),
			"the kubelet refused the pod: " + cmp.Or(pod.Status.Message, pod.Status.Reason, "no reason given"), nil,
		}
	case failed == nil:
		return cause{ClassOther, cmp.Or(pod.Status.Reason, ReasonError), cmp.Or(pod.Status.Message, "the pod failed"), nil}
	case *code == ExitTerminated:
		return cause{ClassEnded, ReasonTerminated, "the agent was ended by SIGTERM", code}
	default:
		return exitCause(failed)
	}
}

// exitCause is of a container that failed by itself.
func exitCause(failed *corev1.ContainerStatus) cause {
	end := failed.State.Terminated
	message := fmt.Sprintf("container %s ended with exit code %d", failed.Name, end.ExitCode)
	if end.Message != "" {
		message += ": " + end.Message
	}
	c := cause{ClassExit, cmp.Or(end.Reason, ReasonError), message, &end.ExitCode}
	if end.Reason == reasonOOMKilled {
		c.class = ClassOOM
	}
	return c
}

// deciding is the pod whose failure ended the Job: the one that failed last.
// Pods before it were replaced, which is how a failure that does not count is
// passed over.
func deciding(job *batchv1.Job, pods []corev1.Pod) *corev1.Pod {
	var failed []*corev1.Pod
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodFailed && metav1.IsControlledBy(&pods[i], job) {
			failed = append(failed, &pods[i])
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return slices.MaxFunc(failed, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

func disruption(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// containers lists the statuses in the order in which containers run.
func containers(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// failedContainer is the first container that ended badly.
func failedContainer(pod *corev1.Pod) *corev1.ContainerStatus {
	all := containers(pod)
	for i := range all {
		if end := all[i].State.Terminated; end != nil && end.ExitCode != 0 {
			return &all[i]
		}
	}
	return nil
}

func exitCode(c *corev1.ContainerStatus) *int32 {
	if c == nil {
		return nil
	}
	return &c.State.Terminated.ExitCode
}

// anyRan tells whether any container of the pod ever ran.
func anyRan(pod *corev1.Pod) bool {
	return slices.ContainsFunc(containers(pod), func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	})
}
