package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/job/plan"
)

// mark gives a finished Job its recorded mark and the TTL of its outcome, in
// one patch, once. A Job that is gone needs neither.
func (r *Reconciler) mark(ctx context.Context, specs map[string]*v1alpha1.NodeWright, m *plan.Mark) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// The list that the plan came from may be older than our own last write; this
	// read is not.
	var job batchv1.Job
	err := r.client.Get(ctx, client.ObjectKeyFromObject(m.Job), &job)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get job %s: %w", m.Job.Name, err)
	case job.UID != m.Job.UID || packagejob.Recorded(&job):
		return nil
	}
	ttl := r.ttl(specs[m.Identity.NodeWright], m.Succeeded)
	patch, err := markPatch(job.UID, r.opts.Clock.Now(), ttl)
	if err != nil {
		return fmt.Errorf("mark job %s: %w", job.Name, err)
	}
	target := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name}}
	err = r.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(nodestate.OwnerJob))
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err) && r.replaced(ctx, m.Job):
		return nil
	case err != nil:
		return fmt.Errorf("mark job %s: %w", job.Name, err)
	}
	log := logf.FromContext(ctx).WithValues("job", klog.KObj(&job), "succeeded", m.Succeeded, "ttl", ttl)
	if m.Err != nil {
		log.Info("Cannot tell what a finished Job ran; its TTL runs", "reason", m.Err.Error())
		r.tellUnreadable(&job, m.Err)
		return nil
	}
	log.V(2).Info("The record has left a finished Job behind; its TTL runs")
	if m.Succeeded {
		countSuccess(&m.Identity)
	}
	return nil
}

// replaced tells whether the Job is gone or another one has its name.
func (r *Reconciler) replaced(ctx context.Context, job *batchv1.Job) bool {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	err := r.opts.Live.Get(ctx, client.ObjectKeyFromObject(job), now)
	return apierrors.IsNotFound(err) || err == nil && now.UID != job.UID
}

func (r *Reconciler) ttl(nw *v1alpha1.NodeWright, success bool) time.Duration {
	succeeded, failed := r.opts.TTLSucceeded, r.opts.TTLFailed
	if nw != nil {
		succeeded, failed = nw.Spec.JobTTLOr(succeeded, failed)
	}
	if success {
		return succeeded
	}
	return failed
}

// markPatch carries the UID, so that it never hits another Job of the name, and
// no resourceVersion, so that nobody else's write refuses it.
func markPatch(uid types.UID, now time.Time, ttl time.Duration) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid":         uid,
			"annotations": map[string]string{packagejob.AnnotationRecorded: nodestate.FormatTime(now)},
		},
		"spec": map[string]any{
			"ttlSecondsAfterFinished": min(v1alpha1.WholeSeconds(ttl), math.MaxInt32),
		},
	})
}

// deleteOrphans deletes Jobs whose node is gone, or is another one of the same
// name, as the API server says.
func (r *Reconciler) deleteOrphans(ctx context.Context, name string, jobs []*batchv1.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	uid, err := r.liveUID(ctx, name)
	if err != nil {
		return err
	}
	var failed []error
	for _, job := range jobs {
		id, err := packagejob.Parse(job)
		switch {
		case job.DeletionTimestamp != nil:
			continue
		case uid != "" && (err != nil || id.NodeUID == uid):
			// The cache is behind: the node is there, and the Job is its.
			continue
		}
		if err := r.deleteOrphan(ctx, name, job); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (r *Reconciler) deleteOrphan(ctx context.Context, node string, job *batchv1.Job) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	target := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name}}
	// In the foreground: the Job stays visible until its pods are gone.
	err := r.client.Delete(ctx, target, client.Preconditions{UID: &job.UID},
		client.PropagationPolicy(metav1.DeletePropagationForeground))
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		// Gone, or another Job has the name now.
		return nil
	case err != nil:
		return fmt.Errorf("delete job %s: %w", job.Name, err)
	}
	logf.FromContext(ctx).Info("Deleted a Job whose node is gone", "job", klog.KObj(job), "node", node)
	r.tellOrphan(node, job)
	return nil
}

// liveUID is the UID of the node as the API server has it, empty if there is
// none.
func (r *Reconciler) liveUID(ctx context.Context, name string) (types.UID, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := r.opts.Live.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get node %s: %w", name, err)
	}
	return node.UID, nil
}
