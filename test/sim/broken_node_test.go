package sim

import (
	"slices"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	jobplan "github.com/nodewright/nodewright/controllers/job/plan"
	nodeplan "github.com/nodewright/nodewright/controllers/node/plan"
)

type (
	status = nodestate.PackageStatus
	input  = nodeplan.Input
	result = nodeplan.Plan
)

// startAnew begins a run of the entry.
func startAnew(in *input, e *status) {
	e.Run, e.Stage, e.State, e.Attempt, e.Failures, e.Reason = in.NextSeq, nodestate.StageApply, nodestate.StateInProgress, 1, 0, ""
}

// runs tells whether the attempt of the entry goes on with this plan.
func runs(old, e *status) bool { return old.State == nodestate.StateInProgress && samePosition(old, e) }

// complete tells whether the stage was and stays complete.
func complete(old, e *status) bool {
	return old.State == nodestate.StateComplete && samePosition(old, e)
}

// brokenRecords are faults in what the node planner records.
func brokenRecords() map[string]broken {
	return map[string]broken{
		"a run goes back": {want: "^run of .* went back", planners: entry(func(_ *input, old, e *status) bool {
			e.Run--
			return old.Run > 1
		})},
		"an attempt goes back": {want: "^the record of .* went back", planners: entry(func(_ *input, old, e *status) bool {
			yes := old.Attempt > 1 && samePosition(old, e)
			e.Attempt--
			return yes
		})},
		"an entry is dropped": {want: "vanished from node", planners: nodePlan(func(in *input, p *result) {
			for _, ref := range refs(in.Record.Packages) {
				delete(p.Set.Packages, ref)
			}
		})},
		"a failure counts without evidence": {want: "counts a failure without evidence", planners: entry(func(_ *input, old, e *status) bool {
			yes := runs(old, e)
			e.Failures++
			return yes
		})},
		"what runs is called complete": {want: "is recorded complete, and no attempt", planners: entry(func(_ *input, old, e *status) bool {
			yes := runs(old, e)
			e.State = nodestate.StateComplete
			return yes
		})},
		"a stage is left out": {want: "follows a stage that did not succeed", planners: entry(func(_ *input, old, e *status) bool {
			yes := runs(old, e) && e.Stage == nodestate.StageApply
			e.Stage = nodestate.StageConfig
			return yes
		})},
		"a complete package runs again": {want: "starts anew although it was complete", planners: entry(func(in *input, old, e *status) bool {
			yes := complete(old, e) && e.Stage == nodestate.StageConfig && e.Interrupt == nil
			startAnew(in, e)
			return yes
		})},
		"a complete stage runs again": {want: "runs a stage again that was complete", planners: entry(func(in *input, old, e *status) bool {
			yes := old.Stage == nodestate.StageApply && old.State == nodestate.StateComplete && e.Run == old.Run
			startAnew(in, e)
			return yes
		})},
		"a raised retry limit starts from the beginning": {want: "runs a stage again that was complete", planners: entry(func(in *input, old, e *status) bool {
			yes := old.State == nodestate.StateErroring && e.State == nodestate.StateInProgress && e.Run == old.Run && e.Attempt > old.Attempt &&
				old.Stage == nodestate.StageConfig
			startAnew(in, e)
			return yes
		})},
		"a NodeWright that does not exist": {want: "starts without a NodeWright", planners: nodePlan(func(in *input, p *result) {
			addEntry(in, p, nodestate.PackageRef{NodeWright: "wz", Package: "pa"})
		})},
		"a package that does not exist": {want: "and is not in the spec", planners: nodePlan(func(in *input, p *result) {
			if len(in.NodeWrights) > 0 {
				addEntry(in, p, nodestate.PackageRef{NodeWright: in.NodeWrights[0].Name, Package: "pz"})
			}
		})},
		"dependencies do not matter": {want: "starts before its dependency", planners: packages(func(_ *nodeplan.NodeWright, pkg *nodeplan.Package) {
			pkg.DependsOn = nil
		})},
		"uninstalls have no order": {want: "which depends on it", planners: packages(func(nw *nodeplan.NodeWright, pkg *nodeplan.Package) {
			if nw.Deleting {
				pkg.DependsOn = nil
			}
		})},
		"everything is taken off": {want: "nobody asked for it", planners: nodeTold(func(in *input) {
			for i := range in.NodeWrights {
				nw := &in.NodeWrights[i]
				for j := range nw.Packages {
					pkg := &nw.Packages[j]
					e := in.Record.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: pkg.Name}]
					pkg.CanUninstall, pkg.Uninstall = true, e.State == nodestate.StateComplete
				}
			}
		})},
		"serial does not matter":      {want: "starts beside", planners: nodeWrights(func(nw *nodeplan.NodeWright) { nw.Serial = false })},
		"slots do not matter":         {want: "starts without a slot", planners: nodeTold(holdSlots)},
		"who works does not matter":   {want: "is at work there", planners: nodeTold(seeOne)},
		"priorities do not matter":    {want: "whose turn it is", planners: nodeTold(seeOne)},
		"a shared interrupt is over":  {want: "follows the interrupt of", planners: entry(endShared)},
		"a request is never noted":    {want: "is carried out again", planners: nodeTold(func(in *input) { in.Record.Handled = nil })},
		"a request is never answered": {want: "is not answered", planners: nodePlan(func(_ *input, p *result) { p.Answered = nil })},
		"a note is never dropped": {want: "still notes the requests", planners: nodePlan(func(in *input, p *result) {
			for nw := range p.Set.Status {
				if p.Set.Handled == nil {
					p.Set.Handled = map[string][]string{}
				}
				p.Set.Handled[nw] = append(slices.Clone(in.Record.Handled[nw]), "again")[:1]
			}
		})},
	}
}

func addEntry(in *input, p *result, ref nodestate.PackageRef) {
	e := status{Name: ref.Package, NodeWright: ref.NodeWright, UID: "uid", Version: "1.0.0", Image: "reg/a", Since: nodestate.FormatTime(in.Now)}
	startAnew(in, &e)
	p.Set.Packages[ref] = e
}

func holdSlots(in *input) {
	for i := range in.NodeWrights {
		nw := &in.NodeWrights[i]
		if in.Record.Batches == nil {
			in.Record.Batches = map[string]nodestate.Batch{}
		}
		delete(in.Record.Slots, nw.Name)
		in.Record.Batches[nw.Name] = nodestate.Batch{
			ID: "1", NodeWright: nw.Name, Rollout: nw.Revision, UID: nw.UID, Batch: 1, Compartment: "__default__",
		}
	}
}

// seeOne leaves one of the NodeWrights, another one at each write.
func seeOne(in *input) {
	if n := len(in.NodeWrights); n > 0 {
		i := int(in.NextSeq) % n
		in.NodeWrights = in.NodeWrights[i : i+1]
	}
}

func endShared(_ *input, old, e *status) bool {
	yes := old.State == nodestate.StateSkipped && old.Stage == nodestate.StageInterrupt && e.State == old.State
	e.State, e.Carrier, e.Message = nodestate.StateComplete, "", ""
	return yes
}

// brokenJobs are faults in what the node planner and the job planner make of Jobs.
func brokenJobs() map[string]broken {
	return map[string]broken{
		"a Job of a further attempt": {want: "is created, and the record says", planners: nodePlan(func(_ *input, p *result) {
			for i := range p.Create {
				p.Create[i].Identity.Attempt++
			}
		})},
		"a Job of a complete stage": {want: "is created, and its stage is complete", planners: createMore(func(_ *input, old, e *status) bool {
			return complete(old, e) && !e.Stage.Interrupts()
		})},
		"a Job beside another one": {want: "is created while .* is unfinished", planners: nodeTold(func(in *input) {
			in.Executors = nil
			in.Jobs = slices.DeleteFunc(in.Jobs, func(j nodeplan.Job) bool { return j.State == nodeplan.JobUnfinished && !namedBy(in, &j) })
		})},
		"a Job beside a pod": {want: "^p.-.*: two executors of", planners: planners{node: func(in input) result {
			in.Executors = nil
			p := nodeplan.Compute(in)
			for i := range p.Create {
				p.Create[i].Unsure = false
			}
			return p
		}}},
		"a Job without a slot": {want: "is created without a slot", planners: createMore(func(in *input, old, e *status) bool {
			return runs(old, e) && !slotInUse(&in.Record, e.NodeWright)
		})},
		"a Job is marked before it is recorded": {want: "is marked as recorded", planners: planners{job: func(in *jobplan.Input) *jobplan.Plan {
			p := jobplan.Compute(in)
			for _, job := range in.Jobs {
				if id, err := packagejob.Parse(job); err == nil && ended(job) {
					p.Marks = append(p.Marks, jobplan.Mark{Job: job, Identity: id})
				}
			}
			return p
		}}},
		"a Job of a NodeWright that was not read": {want: "which the pass did not read", planners: nodePlan(func(_ *input, p *result) {
			for i := range p.Create {
				p.Create[i].Identity.NodeWright = "wz"
			}
		})},
		"an interrupt without its kind": {want: "has interrupt", planners: nodePlan(func(_ *input, p *result) {
			for i := range p.Create {
				p.Create[i].Interrupt = nil
			}
		})},
		"a Job without identity": {want: "identity of a Job to create", planners: nodePlan(func(_ *input, p *result) {
			for i := range p.Create {
				p.Create[i].Identity.Run = -1
			}
		})},
		"a ConfigMap that nobody made": {want: "its ConfigMap .* was never made", planners: nodePlan(func(_ *input, p *result) {
			for i := range p.Create {
				if p.Create[i].ConfigHash != "" {
					p.Create[i].ConfigHash = "other"
				}
			}
		})},
	}
}

func identity(in *input, e *status) packagejob.Identity {
	return packagejob.Identity{
		Attempt: e.Attempt, Node: in.Node.Name, NodeUID: types.UID(in.Node.UID), NodeWright: e.NodeWright, NodeWrightUID: types.UID(e.UID),
		Package: e.Name, Run: e.Run, Stage: e.Stage, Version: e.Version,
	}
}

// createMore adds Jobs, of entries without one for which f says so.
func createMore(f func(in *input, old, e *status) bool) planners {
	return nodePlan(func(in *input, p *result) {
		for _, ref := range refs(p.Set.Packages) {
			e := p.Set.Packages[ref]
			old, had := in.Record.Packages[ref]
			id := identity(in, &e)
			known := slices.ContainsFunc(in.NodeWrights, func(nw nodeplan.NodeWright) bool { return nw.Name == e.NodeWright })
			there := slices.ContainsFunc(in.Jobs, func(j nodeplan.Job) bool { return j.Identity == id }) ||
				slices.ContainsFunc(p.Create, func(c nodeplan.JobCreate) bool { return c.Identity == id })
			if had && known && !there && f(in, &old, &e) {
				create := nodeplan.JobCreate{Identity: id, Image: e.Image, ConfigHash: e.ConfigHash}
				if e.Stage.Interrupts() {
					create.Interrupt = e.Interrupt
				}
				p.Create = append(p.Create, create)
			}
		}
	})
}

func ended(job *batchv1.Job) bool {
	_, ended := packagejob.Finished(job)
	return ended
}

// namedBy tells whether an entry names the Job.
func namedBy(in *input, j *nodeplan.Job) bool {
	e := in.Record.Packages[j.Identity.Ref()]
	return j.Identity.NamedBy(&e)
}

// brokenNodes are faults in what the node planner does to nodes.
func brokenNodes() map[string]broken {
	var calls atomic.Int64
	return map[string]broken{
		"an interrupt without a look": {want: "cordon was not seen or nobody looked", planners: nodeTold(func(in *input) {
			in.Node.Unschedulable = true
			in.Pods, in.Record.Cordons = map[string][]nodeplan.Pod{}, map[string]time.Time{}
			for i := range in.NodeWrights {
				in.Pods[in.NodeWrights[i].Name], in.Record.Cordons[in.NodeWrights[i].Name] = nil, in.Now
			}
		})},
		"an interrupt of a node that is not empty": {want: "interrupts .*: cordoned .*, workloads", planners: nodeTold(func(in *input) {
			for nw := range in.Pods {
				in.Pods[nw] = nil
			}
		})},
		"an interrupt of a Job of others": {want: "interrupts .* while .* runs", planners: nodePlan(func(in *input, p *result) {
			for _, ref := range refs(p.Set.Packages) {
				old, e := in.Record.Packages[ref], p.Set.Packages[ref]
				if _, looked := in.Pods[ref.NodeWright]; looked && len(p.Create) > 0 && complete(&old, &e) && e.Stage == nodestate.StageConfig && e.Interrupt != nil {
					e.Stage, e.State, e.Attempt = nodestate.StageInterrupt, nodestate.StateInProgress, 1
					p.Set.Packages[ref] = e
					p.Create = append(p.Create, nodeplan.JobCreate{Identity: identity(in, &e), Image: e.Image, Interrupt: e.Interrupt, BootID: e.BootID})
				}
			}
		})},
		"a reboot counts from where the node is": {want: "for the second time", planners: nodeTold(func(in *input) {
			for ref, e := range in.Record.Packages {
				e.BootID = in.Node.BootID
				in.Record.Packages[ref] = e
			}
		})},
		"a drain without a cordon": {want: "is drained for .* without its cordon", planners: nodePlan(func(_ *input, p *result) {
			if len(p.Set.DrainStarts) > 0 {
				p.Set.Cordons = nil
			}
		})},
		"an eviction before the cordon is seen": {want: "before its cordon was seen", planners: nodeTold(func(in *input) {
			in.Node.Unschedulable = true
			in.Record.Cordons = map[string]time.Time{}
			for i := range in.NodeWrights {
				in.Record.Cordons[in.NodeWrights[i].Name] = in.Now
			}
		})},
		"an eviction of what ends or stays": {want: "it ends already, or must not", planners: nodeTold(func(in *input) {
			for nw, pods := range in.Pods {
				pods = slices.Clone(pods)
				for i := range pods {
					pods[i].Terminating, pods[i].Stays, pods[i].NonInterrupt = false, false, false
				}
				in.Pods[nw] = pods
			}
		})},
		"a plan of chance": {want: "gave different plans", planners: nodePlan(func(in *input, p *result) {
			p.NextCheck = in.Now.Add(time.Hour + time.Duration(calls.Add(1)))
		})},
		"a plan that looks for ever": {want: "looks at pods again and again", planners: nodePlan(func(in *input, p *result) {
			if len(in.NodeWrights) > 0 {
				p.Look = []string{in.NodeWrights[0].Name}
			}
		})},
		"a taint that nobody asks for": {want: "gets taint .* which does not ask for it", planners: nodeWrights(func(nw *nodeplan.NodeWright) {
			nw.RuntimeRequired, nw.AutoTaint = true, true
		})},
		"a taint for a NodeWright that came later": {want: "gets taint .* which came after it", planners: nodeWrights(func(nw *nodeplan.NodeWright) {
			nw.Created = nw.Created.Add(-time.Hour)
		})},
		"a taint on an old node": {want: "gets taint .* it is not new", planners: nodeTold(func(in *input) {
			in.Config.NewNode = 1000 * time.Hour
		})},
		"a taint on an ignored node": {want: "gets taint .* it is ignored", planners: nodeTold(func(in *input) { in.Node.Ignored = false })},
		"workloads are let in too early": {want: "are let onto .* is not complete there", planners: nodePlan(func(in *input, p *result) {
			p.Taints.Remove = in.Taints
		})},
		"workloads are let onto an ignored node": {want: "are let onto .* which is ignored", planners: nodeTold(func(in *input) { in.Node.Ignored = false })},
		"taints of others go": {want: "and no NodeWright is complete there", planners: nodePlan(func(in *input, p *result) {
			if len(in.NodeWrights) == 0 {
				p.Taints.Remove = in.Taints
			}
		})},
		"a node is forgotten with its taint": {want: "which nobody will take off", planners: nodePlan(func(_ *input, p *result) { p.Remember = false })},
	}
}
