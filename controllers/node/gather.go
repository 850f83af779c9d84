package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodestate/managers"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/index"
	"github.com/nodewright/nodewright/controllers/live"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// readTimeout bounds a read that waits for the cache to show our own writes.
const readTimeout = 5 * time.Second

// gathered is the input of the planner, with the objects it was made from.
type gathered struct {
	plan.Input
	view *apply.View
	// specs are the NodeWrights of the input, by name.
	specs map[string]*v1alpha1.NodeWright
	// seen are the pods that stand behind Pods.
	seen seenPods
	// again says that something came up that the record does not show: the node is
	// to be planned again soon.
	again bool
}

// gather reads all that the plan of a node follows from. found is false when
// the node is gone.
func (r *Reconciler) gather(ctx context.Context, name string) (in *gathered, found bool, err error) {
	all, err := r.nodeWrights(ctx)
	if err != nil {
		return nil, false, err
	}
	known := make([]string, 0, len(all))
	for i := range all {
		known = append(known, all[i].Name)
	}
	view, found, err := r.opts.Writer.Read(ctx, name, known)
	if err != nil || !found {
		return nil, false, err
	}
	in = &gathered{view: view, specs: map[string]*v1alpha1.NodeWright{}}
	in.Now = r.opts.Clock.Now()
	in.NextSeq = view.NextSeq
	in.Record = view.Record
	in.Node = nodeFacts(view.Node)
	in.Node.HeldByOthers = len(in.Record.Cordons) > 0 && heldByOthers(view.Node)
	in.Config = plan.Config{
		PodStartGrace: r.opts.PodStartGrace, BackoffBase: r.opts.RetryBase, BackoffMax: r.opts.RetryMax,
		Taints: r.opts.RuntimeRequired, NewNode: newNode,
		ReapplyOnReboot: r.opts.ReapplyOnReboot,
	}
	in.Refused = r.jobRefusals.keep(name, in.Record.Packages)
	in.Taints = standing(view.Node.Spec.Taints, r.opts.RuntimeRequired)
	if err := r.gatherJobs(ctx, in); err != nil {
		return nil, false, err
	}
	concerned := namesOn(&in.Record, in.Jobs)
	for i := range all {
		nw := &all[i]
		selected := nw.Selects(view.Node.Labels)
		if !selected && !concerned[nw.Name] && !asked(&in.Record, nw.Name) {
			continue
		}
		spec, err := r.specs.of(nw, &r.opts)
		if err != nil {
			return nil, false, err
		}
		spec.Selected = selected
		in.specs[nw.Name] = nw
		in.NodeWrights = append(in.NodeWrights, spec)
	}
	r.specs.keep(all)
	if err := r.gatherConfigInterrupts(ctx, in); err != nil {
		return nil, false, err
	}
	return in, true, r.gatherGone(ctx, in, concerned)
}

func (r *Reconciler) nodeWrights(ctx context.Context) ([]v1alpha1.NodeWright, error) {
	var list v1alpha1.NodeWrightList
	if err := r.client.List(ctx, &list, client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodewrights: %w", err)
	}
	return list.Items, nil
}

// gatherGone asks the API server about NodeWrights that left keys here and are
// not in the cache: only its 404 says that they are gone, since caches of
// different kinds are not ordered.
func (r *Reconciler) gatherGone(ctx context.Context, in *gathered, concerned map[string]bool) error {
	for name := range concerned {
		if in.specs[name] != nil {
			continue
		}
		nw, err := live.NodeWright(ctx, r.opts.Live, name)
		if err != nil {
			return err
		}
		if nw == nil {
			in.Gone = append(in.Gone, name)
		}
	}
	slices.Sort(in.Gone)
	return nil
}

// namesOn are the names of the NodeWrights that have keys of ours, a slot or
// Jobs on the node. A slot has to be given back also by a node that is not
// selected any more before it took it up.
func namesOn(rec *nodestate.Record, jobs []plan.Job) map[string]bool {
	names := map[string]bool{}
	for ref := range rec.Packages {
		names[ref.NodeWright] = true
	}
	for name := range rec.Status {
		names[name] = true
	}
	for name := range rec.Slots {
		names[name] = true
	}
	for name := range rec.Cordons {
		names[name] = true
	}
	for name := range rec.DrainStarts {
		names[name] = true
	}
	for name := range rec.Batches {
		names[name] = true
	}
	for name := range rec.Handled {
		names[name] = true
	}
	for i := range jobs {
		if !jobs[i].Unreadable && jobs[i].State == plan.JobUnfinished {
			names[jobs[i].Identity.NodeWright] = true
		}
	}
	return names
}

// asked tells whether a user asks for something of the NodeWright.
func asked(rec *nodestate.Record, nodeWright string) bool {
	return slices.ContainsFunc(rec.Requests, func(r nodestate.RequestAt) bool { return r.NodeWright == nodeWright }) ||
		slices.ContainsFunc(rec.Malformed, func(m nodestate.Malformed) bool { return m.Kind.IsRequest() && m.NodeWright == nodeWright })
}

// maxBootID is how many bytes of a boot ID count. The kernel's have 36; what a
// kubelet reports beyond that must not use up the room of the record.
const maxBootID = 64

func nodeFacts(node *corev1.Node) plan.Node {
	facts := plan.Node{
		Name: node.Name, UID: string(node.UID), BootID: nodestate.CapString(node.Status.NodeInfo.BootID, maxBootID),
		Ignored: v1alpha1.NodeIgnored(node.Labels), Created: node.CreationTimestamp.Time,
		Unschedulable: node.Spec.Unschedulable,
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			facts.Unreachable = c.Status == corev1.ConditionUnknown
			facts.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return facts
}

// heldByOthers tells whether somebody else holds the cordon of a node. Managers
// whose fields cannot be read count for nothing: it is for a message only.
func heldByOthers(node *corev1.Node) bool {
	holders, _ := managers.Holders(node.ManagedFields, managers.Unschedulable())
	return node.Spec.Unschedulable && slices.ContainsFunc(holders, func(m managers.Manager) bool {
		return m != managers.Applier(string(nodestate.OwnerNode))
	})
}

// gatherJobs lists the Jobs of the node, reads those that the record names so
// that they are not older than our own writes, and finds pods without a Job.
func (r *Reconciler) gatherJobs(ctx context.Context, in *gathered) error {
	list, err := index.Jobs(ctx, r.client, r.opts.Jobs.Namespace, in.Node.Name)
	if err != nil {
		return err
	}
	jobs := make(map[string]*batchv1.Job, len(list))
	for _, job := range list {
		jobs[job.Name] = job
	}
	for ref := range in.Record.Packages {
		e := in.Record.Packages[ref]
		name, ok := plan.NamedJob(&in.Node, &e)
		if !ok || e.State == nodestate.StateComplete || e.State == nodestate.StateUnknown {
			continue
		}
		job, err := r.job(ctx, name)
		if err != nil {
			return err
		}
		delete(jobs, name)
		if job != nil {
			jobs[name] = job
		}
	}
	for _, job := range jobs {
		in.Jobs = append(in.Jobs, jobFacts(job))
	}
	slices.SortFunc(in.Jobs, func(a, b plan.Job) int { return cmp.Compare(a.Name, b.Name) })
	return r.gatherExecutors(ctx, in, jobs)
}

// job reads a Job, nil if there is none.
func (r *Reconciler) job(ctx context.Context, name string) (*batchv1.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var job batchv1.Job
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.opts.Jobs.Namespace, Name: name}, &job)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get job %s: %w", name, err)
	}
	return &job, nil
}

func jobFacts(job *batchv1.Job) plan.Job {
	facts := plan.Job{
		Name: job.Name, UID: string(job.UID), Deleting: job.DeletionTimestamp != nil,
		Suspended: packagejob.Suspended(job), DeadlineSeconds: job.Spec.ActiveDeadlineSeconds,
	}
	facts.Ending = slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailureTarget && c.Status == corev1.ConditionTrue
	})
	facts.Idle = facts.Suspended && packagejob.Asleep(job)
	_, facts.Held = job.Annotations[packagejob.AnnotationHeld]
	id, err := packagejob.Parse(job)
	if err != nil || !packagejob.Owned(job.Labels) {
		facts.Unreadable = true
	}
	facts.Identity = id
	switch condition, finished := packagejob.Finished(job); {
	case !finished:
	case condition == batchv1.JobComplete:
		facts.State = plan.JobSucceeded
	default:
		facts.State = plan.JobFailed
	}
	return facts
}

// gatherExecutors finds packages with a pod on the node that has not ended and
// that no Job stands for: it still works in the package's directory.
func (r *Reconciler) gatherExecutors(ctx context.Context, in *gathered, jobs map[string]*batchv1.Job) error {
	pods, err := index.Pods(ctx, r.client, r.opts.Jobs.Namespace, in.Node.Name)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if podEnded(pod) || covered(jobs[packagejob.JobOf(pod)]) {
			continue
		}
		if id, err := packagejob.Parse(pod); err == nil {
			in.Executors = append(in.Executors, id.Ref())
		}
	}
	slices.SortFunc(in.Executors, nodestate.PackageRef.Compare)
	in.Executors = slices.Compact(in.Executors)
	return nil
}

// covered tells whether the Job says all about its pods: one that runs stands
// for them, and of one that succeeded they have ended, whatever an older cache
// says. A failed Job may have a pod that is still ending: before Kubernetes 1.31
// it fails first. One that is suspended says that it has none.
func covered(job *batchv1.Job) bool {
	if job == nil {
		return false
	}
	facts := jobFacts(job)
	return !facts.Unreadable && facts.State != plan.JobFailed && !facts.Idle
}

func podEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
