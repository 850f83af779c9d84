package job

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/index"
	"github.com/nodewright/nodewright/controllers/job/plan"
)

// maxLogError bounds what a message says about a log that cannot be read, in
// bytes.
const maxLogError = 96

// look takes note of what unfinished Jobs show that their end will hide, and
// gives what was seen of all Jobs of the node so far, by UID.
func (r *Reconciler) look(ctx context.Context, node *corev1.Node, jobs []*batchv1.Job) (map[string]plan.Sighting, error) {
	before := r.sightings.of(node.Name)
	pods, err := r.pods(ctx, node.Name, jobs)
	if err != nil {
		return before, err
	}
	after := map[string]plan.Sighting{}
	for _, job := range jobs {
		seen, log := plan.See(before[string(job.UID)], job, pods, unreachable(node))
		if log != nil {
			// What cannot be read now is missing in the report.
			seen.LogTail, _ = r.tail(ctx, log)
		}
		if seen != (plan.Sighting{}) {
			after[string(job.UID)] = seen
		}
	}
	r.sightings.set(node.Name, after)
	return after, nil
}

// pods lists the package pods of the node from the cache, if a Job of them may
// still run. They must not be changed.
func (r *Reconciler) pods(ctx context.Context, node string, jobs []*batchv1.Job) ([]*corev1.Pod, error) {
	running := slices.ContainsFunc(jobs, func(job *batchv1.Job) bool {
		_, finished := packagejob.Finished(job)
		return !finished
	})
	if !running {
		return nil, nil
	}
	return index.Pods(ctx, r.client, r.opts.Namespace, node)
}

// evidence makes the report of a failed attempt from what is left of it. Pods
// are read from the API server: the cache may not have their end yet.
func (r *Reconciler) evidence(
	ctx context.Context, a *plan.Attempt, node *corev1.Node, seen plan.Sighting,
) (plan.Finding, error) {
	listCtx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var pods corev1.PodList
	err := r.opts.Live.List(listCtx, &pods, client.InNamespace(r.opts.Namespace),
		client.MatchingLabels{batchv1.JobNameLabel: a.Job.Name})
	if err != nil {
		return plan.Finding{}, fmt.Errorf("list pods of job %s: %w", a.Job.Name, err)
	}
	finding := plan.Evidence(&plan.Facts{
		Attempt: *a, Pods: pods.Items, Sighting: seen, Unreachable: unreachable(node),
		Now: metav1.NewTime(r.opts.Clock.Now()),
	})
	finding.Report.LogTail = seen.LogTail
	if finding.Log == nil {
		return finding, nil
	}
	tail, err := r.tail(ctx, finding.Log)
	switch {
	case err == nil:
		finding.Report.LogTail = tail
	case finding.Report.LogTail == "":
		finding.Report.Message += "; its log cannot be read: " + nodestate.CapString(withoutURL(err.Error()), maxLogError)
	}
	return finding, nil
}

// withoutURL leaves the address out that an HTTP client puts in front of what
// went wrong: it fills the room, and the pod is known.
func withoutURL(text string) string {
	if i := strings.LastIndex(text, `": `); i >= 0 {
		return text[i+3:]
	}
	return text
}

func (r *Reconciler) tail(ctx context.Context, log *plan.LogSource) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	tail, err := r.opts.Logs.Tail(ctx, r.opts.Namespace, log.Pod, log.Container)
	return nodestate.CapTail(tail, nodestate.MaxLogTail), err
}

// unreachable tells whether nobody knows what runs on the node.
func unreachable(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionUnknown
		}
	}
	return false
}
