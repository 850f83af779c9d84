package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// actKubelet brings one pod of a node that can be reached a step further.
func (w *world) actKubelet() bool {
	return anyOf(w, w.api.openPods(), func(pod *corev1.Pod) bool {
		node := w.api.node(pod.Spec.NodeName)
		if node == nil || !ready(node) {
			return false
		}
		switch intolerable := !tolerates(pod, node); {
		case pod.DeletionTimestamp != nil:
			return !w.now.Before(w.endOf(pod)) && w.terminate(pod)
		case intolerable && pod.Status.Phase == corev1.PodPending:
			return w.reject(pod)
		case intolerable:
			w.log("pod %s does not tolerate the taints of %s and is deleted", pod.Name, node.Name)
			w.api.changePod(pod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: w.now} })
		case pod.Status.Phase == corev1.PodPending:
			return w.startPod(pod)
		case w.slow && w.stormy && w.chance(0.9):
			return false
		case pod.Annotations[interruptType] == reboot:
			w.interruptNode(pod, node)
		case w.fails(pod):
			w.log("pod %s fails", pod.Name)
			w.endPod(pod, corev1.PodFailed, 1, "Error")
		default:
			w.log("pod %s succeeds", pod.Name)
			w.endPod(pod, corev1.PodSucceeded, 0, "Completed")
			w.checks.podSucceeded(pod)
		}
		return true
	})
}

// doomed is the package that fails wherever it runs, where Options say that one
// does.
var doomed = nodestate.PackageRef{NodeWright: "wa", Package: "pa"}

// fails decides whether the attempt fails.
func (w *world) fails(pod *corev1.Pod) bool {
	if w.opts.Doomed && !w.healed {
		if id, err := w.api.identity(pod); err == nil && id.Ref() == doomed {
			return true
		}
	}
	return w.chance(w.flaky)
}

// slowEnd is longer than the first waits before another attempt.
const slowEnd = 45 * time.Second

// endOf is when a pod that is deleted may end.
func (w *world) endOf(pod *corev1.Pod) time.Time {
	if w.eager {
		return pod.DeletionTimestamp.Add(slowEnd)
	}
	return pod.DeletionTimestamp.Time
}

// terminate ends a pod that is deleted: mostly the agent says so.
func (w *world) terminate(pod *corev1.Pod) bool {
	code := int32(exitTerminated)
	if w.chance(0.3) {
		code = 137
	}
	w.log("pod %s ends with exit code %d", pod.Name, code)
	w.endPod(pod, corev1.PodFailed, code, "Error")
	return true
}

func (w *world) endPod(pod *corev1.Pod, phase corev1.PodPhase, code int32, reason string) {
	w.api.changePod(pod, func(p *corev1.Pod) {
		p.Status.Phase = phase
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "package", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason},
		}}}
	})
}

func (w *world) startPod(pod *corev1.Pod) bool {
	waiting := ""
	for _, v := range pod.Spec.Volumes {
		if w.configMaps[v.Name] == nil {
			w.fail("pod %s is to start, and its ConfigMap %s was never made", pod.Name, v.Name)
		}
	}
	if pod.Spec.Containers[0].Image == brokenImage {
		waiting = "ErrImagePull"
	}
	was := ""
	if s := pod.Status.InitContainerStatuses; len(s) > 0 && s[0].State.Waiting != nil {
		was = s[0].State.Waiting.Reason
	}
	if waiting != "" && waiting == was {
		return false
	}
	w.api.changePod(pod, func(p *corev1.Pod) {
		state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		if waiting != "" {
			state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting, Message: "not found"}}
		} else {
			p.Status.Phase = corev1.PodRunning
		}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "package", State: state}}
	})
	if waiting != "" {
		w.log("pod %s cannot start: %s", pod.Name, waiting)
		return true
	}
	w.log("pod %s runs", pod.Name)
	w.checks.podStarted(pod)
	return true
}
