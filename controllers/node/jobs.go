package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/controllers/node/plan"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
)

// carryOut brings the Jobs in line with the plan, after the record was
// written. One Job that fails does not hold back the others.
func (r *Reconciler) carryOut(ctx context.Context, in *gathered, p *plan.Plan) error {
	var errs []error
	for i := range p.Delete {
		errs = append(errs, r.deleteJob(ctx, in, &p.Delete[i]))
	}
	for i := range p.Create {
		errs = append(errs, r.createJob(ctx, in, &p.Create[i]))
	}
	for i := range p.Patch {
		errs = append(errs, r.patchDeadline(ctx, &p.Patch[i]))
	}
	for i := range p.Hold {
		errs = append(errs, r.holdJob(ctx, in, &p.Hold[i]))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) createJob(ctx context.Context, in *gathered, c *plan.JobCreate) error {
	nw := in.specs[c.Identity.NodeWright]
	pkg, ok := nw.Spec.Packages[c.Identity.Package]
	if !ok {
		return fmt.Errorf("create job: package %s is not in nodewright %s", c.Identity.Package, nw.Name)
	}
	configHash, err := r.configOfAttempt(ctx, in, nw, &pkg, c)
	if err != nil {
		return err
	}
	req := &stagejob.Request{
		Identity: c.Identity, NodeWright: nw, Package: &pkg,
		Image: c.Image, ContainerSHA: c.ContainerSHA, SpecHash: c.SpecHash,
		DeadlineSeconds: c.DeadlineSeconds, Order: c.Order, BootID: c.BootID, Interrupt: c.Interrupt,
		Labels: in.view.Node.Labels, Annotations: in.view.Node.Annotations,
	}
	if configHash != "" {
		req.ConfigMapName = revision.ConfigMapName(nw.Name, nw.UID, c.Identity.Package, configHash)
	}
	job, dropped, err := stagejob.Build(&r.opts.Jobs, req)
	if err != nil {
		return err
	}
	if c.Unsure {
		if runs, err := r.runsUnseen(ctx, c); err != nil || runs {
			return err
		}
	}
	if c.Identity.Interrupts() {
		may, err := r.mayInterrupt(ctx, in, nw)
		if err != nil {
			return fmt.Errorf("look whether node %s may be interrupted: %w", in.Node.Name, err)
		}
		if !may {
			logf.FromContext(ctx).Info("the node is not cordoned and empty any more, so it is not interrupted", "job", job.Name)
			in.again = true
			return nil
		}
	}
	return r.sendJob(ctx, in, nw, job, dropped, c)
}

// sendJob creates the Job, from whose metadata the annotations dropped were left
// out, and tells what came of it.
func (r *Reconciler) sendJob(ctx context.Context, in *gathered, nw *v1alpha1.NodeWright, job *batchv1.Job, dropped []string, c *plan.JobCreate) error {
	err := r.client.Create(ctx, job)
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.jobExists(ctx, in, nw, job.Name, c)
	case jobRefused(err):
		r.noteJobRefusal(ctx, in, nw, c, err)
		return nil
	case err != nil:
		return fmt.Errorf("create job %s: %w", job.Name, err)
	}
	r.jobRefusals.forget(in.Node.Name, c.Identity.Ref())
	logf.FromContext(ctx).V(2).Info("created job", "job", job.Name, "package", c.Identity.Package,
		"stage", c.Identity.Stage, "run", c.Identity.Run, "attempt", c.Identity.Attempt)
	if c.Again {
		r.event(in, nw, c.Identity.Package, false, eventJobCreatedAgain, fmt.Sprintf(
			"Job %s (package %s, stage %s) was not there, and is created: somebody deleted it, or its creation was held up",
			job.Name, c.Identity.Package, c.Identity.Stage))
	}
	if len(dropped) > 0 {
		r.event(in, nw, c.Identity.Package, true, eventMetadataDropped, fmt.Sprintf(
			"annotations of the node are too large for package %s and were left out of its metadata: %v", c.Identity.Package, dropped))
	}
	return nil
}

// configOfAttempt puts the configMap that the attempt is to have into the package,
// and tells its hash. That is not the spec's where a package is taken off that
// was set up with another one.
func (r *Reconciler) configOfAttempt(ctx context.Context, in *gathered, nw *v1alpha1.NodeWright, pkg *v1alpha1.Package, c *plan.JobCreate) (hash string, err error) {
	ofSpec := revision.ConfigHash(pkg.ConfigMap)
	if c.ConfigHash == ofSpec || c.Identity.Interrupts() {
		return c.ConfigHash, nil
	}
	data, known, err := r.config(ctx, nw.Name, nw.UID, c.Identity.Package, c.ConfigHash)
	switch {
	case err != nil:
		return "", err
	case known:
		pkg.ConfigMap = data
		return c.ConfigHash, nil
	case c.Identity.Stage != nodestate.StageUninstall:
		return "", fmt.Errorf("create job: the configMap %s of package %s is gone", c.ConfigHash, c.Identity.Package)
	}
	// A package that cannot be taken off for ever would be worse.
	r.event(in, nw, c.Identity.Package, true, eventConfigGone, fmt.Sprintf(
		"the configMap that package %s was set up with is gone: its uninstall gets that of the spec", c.Identity.Package))
	return ofSpec, nil
}

// runsUnseen asks the API server whether a pod of the package has not ended. Its
// end brings the node back.
func (r *Reconciler) runsUnseen(ctx context.Context, c *plan.JobCreate) (bool, error) {
	var pods corev1.PodList
	err := r.opts.Live.List(ctx, &pods, client.InNamespace(r.opts.Jobs.Namespace), client.MatchingLabels{
		packagejob.LabelName: packagejob.LabelValue(c.Identity.NodeWright),
		packagejob.LabelNode: packagejob.LabelValue(c.Identity.Node),
	})
	if err != nil {
		return false, fmt.Errorf("list pods of nodewright %s on node %s: %w", c.Identity.NodeWright, c.Identity.Node, err)
	}
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		id, err := packagejob.Parse(&pod)
		return err == nil && id.Node == c.Identity.Node && id.Ref() == c.Identity.Ref() && !podEnded(&pod)
	}), nil
}

// jobExists looks at a Job that was there before we created it. The name
// follows from the record, so an earlier pass created it and the cache shows it
// soon; what else carries the name is never adopted.
func (r *Reconciler) jobExists(ctx context.Context, in *gathered, nw *v1alpha1.NodeWright, name string, c *plan.JobCreate) error {
	var job batchv1.Job
	err := r.opts.Live.Get(ctx, client.ObjectKey{Namespace: r.opts.Jobs.Namespace, Name: name}, &job)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("create job %s: it existed and is gone: %w", name, err)
	}
	if err != nil {
		return fmt.Errorf("get job %s: %w", name, err)
	}
	if id, err := packagejob.Parse(&job); err == nil && id == c.Identity && packagejob.Owned(job.Labels) {
		return nil
	}
	message := fmt.Sprintf("Job %s exists and does not run package %s: delete it so that stage %s can run", name, c.Identity.Package, c.Identity.Stage)
	r.event(in, nw, c.Identity.Package, true, plan.ReasonJobNameTaken, message)
	return errors.New(message)
}

// liveJob asks the API server for an unfinished Job that the plan is about: the
// cache may be behind. It is nil for one that ended, is being deleted, or is
// another of the name.
func (r *Reconciler) liveJob(ctx context.Context, name, uid string) (*batchv1.Job, error) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: r.opts.Jobs.Namespace, Name: name}}
	err := r.opts.Live.Get(ctx, client.ObjectKeyFromObject(job), job)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get job %s: %w", name, err)
	}
	if _, ended := packagejob.Finished(job); ended || string(job.UID) != uid || job.DeletionTimestamp != nil {
		return nil, nil
	}
	return job, nil
}

// deleteJob ends a Job and waits for its pods: the Job stays until they are
// gone. A Job that ended meanwhile is evidence and stays, and one that is being
// deleted was told of already.
func (r *Reconciler) deleteJob(ctx context.Context, in *gathered, d *plan.JobDelete) error {
	job, err := r.liveJob(ctx, d.Name, d.UID)
	if err != nil || job == nil {
		return err
	}
	err = r.client.Delete(ctx, job, client.Preconditions{UID: &job.UID},
		client.PropagationPolicy(metav1.DeletePropagationForeground))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete job %s: %w", d.Name, err)
	}
	logf.FromContext(ctx).Info("deleted job", "job", d.Name, "reason", d.Reason)
	if nw := in.specs[d.NodeWright]; nw != nil {
		r.event(in, nw, d.Package, false, d.Reason, d.Message)
	}
	return nil
}

// holdJob suspends a Job or lets it go on, and tells of it once.
func (r *Reconciler) holdJob(ctx context.Context, in *gathered, h *plan.JobHold) error {
	job, err := r.liveJob(ctx, h.Name, h.UID)
	if err != nil || job == nil || packagejob.Suspended(job) == h.Suspend {
		return err
	}
	held, reason := `"true"`, eventJobSuspended
	if !h.Suspend {
		held, reason = "null", eventJobResumed
	}
	if err := r.patchJob(ctx, h.Name, fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%s}},"spec":{"suspend":%t}}`,
		h.UID, packagejob.AnnotationHeld, held, h.Suspend)); err != nil {
		return err
	}
	logf.FromContext(ctx).Info("changed suspension of job", "job", h.Name, "suspend", h.Suspend)
	if nw := in.specs[h.NodeWright]; nw != nil {
		r.event(in, nw, h.Package, false, reason, h.Message)
	}
	return nil
}

func (r *Reconciler) patchDeadline(ctx context.Context, d *plan.JobDeadline) error {
	seconds := "null"
	if d.DeadlineSeconds != nil {
		seconds = strconv.FormatInt(*d.DeadlineSeconds, 10)
	}
	return r.patchJob(ctx, d.Name, fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"activeDeadlineSeconds":%s}}`, d.UID, seconds))
}

// patchJob changes a Job in place. The UID in the patch makes it this very Job:
// another of the name answers 409.
func (r *Reconciler) patchJob(ctx context.Context, name, patch string) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: r.opts.Jobs.Namespace, Name: name}}
	err := r.client.Patch(ctx, job, client.RawPatch(types.MergePatchType, []byte(patch)))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("patch job %s: %w", name, err)
	}
	return nil
}
