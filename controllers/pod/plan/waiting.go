package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Waiting is why a pod does not start.
type Waiting struct {
	// Reason in CamelCase and message, both the kubelet's.
	Reason  string
	Message string
	// Since is when the kubelet says it began, zero if it does not say.
	Since time.Time
	// Unprepared says that the pod lacks volumes, network or sandbox. The pod does
	// not tell which; events do.
	Unprepared bool
}

// reasonUnprepared is said of an unprepared pod of which no event tells more.
const reasonUnprepared = "PodNotReadyToStart"

// StartWait tells why the pod does not start. ok is false for a pod that has
// ended, is being deleted, runs, or is on its way.
//
// The signals: a container waits with a reason other than that it is being
// created (the kubelet keeps the reason of a failed pull through its back-off
// and the next try); or the pod is Pending and its condition
// PodReadyToStartContainers is False, which it is as long as volumes are not
// mounted or the sandbox does not come up. Pulling a large image is neither.
func StartWait(pod *corev1.Pod) (w Waiting, ok bool) {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return Waiting{}, false
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch {
		case c.State.Running != nil:
			return Waiting{}, false
		case c.State.Waiting != nil && !onItsWay(c.State.Waiting.Reason):
			return Waiting{Reason: c.State.Waiting.Reason, Message: c.State.Waiting.Message}, true
		}
	}
	if pod.Status.Phase != corev1.PodPending {
		return Waiting{}, false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse {
			return Waiting{
				Reason: reasonUnprepared, Since: c.LastTransitionTime.Time, Unprepared: true,
				Message: "volumes, network or sandbox of the pod are not ready; the events of the pod say more",
			}, true
		}
	}
	return Waiting{}, false
}

// onItsWay are the reasons of a container that waits for its turn.
func onItsWay(reason string) bool {
	return reason == "" || reason == "ContainerCreating" || reason == "PodInitializing"
}

// pullFailed are the two reasons between which a pod alternates whose image
// cannot be pulled.
func pullFailed(reason string) bool { return reason == "ErrImagePull" || reason == reasonBackOff }

const reasonBackOff = "ImagePullBackOff"
