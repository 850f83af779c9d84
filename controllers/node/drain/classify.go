package drain

import (
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// Class says what a pod means for the drain of its node.
type Class string

// The classes.
const (
	// Exempt pods stay, and nobody waits for them.
	Exempt Class = "Exempt"
	// Evict is for pods that have to be gone before the node is interrupted. Those
	// that are Terminating already need no eviction: an eviction of a pod with a
	// budget could be repeated for ever.
	Evict Class = "Evict"
	// Holds is for pods that have to be gone and must not be evicted, by the
	// settings of the drain. Somebody has to remove the pod or change the settings.
	Holds Class = "Holds"
)

// defaultGrace is the terminationGracePeriodSeconds of pods that do not say
// one.
const defaultGrace = corev1.DefaultTerminationGracePeriodSeconds

// Pod is a pod on a node, as a drain sees it.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// Class with the Reason for it, a sentence; empty for Evict.
	Class  Class
	Reason string
	// Terminating tells whether its end has begun.
	Terminating bool
	// NonInterrupt tells whether podNonInterruptLabels select the pod: nothing is
	// evicted before it has left by itself, whatever its class.
	NonInterrupt bool
	// GraceSeconds is the longest time that the pod takes to end, from its eviction
	// or, if it is terminating, from the beginning of its end.
	GraceSeconds int64

	// labels tell which budgets select the pod.
	labels map[string]string
}

// rules are Options in the form that classification needs.
type rules struct {
	namespace    string
	settings     *v1alpha1.DrainSettings
	nonInterrupt labels.Selector
}

// classify is pure. It must be given pods as the API server has them.
func (r *rules) classify(pod *corev1.Pod) Pod {
	p := Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		Terminating:  pod.DeletionTimestamp != nil,
		GraceSeconds: r.graceSeconds(pod),
		labels:       pod.Labels,
	}
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		p.Class, p.Reason = Exempt, "it has ended"
		return p
	// By where it is and what it carries, never by tolerations, which admission of
	// a cluster may rewrite.
	case pod.Namespace == r.namespace && packagejob.Owned(pod.Labels):
		p.Class, p.Reason = Exempt, "it runs a package"
		return p
	}
	p.NonInterrupt = r.nonInterrupt.Matches(labels.Set(pod.Labels))
	v := filter(pod, r.settings)
	p.Class, p.Reason = v.class, v.reason
	switch {
	case p.Class == Exempt:
	// Pods of DaemonSets all tolerate the taint: for them ignoreDaemonSets decides.
	case !v.daemonSet && toleratesUnschedulable(pod):
		p.Class, p.Reason = Exempt, "it tolerates the taint of unschedulable nodes, so it would come straight back"
	case p.Terminating:
		p.Class, p.Reason = Evict, ""
	case p.Class == Holds:
		p.Reason = fmt.Sprintf("pod %s holds up the drain: %s", &p, p.Reason)
	}
	return p
}

// String is namespace and name, as kubectl has it.
func (p *Pod) String() string { return p.Namespace + "/" + p.Name }

func (r *rules) graceSeconds(pod *corev1.Pod) int64 {
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		return *pod.DeletionGracePeriodSeconds
	case r.settings.GracePeriodSeconds != nil:
		return *evictionGrace(r.settings)
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	default:
		return defaultGrace
	}
}

func toleratesUnschedulable(pod *corev1.Pod) bool {
	taint := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	for i := range pod.Spec.Tolerations {
		if pod.Spec.Tolerations[i].ToleratesTaint(logr.Discard(), &taint, false) {
			return true
		}
	}
	return false
}
