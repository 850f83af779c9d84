package sim

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/apis/support"
	"github.com/nodewright/nodewright/controllers/node/plan"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
)

// What the configuration of the manager says.
const (
	retryLimit   = 3
	stageTimeout = time.Hour
	podGrace     = 2 * time.Minute
	backoffBase  = 10 * time.Second
	backoffMax   = 5 * time.Minute
	ttlSucceeded = time.Hour
	ttlFailed    = 24 * time.Hour
)

// reconcileNode is a pass of the node controller: read, plan, record, Jobs.
func (o *operator) reconcileNode(t task) error {
	v := o.writers[nodestate.OwnerNode].read(t.key)
	if v == nil {
		return nil
	}
	in := o.gatherNode(v)
	p := plan.Compute(in)
	for range len(in.NodeWrights) {
		if len(p.Look) == 0 {
			break
		}
		o.basis.looked, o.basis.disturbed = true, o.w.disturbed[v.node.UID]
		in.Pods = map[string][]plan.Pod{}
		for _, name := range p.Look {
			in.Pods[name] = o.lookAt(v.node)
		}
		p = plan.Compute(in)
	}
	if len(p.Look) > 0 {
		o.w.fail("the plan of %s looks at pods again and again", t.key)
	}
	if o.w.chance(0.02) && !reflect.DeepEqual(p, plan.Compute(in)) {
		o.w.fail("equal inputs gave different plans for node %s", t.key)
	}
	if err := o.record(v, &in, &p); err != nil {
		return err
	}
	for _, e := range p.Events {
		o.w.checks.told(t.key, e)
	}
	for i := range p.Answered {
		if err := o.removeRequest(v, &p.Answered[i]); err != nil {
			return err
		}
	}
	if err := o.carryOut(&p); err != nil {
		return err
	}
	o.after(t, p.NextCheck)
	for i := range p.Evict {
		if err := o.evict(t.key, &p.Evict[i]); err != nil {
			return err
		}
	}
	return nil
}

func (o *operator) record(v *view, in *plan.Input, p *plan.Plan) error {
	w := o.writers[nodestate.OwnerNode]
	var err error
	if len(in.NodeWrights) == 0 && len(in.Jobs) == 0 && p.Set.Empty() {
		err = w.release(v)
	} else {
		_, err = w.apply(v, p.Set)
	}
	return err
}

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

func (o *operator) gatherNode(v *view) plan.Input {
	in := plan.Input{
		Now: o.w.now, NextSeq: v.nextSeq, Record: v.record,
		Node: plan.Node{
			Name: v.node.Name, UID: string(v.node.UID), BootID: v.node.Status.NodeInfo.BootID,
			Ready: ready(v.node), Unschedulable: v.node.Spec.Unschedulable,
			Unreachable: unreachable(v.node), Ignored: v1alpha1.NodeIgnored(v.node.Labels),
		},
		Config: plan.Config{PodStartGrace: podGrace, BackoffBase: backoffBase, BackoffMax: backoffMax},
	}
	o.gatherJobs(&in)
	concerned := concernedBy(&in)
	o.basis = basis{node: v.node, specs: map[string]*v1alpha1.NodeWright{}, record: v.record}
	for _, name := range names(o.cache.store[kindNodeWright]) {
		nw := asNodeWright(o.cache.store[kindNodeWright][name])
		selected := nw.Selects(v.node.Labels)
		if !selected && !concerned[name] && !asked(&v.record, name) {
			continue
		}
		o.basis.specs[name] = nw
		in.NodeWrights = append(in.NodeWrights, o.w.nodeWrightInput(nw, selected))
		o.w.configInterrupts(&in, nw)
	}
	for name := range concerned {
		if o.basis.specs[name] == nil && o.w.api.nodeWright(name) == nil {
			in.Gone = append(in.Gone, name)
		}
	}
	slices.Sort(in.Gone)
	return in
}

func asked(rec *nodestate.Record, nw string) bool {
	return slices.ContainsFunc(rec.Requests, func(r nodestate.RequestAt) bool { return r.NodeWright == nw })
}

// concernedBy are the NodeWrights with keys or Jobs on the node.
func concernedBy(in *plan.Input) map[string]bool {
	out := map[string]bool{}
	for ref := range in.Record.Packages {
		out[ref.NodeWright] = true
	}
	for name := range in.Record.Status {
		out[name] = true
	}
	for name := range in.Record.Slots {
		out[name] = true
	}
	for name := range in.Record.Batches {
		out[name] = true
	}
	for name := range in.Record.Handled {
		out[name] = true
	}
	for name := range in.Record.Cordons {
		out[name] = true
	}
	for i := range in.Jobs {
		if !in.Jobs[i].Unreadable && in.Jobs[i].State == plan.JobUnfinished {
			out[in.Jobs[i].Identity.NodeWright] = true
		}
	}
	return out
}

func (o *operator) gatherJobs(in *plan.Input) {
	named := map[string]bool{}
	for ref := range in.Record.Packages {
		e := in.Record.Packages[ref]
		name, ok := plan.NamedJob(&in.Node, &e)
		if !ok || e.State == nodestate.StateComplete || e.State == nodestate.StateUnknown {
			continue
		}
		named[name] = true
	}
	jobs := map[string]*batchv1.Job{}
	for _, name := range names(o.cache.store[kindJob]) {
		if job := asJob(o.cache.store[kindJob][name]); packagejob.NodeName(job) == in.Node.Name {
			jobs[name] = job
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		// A read of one object waits until the cache shows our own writes of it.
		o.cache.reach(kindJob, o.written[kindJob][name])
		delete(jobs, name)
		if job := asJob(o.cache.store[kindJob][name]); job != nil {
			jobs[name] = job
		}
	}
	for _, job := range jobs {
		in.Jobs = append(in.Jobs, o.jobFacts(job))
	}
	slices.SortFunc(in.Jobs, func(a, b plan.Job) int { return cmp.Compare(a.Name, b.Name) })
	for _, name := range names(o.cache.store[kindPod]) {
		pod := asPod(o.cache.store[kindPod][name])
		if pod.Spec.NodeName != in.Node.Name || podEnded(pod) || o.covered(jobs[packagejob.JobOf(pod)]) {
			continue
		}
		if id, err := o.w.api.identity(pod); err == nil {
			in.Executors = append(in.Executors, id.Ref())
		}
	}
	slices.SortFunc(in.Executors, nodestate.PackageRef.Compare)
	in.Executors = slices.Compact(in.Executors)
}

func (o *operator) covered(job *batchv1.Job) bool {
	if job == nil {
		return false
	}
	facts := o.jobFacts(job)
	return !facts.Unreadable && facts.State != plan.JobFailed && !facts.Idle
}

func (o *operator) jobFacts(job *batchv1.Job) plan.Job {
	facts := plan.Job{
		Name: job.Name, UID: string(job.UID), Deleting: job.DeletionTimestamp != nil,
		DeadlineSeconds: job.Spec.ActiveDeadlineSeconds, Suspended: suspended(job),
	}
	facts.Idle = facts.Suspended && packagejob.Asleep(job)
	_, facts.Held = job.Annotations[packagejob.AnnotationHeld]
	id, err := o.w.api.identity(job)
	facts.Identity, facts.Unreadable = id, err != nil
	switch condition, finished := packagejob.Finished(job); {
	case !finished:
	case condition == batchv1.JobComplete:
		facts.State = plan.JobSucceeded
	default:
		facts.State = plan.JobFailed
	}
	return facts
}

func podEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func unreachable(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionUnknown
		}
	}
	return false
}

// nodeWrightInput decodes a NodeWright, once for each version of it.
func (w *world) nodeWrightInput(nw *v1alpha1.NodeWright, selected bool) plan.NodeWright {
	in, ok := w.inputs[nw]
	if !ok {
		in = decodeNodeWright(nw)
		w.inputs[nw] = in
	}
	in.Selected = selected
	in.Everywhere = everywhere(nw)
	return in
}

// everywhere tells whether the NodeWright is complete on all nodes.
func everywhere(nw *v1alpha1.NodeWright) bool {
	return isTrue(nw.Status.Conditions, v1alpha1.ConditionReady) && nw.Status.ObservedGeneration == nw.Generation
}

func decodeNodeWright(nw *v1alpha1.NodeWright) plan.NodeWright {
	in := plan.NodeWright{
		Name: nw.Name, UID: string(nw.UID), Priority: nw.Spec.PriorityOrDefault(),
		Deleting: nw.DeletionTimestamp != nil, Paused: nw.Paused(), Disabled: nw.Disabled(), Held: support.Obstacle(nw),
		AllFirst:     nw.Spec.SequencingOrDefault() == v1alpha1.SequencingAll,
		DrainTimeout: nw.Spec.DrainSettings().Timeout,
		Serial:       nw.Spec.Serial, Revision: revision.Of(nw), RetryLimit: nw.Spec.RetryLimitOr(retryLimit),
	}
	for _, name := range nw.Spec.PackageNames() {
		p := nw.Spec.Packages[name]
		hash, err := stagejob.SpecHash(nw, &p)
		if err != nil {
			panic(err)
		}
		in.Packages = append(in.Packages, plan.Package{
			Interrupt:    interruptOf(p.Interrupt),
			CanUninstall: p.Uninstall != nil && p.Uninstall.Enabled, Uninstall: p.Uninstall != nil && p.Uninstall.Enabled && p.Uninstall.Apply,
			Name: name, Version: p.Version, Image: p.Image, ContainerSHA: p.ContainerSHA,
			ConfigHash: revision.ConfigHash(p.ConfigMap), SpecHash: hash,
			StageTimeout: nw.Spec.StageTimeoutOf(name, stageTimeout), DependsOn: p.DependsOn,
		})
	}
	return in
}

func interruptOf(i *v1alpha1.Interrupt) *nodestate.Interrupt {
	if i == nil {
		return nil
	}
	return &nodestate.Interrupt{Type: string(i.Type), Services: i.Services}
}

// configInterrupts adds what the keys ask for in which configMaps differ.
func (w *world) configInterrupts(in *plan.Input, nw *v1alpha1.NodeWright) {
	for name, p := range nw.Spec.Packages {
		ref := nodestate.PackageRef{NodeWright: nw.Name, Package: name}
		e, ok := in.Record.Packages[ref]
		if !ok || len(p.ConfigInterrupts) == 0 || e.ConfigHash == revision.ConfigHash(p.ConfigMap) {
			continue
		}
		before := w.configMaps[revision.ConfigMapName(nw.Name, nw.UID, name, e.ConfigHash)]
		var all []nodestate.Interrupt
		for pattern, interrupt := range p.ConfigInterrupts {
			for _, keys := range []map[string]string{before, p.ConfigMap} {
				for key := range keys {
					if v1alpha1.ConfigKeyMatches(pattern, key) && before[key] != p.ConfigMap[key] {
						all = append(all, *interruptOf(&interrupt))
					}
				}
			}
		}
		if strongest, ok := nodestate.StrongestInterrupt(all); ok {
			if in.ConfigInterrupts == nil {
				in.ConfigInterrupts = map[nodestate.PackageRef]nodestate.Interrupt{}
			}
			in.ConfigInterrupts[ref] = strongest
		}
	}
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
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "package", Image: c.Image}}
	if there := revision.ConfigMapName(nw.Name, nw.UID, c.Identity.Package, c.ConfigHash); uninstalling(c.Identity.Stage) && o.w.configMaps[there] == nil {
		// One that was made for an earlier NodeWright of the name is gone: an uninstall
		// takes that of the spec.
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
	if job := o.unfinished(h.Name, h.UID); job == nil || suspended(job) == h.Suspend {
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
