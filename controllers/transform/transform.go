package transform

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// The functions are informer transforms.
var (
	_ cache.TransformFunc = Node
	_ cache.TransformFunc = Job
	_ cache.TransformFunc = Pod
)

// ByObject is what the operator caches of nodes, Jobs and pods: Jobs and pods of
// packages only, in the operator's namespace.
func ByObject(namespace string) map[client.Object]crcache.ByObject {
	ours := func(f cache.TransformFunc) crcache.ByObject {
		return crcache.ByObject{
			Namespaces: map[string]crcache.Config{namespace: {}},
			Label:      packagejob.Selector(),
			Transform:  f,
		}
	}
	return map[client.Object]crcache.ByObject{
		&corev1.Node{}: {Transform: Node},
		&batchv1.Job{}: ours(Job),
		&corev1.Pod{}:  ours(Pod),
	}
}

// Node keeps metadata, spec, conditions and the node's own description. Of
// managedFields it keeps the entries that hold something the operator writes:
// without them a writer could not tell whether its keys are its own.
func Node(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	node.ManagedFields = slices.DeleteFunc(node.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return !holdsOurs(&e)
	})
	node.ManagedFields = clip(node.ManagedFields)
	node.Status = corev1.NodeStatus{
		Conditions: node.Status.Conditions,
		NodeInfo:   node.Status.NodeInfo,
	}
	return node, nil
}

// holdsOurs tells whether an entry is of a field manager of the operator, or
// holds a key under our prefix or the cordon, whoever it is. The text is
// searched, not decoded: keys have no character that JSON escapes.
func holdsOurs(e *metav1.ManagedFieldsEntry) bool {
	if nodestate.Owner(e.Manager).Controller() != "" {
		return true
	}
	if e.FieldsV1 == nil {
		return false
	}
	fields := e.FieldsV1.GetRawString()
	return strings.Contains(fields, `"f:`+nodestate.Prefix) || strings.Contains(fields, `"f:unschedulable"`)
}

// Job keeps metadata, status, what a user may change in place and, of the pod
// template, the name of the node. The identity is on the Job itself.
func Job(obj any) (any, error) {
	job, ok := obj.(*batchv1.Job)
	if !ok {
		return obj, nil
	}
	job.ManagedFields = nil
	node := job.Spec.Template.Spec.NodeName
	job.Spec = batchv1.JobSpec{
		ActiveDeadlineSeconds:   job.Spec.ActiveDeadlineSeconds,
		Suspend:                 job.Spec.Suspend,
		TTLSecondsAfterFinished: job.Spec.TTLSecondsAfterFinished,
	}
	job.Spec.Template.Spec.NodeName = node
	return job, nil
}

// Pod keeps metadata, of the annotations only our own short ones, the name of
// the node, and how the pod and its containers stand.
func Pod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod.ManagedFields = nil
	annotations := make(map[string]string, 1)
	for _, key := range []string{
		packagejob.AnnotationIdentity, packagejob.AnnotationStage, packagejob.AnnotationAttempt,
	} {
		if value, there := pod.Annotations[key]; there {
			annotations[key] = value
		}
	}
	pod.Annotations = annotations
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	pod.Status = corev1.PodStatus{
		Phase:                 pod.Status.Phase,
		Reason:                pod.Status.Reason,
		Message:               pod.Status.Message,
		Conditions:            pod.Status.Conditions,
		StartTime:             pod.Status.StartTime,
		InitContainerStatuses: states(pod.Status.InitContainerStatuses),
		ContainerStatuses:     states(pod.Status.ContainerStatuses),
	}
	return pod, nil
}

func states(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for i := range all {
		out = append(out, corev1.ContainerStatus{
			Name: all[i].Name, State: all[i].State, LastTerminationState: all[i].LastTerminationState,
		})
	}
	return out
}

// clip gives the room of dropped entries back.
func clip[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return slices.Clone(s)
}
