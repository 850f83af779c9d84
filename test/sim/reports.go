package sim

import (
	"math"
	"reflect"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	jobplan "github.com/nodewright/nodewright/controllers/job/plan"
	podplan "github.com/nodewright/nodewright/controllers/pod/plan"
)

// reconcileJobs is a pass of the job controller: reports, marks, orphans.
func (o *operator) reconcileJobs(t task) error {
	v := o.writers[nodestate.OwnerJob].read(t.key)
	jobs := slices.Clone(o.cache.store.jobsOn.on(t.key))
	if v == nil {
		return o.deleteOrphans(t.key, jobs)
	}
	p := o.w.opts.planners.job(&jobplan.Input{
		Now: o.w.now, NodeUID: v.node.UID, Record: v.record, Jobs: jobs,
		TTL: func(_ string, succeeded bool) time.Duration { return ttlOf(succeeded) },
	})
	o.look(v.node, jobs)
	if err := o.report(v, p, len(jobs)); err != nil {
		return err
	}
	for i := range p.Marks {
		if err := o.mark(&p.Marks[i]); err != nil {
			return err
		}
	}
	var strangers []*batchv1.Job
	for i := range p.Strangers {
		strangers = append(strangers, p.Strangers[i].Job)
	}
	o.after(t, p.NextCheck)
	return o.deleteOrphans(t.key, strangers)
}

func ttlOf(succeeded bool) time.Duration {
	if succeeded {
		return ttlSucceeded
	}
	return ttlFailed
}

// look remembers what the end of a Job will hide.
func (o *operator) look(node *corev1.Node, jobs []*batchv1.Job) {
	pods := o.podsOf(node.Name)
	for _, job := range jobs {
		seen, _ := jobplan.See(o.sightings[job.UID], job, pods, unreachable(node))
		if seen != (jobplan.Sighting{}) {
			o.sightings[job.UID] = seen
		}
	}
}

func (o *operator) podsOf(node string) []*corev1.Pod {
	return slices.Clone(o.cache.store.podsOn.on(node))
}

func (o *operator) report(v *view, p *jobplan.Plan, jobs int) error {
	reports := p.Reports
	for i := range p.Evidence {
		a := &p.Evidence[i]
		var pods []corev1.Pod
		for _, pod := range o.w.api.podsOn(v.node.Name) {
			if packagejob.JobOf(pod) == a.Job.Name {
				pods = append(pods, *pod)
			}
		}
		finding := jobplan.Evidence(&jobplan.Facts{
			Attempt: *a, Pods: pods, Sighting: o.sightings[a.Job.UID], Unreachable: unreachable(v.node), Now: metav1.NewTime(o.w.now),
		})
		if reports == nil {
			reports = map[nodestate.PackageRef]nodestate.JobReport{}
		}
		reports[a.Identity.Ref()] = finding.Report
		o.w.log("  evidence of Job %s: %s (harmless: %v)", a.Job.Name, finding.Report.Reason, finding.Report.Harmless)
	}
	w := o.writers[nodestate.OwnerJob]
	if len(reports) == 0 && jobs == 0 && unused(&v.record) {
		return w.release(v)
	}
	_, err := w.apply(v, nodestate.Set{JobReports: reports})
	return err
}

// unused tells whether no NodeWright has anything on the node.
func unused(rec *nodestate.Record) bool {
	return len(rec.Packages)+len(rec.Status)+len(rec.Slots)+len(rec.Batches)+len(rec.Malformed) == 0
}

func (o *operator) mark(m *jobplan.Mark) error {
	o.cache.reach(kindJob, o.written[kindJob][m.Job.Name])
	job := o.cache.store.jobs.get(m.Job.Name)
	if job == nil || job.UID != m.Job.UID || packagejob.Recorded(job) {
		return nil
	}
	ttl := ttlOf(m.Succeeded)
	return o.w.request("job controller marks Job "+job.Name, func() error {
		live := o.w.api.job(job.Name)
		if live == nil || live.UID != job.UID {
			return nil
		}
		o.w.writes++
		o.w.checks.jobMarked(live)
		seconds := int32(min(ttl.Seconds(), math.MaxInt32))
		o.w.api.changeJob(job.Name, func(j *batchv1.Job) {
			j.Annotations[packagejob.AnnotationRecorded] = nodestate.FormatTime(o.w.now)
			j.Spec.TTLSecondsAfterFinished = &seconds
		})
		o.written[kindJob][job.Name] = rvOf(o.w.api.job(job.Name))
		return nil
	}, nil)
}

func (o *operator) deleteOrphans(node string, jobs []*batchv1.Job) error {
	var uid types.UID
	if n := o.w.api.node(node); n != nil {
		uid = n.UID
	}
	for _, job := range jobs {
		id, err := packagejob.Parse(job)
		if job.DeletionTimestamp != nil || uid != "" && (err != nil || id.NodeUID == uid) {
			continue
		}
		err = o.w.request("job controller deletes Job "+job.Name+" of a node that is gone", func() error {
			return o.foreground(job.Name, job.UID)
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// reconcilePods is a pass of the pod controller.
func (o *operator) reconcilePods(t task) error {
	w := o.writers[nodestate.OwnerPod]
	v := w.read(t.key)
	if v == nil {
		return nil
	}
	pods := o.podsOf(t.key)
	in := &podplan.Input{
		Now: o.w.now, NodeUID: v.node.UID, Standing: v.record.PodReports, Pods: pods, Grace: podGrace,
	}
	p := podplan.Compute(in)
	if o.w.chance(0.02) && !reflect.DeepEqual(p, podplan.Compute(in)) {
		o.w.fail("equal inputs gave different reports for the pods of node %s", t.key)
	}
	var err error
	if len(p.Reports) == 0 && len(pods) == 0 && unused(&v.record) {
		err = w.release(v)
	} else {
		_, err = w.apply(v, nodestate.Set{PodReports: p.Reports})
	}
	if err != nil {
		return err
	}
	o.after(t, p.NextCheck)
	return nil
}
