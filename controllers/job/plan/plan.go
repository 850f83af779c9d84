package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// Input is everything that the plan for the Jobs of one node follows from. It
// is read-only.
type Input struct {
	Now time.Time
	// NodeUID of the node as seen, and what stands on it.
	NodeUID types.UID
	Record  nodestate.Record
	// Jobs of the operator on this node.
	Jobs []*batchv1.Job
	// TTL is how long a finished Job of the NodeWright is kept, by its outcome.
	TTL func(nodeWright string, succeeded bool) time.Duration
}

// Plan is what to do about the Jobs. Slices are in the order of Job names.
type Plan struct {
	// Reports are those that stand and stay.
	Reports map[nodestate.PackageRef]nodestate.JobReport
	// Evidence is wanted of these Jobs: they failed, the record names them, and
	// no report says why.
	Evidence []Attempt
	// Marks are finished Jobs that are done with.
	Marks []Mark
	// Strangers are Jobs of a node that had this name before, if the node as seen
	// is the present one.
	Strangers []Attempt
	// NextCheck is when the first of the marks that wait is due, zero for none.
	NextCheck time.Time
}

// Attempt is a Job that says what it runs.
type Attempt struct {
	Job      *batchv1.Job
	Identity packagejob.Identity
}

// Mark asks for the recorded mark and the TTL of a finished Job.
type Mark struct {
	Job *batchv1.Job
	// Identity of the attempt; not set if Err is.
	Identity  packagejob.Identity
	Succeeded bool
	// Err says why nobody can tell what the Job ran.
	Err error
}

// Compute makes the plan.
func Compute(in *Input) *Plan {
	p := planner{in: in, out: &Plan{}}
	jobs := slices.Clone(in.Jobs)
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int { return cmp.Compare(a.Name, b.Name) })
	p.busy = p.atWork() || slices.ContainsFunc(jobs, p.runs)
	for _, job := range jobs {
		p.add(job)
	}
	return p.out
}

type planner struct {
	in  *Input
	out *Plan
	// busy says that stages run on the node: what does not press waits.
	busy bool
}

// atWork tells whether the record says that a stage is under way.
func (p *planner) atWork() bool {
	for ref := range p.in.Record.Packages {
		if p.in.Record.Packages[ref].State == nodestate.StateInProgress {
			return true
		}
	}
	return false
}

// runs tells whether the Job runs a stage on this node.
func (p *planner) runs(job *batchv1.Job) bool {
	if _, finished := packagejob.Finished(job); finished {
		return false
	}
	id, err := identify(job)
	return err == nil && id.NodeUID == p.in.NodeUID
}

func (p *planner) add(job *batchv1.Job) {
	id, err := identify(job)
	outcome, finished := packagejob.Outcome(job)
	succeeded := outcome.Type == batchv1.JobComplete
	switch {
	case err != nil:
		if finished {
			p.mark(Mark{Job: job, Succeeded: succeeded, Err: err})
		}
		return
	case id.NodeUID != p.in.NodeUID:
		if job.DeletionTimestamp == nil {
			p.out.Strangers = append(p.out.Strangers, Attempt{job, id})
		}
		return
	case p.malformed(id.Ref()):
		// Nobody can tell whether the record names the Job: it is left alone, and
		// what was reported of it stays.
		if r, ok := p.report(job, &id); ok {
			p.keep(id.Ref(), r)
		}
		return
	case !finished:
		return
	}
	switch entry, named := p.standing(&id); entry {
	case left:
		p.mark(Mark{Job: job, Identity: id, Succeeded: succeeded})
	case current:
		if succeeded {
			return
		}
		p.failed(job, id, named)
	}
}

// failed handles a failed Job that the record names. Its evidence stays as long
// as the record names it.
func (p *planner) failed(job *batchv1.Job, id packagejob.Identity, named nodestate.PackageStatus) {
	report, ok := p.report(job, &id)
	if !ok {
		p.out.Evidence = append(p.out.Evidence, Attempt{job, id})
		return
	}
	p.keep(id.Ref(), report)
	if parked(&named, &report) {
		p.mark(Mark{Job: job, Identity: id})
	}
}

// parked tells whether the entry is erroring for the failure that was reported:
// no further attempt follows, and the Job keeps its logs for its TTL. An entry
// that was erroring before the end of the Job was so for a pod that could not
// start, and is about to move on.
func parked(e *nodestate.PackageStatus, r *nodestate.JobReport) bool {
	if e.State != nodestate.StateErroring {
		return false
	}
	since, err := nodestate.ParseTime(e.Since)
	ended, errEnded := nodestate.ParseTime(r.FinishedAt)
	return e.Reason == r.Reason || err == nil && errEnded == nil && !since.Before(ended)
}

func (p *planner) keep(ref nodestate.PackageRef, r nodestate.JobReport) {
	if p.out.Reports == nil {
		p.out.Reports = make(map[nodestate.PackageRef]nodestate.JobReport)
	}
	p.out.Reports[ref] = r
}

// report gives the report that stands about this very Job. One that is older
// than the Job is about an earlier Job of the same name, which somebody deleted.
func (p *planner) report(job *batchv1.Job, id *packagejob.Identity) (nodestate.JobReport, bool) {
	r, ok := p.in.Record.JobReports[id.Ref()]
	if !ok || r.Job != job.Name {
		return nodestate.JobReport{}, false
	}
	at, err := nodestate.ParseTime(r.FinishedAt)
	created := job.CreationTimestamp.Truncate(time.Second)
	return r, err == nil && !at.Before(created)
}

// mark asks for the mark of a Job. Nothing waits for a mark, so while stages run
// on the node it yields to them: the fewer writes a rollout makes, the sooner it
// ends. It waits for half of the TTL at most, which counts from the Job's end in
// any case. What cannot be read does not wait: with the mark, users are told.
func (p *planner) mark(m Mark) {
	if m.Job.DeletionTimestamp != nil || packagejob.Recorded(m.Job) {
		return
	}
	outcome, _ := packagejob.Outcome(m.Job)
	due := outcome.LastTransitionTime.Add(p.in.TTL(m.Identity.NodeWright, m.Succeeded) / 2)
	if p.busy && m.Err == nil && p.in.Now.Before(due) {
		if p.out.NextCheck.IsZero() || due.Before(p.out.NextCheck) {
			p.out.NextCheck = due
		}
		return
	}
	p.out.Marks = append(p.out.Marks, m)
}

func (p *planner) malformed(ref nodestate.PackageRef) bool {
	return slices.ContainsFunc(p.in.Record.Malformed, func(m nodestate.Malformed) bool {
		key, ok := nodestate.ParseKey(m.Key)
		return ok && key.Kind == nodestate.KindNodeState && key.Names(ref.NodeWright, ref.Package)
	})
}

// identify reads the identity and checks it against where the Job runs.
func identify(job *batchv1.Job) (packagejob.Identity, error) {
	id, err := packagejob.Parse(job)
	if err == nil && id.Node != packagejob.NodeName(job) {
		err = fmt.Errorf("identity is of node %s, pods run on node %s", id.Node, packagejob.NodeName(job))
	}
	return id, err
}
