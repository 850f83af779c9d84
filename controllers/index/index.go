// Package index registers the cache indices that controllers share, each once.
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
