// Package index registers the cache indices that controllers share, each once,
// and lists by them.
//
// It must not know controllers.
package index

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodewright/nodewright/apis/packagejob"
)

// Setup registers packagejob.IndexNode and packagejob.IndexPodNode with the
// manager's cache. It is called once, before the manager starts; a second call
// is an error.
func Setup(ctx context.Context, mgr manager.Manager) error {
	return Register(ctx, mgr.GetFieldIndexer())
}

// Register is Setup for an indexer that is not a manager's.
func Register(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &batchv1.Job{}, packagejob.IndexNode, jobNode); err != nil {
		return fmt.Errorf("index jobs by %s: %w", packagejob.IndexNode, err)
	}
	if err := indexer.IndexField(ctx, &corev1.Pod{}, packagejob.IndexPodNode, podNode); err != nil {
		return fmt.Errorf("index pods by %s: %w", packagejob.IndexPodNode, err)
	}
	return nil
}

func jobNode(o client.Object) []string {
	job, ok := o.(*batchv1.Job)
	if !ok || !packagejob.Owned(job.Labels) {
		return nil
	}
	return named(packagejob.NodeName(job))
}

func podNode(o client.Object) []string {
	pod, ok := o.(*corev1.Pod)
	if !ok || !packagejob.Owned(pod.Labels) {
		return nil
	}
	return named(pod.Spec.NodeName)
}

func named(node string) []string {
	if node == "" {
		return nil
	}
	return []string{node}
}

// Jobs lists the package Jobs of the node in the namespace from the cache, without
// a wait for own writes. They must not be changed.
func Jobs(ctx context.Context, cached client.Reader, namespace, node string) ([]*batchv1.Job, error) {
	var list batchv1.JobList
	if err := cached.List(ctx, &list, onNode(namespace, packagejob.IndexNode, node)...); err != nil {
		return nil, fmt.Errorf("list jobs of node %s: %w", node, err)
	}
	jobs := make([]*batchv1.Job, 0, len(list.Items))
	for i := range list.Items {
		if packagejob.Owned(list.Items[i].Labels) {
			jobs = append(jobs, &list.Items[i])
		}
	}
	return jobs, nil
}

// Pods lists the package pods on the node in the namespace from the cache, without
// a wait for own writes. They must not be changed.
func Pods(ctx context.Context, cached client.Reader, namespace, node string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := cached.List(ctx, &list, onNode(namespace, packagejob.IndexPodNode, node)...); err != nil {
		return nil, fmt.Errorf("list package pods of node %s: %w", node, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		if packagejob.Owned(list.Items[i].Labels) {
			pods = append(pods, &list.Items[i])
		}
	}
	return pods, nil
}

func onNode(namespace, index, node string) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(namespace), client.MatchingFields{index: node},
		client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy,
	}
}
