package sim

import (
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// carryOut brings the Jobs in line with a plan, in the order of the reconciler.
func (o *operator) carryOut(p *plan.Plan) error {
	for i := range p.Delete {
		if err := o.deleteJob(&p.Delete[i]); err != nil {
			return err
		}
	}
	for i := range p.Create {
		if err := o.createJob(&p.Create[i]); err != nil {
			return err
		}
	}
	for i := range p.Patch {
		if err := o.patchJob(&p.Patch[i]); err != nil {
			return err
		}
	}
	for i := range p.Hold {
		if err := o.holdJob(&p.Hold[i]); err != nil {
			return err
		}
	}
	return nil
}

func (o *operator) createJob(c *plan.JobCreate) error {
	nw := o.basis.specs[c.Identity.NodeWright]
	if nw == nil {
		o.w.fail("a Job is to be created for NodeWright %s, which the pass did not read", c.Identity.NodeWright)
	}
	annotations, err := c.Identity.Annotations()
	if err != nil {
		o.w.fail("identity of a Job to create: %v", err)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: c.Identity.JobName(), Labels: c.Identity.Labels(), Annotations: annotations,
	}}
	if (c.Interrupt != nil) != c.Identity.Interrupts() {
		o.w.fail("Job %s has interrupt %v", describe(&c.Identity), c.Interrupt)
	}
	if c.Interrupt != nil {
		annotations[interruptType], annotations[interruptBoot] = c.Interrupt.Type, c.BootID
	}
	job.Spec.ActiveDeadlineSeconds = c.DeadlineSeconds
	job.Spec.Template.Labels, job.Spec.Template.Annotations = job.Labels, annotations
	job.Spec.Template.Spec.NodeName = c.Identity.Node
	job.Spec.Template.Spec.Tolerations = nw.Spec.AdditionalTolerations
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "package", Image: c.Image}}
	there := revision.ConfigMapName(nw.Name, nw.UID, c.Identity.Package, c.ConfigHash)
	if c.Identity.Stage.Uninstalls() && c.ConfigHash != "" && o.w.configMaps[there] == nil {
		// One that was made for an earlier NodeWright of the name is gone: an uninstall
		// takes that of the spec. A package that was set up without any takes none.
		c.ConfigHash = revision.ConfigHash(nw.Spec.Packages[c.Identity.Package].ConfigMap)
	}
	if c.ConfigHash != "" {
		job.Spec.Template.Spec.Volumes = []corev1.Volume{{
			Name: revision.ConfigMapName(nw.Name, nw.UID, c.Identity.Package, c.ConfigHash),
		}}
	}
	if c.Unsure && o.w.checks.podRuns(c.Identity.Node, c.Identity.Ref(), "") != "" {
		return nil
	}
	return o.w.request("node controller creates Job "+describe(&c.Identity), func() error {
		if there := o.w.api.job(job.Name); there != nil {
			if id, err := packagejob.Parse(there); err != nil || id != c.Identity {
				o.w.fail("Job %s exists and is of %+v", job.Name, id)
			}
			return nil
		}
		job.UID, job.CreationTimestamp = o.w.api.uid("job"), metav1.NewTime(o.w.now)
		o.w.api.put(kindJob, job)
		o.written[kindJob][job.Name] = rvOf(job)
		o.w.writes++
		o.w.checks.jobCreated(job)
		return nil
	}, nil)
}

func describe(id *packagejob.Identity) string {
	return fmt.Sprintf("%s (%s/%s %s %s run %d attempt %d on %s)", id.JobName(), id.NodeWright, id.Package, id.Version,
		id.Stage, id.Run, id.Attempt, id.Node)
}

// unfinished is a Job as the API server has it, nil if it ended, is being deleted
// or is another of the name.
func (o *operator) unfinished(name, uid string) *batchv1.Job {
	job := o.w.api.job(name)
	if job == nil || string(job.UID) != uid || job.DeletionTimestamp != nil {
		return nil
	}
	if _, ended := packagejob.Finished(job); ended {
		return nil
	}
	return job
}

func (o *operator) holdJob(h *plan.JobHold) error {
	if job := o.unfinished(h.Name, h.UID); job == nil || packagejob.Suspended(job) == h.Suspend {
		return nil
	}
	return o.w.request(fmt.Sprintf("node controller sets suspend of Job %s to %t", h.Name, h.Suspend), func() error {
		job := o.w.api.job(h.Name)
		if job == nil || string(job.UID) != h.UID {
			return nil
		}
		o.w.writes++
		o.w.api.changeJob(h.Name, func(j *batchv1.Job) {
			j.Spec.Suspend = &h.Suspend
			j.Annotations = maps.Clone(j.Annotations)
			if delete(j.Annotations, packagejob.AnnotationHeld); h.Suspend {
				j.Annotations[packagejob.AnnotationHeld] = "true"
			}
		})
		o.written[kindJob][h.Name] = rvOf(o.w.api.job(h.Name))
		return nil
	}, nil)
}

func (o *operator) deleteJob(d *plan.JobDelete) error {
	if o.unfinished(d.Name, d.UID) == nil {
		return nil
	}
	return o.w.request("node controller deletes Job "+d.Name+" ("+d.Reason+")", func() error {
		o.w.writes++
		return o.foreground(d.Name, types.UID(d.UID))
	}, nil)
}

// foreground deletes a Job; it stays until its pods are gone.
func (o *operator) foreground(name string, uid types.UID) error {
	job := o.w.api.job(name)
	if job == nil || job.UID != uid {
		return nil
	}
	o.w.deleteJob(job, true)
	if job = o.w.api.job(name); job != nil {
		o.written[kindJob][name] = rvOf(job)
	}
	return nil
}

func (o *operator) patchJob(d *plan.JobDeadline) error {
	return o.w.request("node controller patches the deadline of Job "+d.Name, func() error {
		job := o.w.api.job(d.Name)
		if job == nil || string(job.UID) != d.UID {
			return nil
		}
		o.w.writes++
		o.w.api.changeJob(d.Name, func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = d.DeadlineSeconds })
		o.written[kindJob][d.Name] = rvOf(o.w.api.job(d.Name))
		return nil
	}, nil)
}
