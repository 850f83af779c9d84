package sim

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// What the configuration of the manager says.
const (
	retryLimit   = 3
	stageTimeout = time.Hour
	podGrace     = 2 * time.Minute
	backoffBase  = 10 * time.Second
	backoffMax   = 5 * time.Minute
	newNode      = 10 * time.Minute
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
	p := o.w.opts.planners.node(in)
	for range len(in.NodeWrights) {
		if len(p.Look) == 0 {
			break
		}
		o.basis.looked, o.basis.disturbed = true, o.w.disturbed[v.node.UID]
		in.Pods = map[string][]plan.Pod{}
		for _, name := range p.Look {
			in.Pods[name] = o.lookAt(v.node)
		}
		p = o.w.opts.planners.node(in)
	}
	if len(p.Look) > 0 {
		o.w.fail("the plan of %s looks at pods again and again", t.key)
	}
	if o.w.chance(0.02) && !reflect.DeepEqual(p, o.w.opts.planners.node(in)) {
		o.w.fail("equal inputs gave different plans for node %s", t.key)
	}
	if gone, err := o.putTaint(v, &p); err != nil || gone {
		return err
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
	if err := errors.Join(o.removeTaints(v, &p), o.carryOut(&p), o.evictAll(t.key, &p)); err != nil {
		return err
	}
	o.w.checks.suspended(&in)
	o.after(t, p.NextCheck)
	return nil
}

func (o *operator) record(v *view, in *plan.Input, p *plan.Plan) error {
	w := o.writers[nodestate.OwnerNode]
	var err error
	if len(in.NodeWrights) == 0 && len(in.Jobs) == 0 && p.Set.Empty() && len(p.Taints.Remove) == 0 && !p.Remember {
		err = w.release(v)
	} else {
		_, err = w.apply(v, p.Set)
	}
	return err
}

func (o *operator) gatherNode(v *view) plan.Input {
	in := plan.Input{
		Now: o.w.now, NextSeq: v.nextSeq, Record: v.record,
		Node: plan.Node{
			Name: v.node.Name, UID: string(v.node.UID), BootID: v.node.Status.NodeInfo.BootID,
			Ready: ready(v.node), Unschedulable: v.node.Spec.Unschedulable,
			Unreachable: unreachable(v.node), Ignored: v1alpha1.NodeIgnored(v.node.Labels),
			Created: v.node.CreationTimestamp.Time,
		},
		Taints: gatesOf(v.node),
		Config: plan.Config{
			PodStartGrace: podGrace, BackoffBase: backoffBase, BackoffMax: backoffMax, Taints: runtimeRequired, NewNode: newNode,
		},
	}
	o.gatherJobs(&in)
	concerned := concernedBy(&in)
	o.basis = basis{at: o.w.now, node: v.node, specs: map[string]*v1alpha1.NodeWright{}, record: v.record}
	for _, nw := range o.cache.store.nodeWrights.all() {
		selected := o.w.selects(nw, v.node)
		if !selected && !concerned[nw.Name] && !asked(&v.record, nw.Name) {
			continue
		}
		o.basis.specs[nw.Name] = nw
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
	for name := range in.Record.DrainStarts {
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
	for _, job := range o.cache.store.jobsOn.on(in.Node.Name) {
		jobs[job.Name] = job
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		// A read of one object waits until the cache shows our own writes of it.
		o.cache.reach(kindJob, o.written[kindJob][name])
		delete(jobs, name)
		if job := o.cache.store.jobs.get(name); job != nil {
			jobs[name] = job
		}
	}
	for _, job := range jobs {
		in.Jobs = append(in.Jobs, o.jobFacts(job))
	}
	slices.SortFunc(in.Jobs, func(a, b plan.Job) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range o.cache.store.podsOn.on(in.Node.Name) {
		if podEnded(pod) || o.covered(jobs[packagejob.JobOf(pod)]) {
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
		DeadlineSeconds: job.Spec.ActiveDeadlineSeconds, Suspended: packagejob.Suspended(job),
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

// everywhere tells whether the NodeWright is complete on all nodes.
func everywhere(nw *v1alpha1.NodeWright) bool {
	return isTrue(nw.Status.Conditions, v1alpha1.ConditionReady) && nw.Status.ObservedGeneration == nw.Generation
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
		if !ok || len(p.ConfigInterrupts) == 0 || e.ConfigHash == w.spec(nw).hashes[name] {
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
