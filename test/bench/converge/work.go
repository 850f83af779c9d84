package main

import (
	batchv1 "k8s.io/api/batch/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// work is the Jobs of all nodes, in the order in which stages follow each other.
type work struct {
	all, first []*batchv1.Job
	// after is what may start once a Job and those that it is waited for with have
	// succeeded, by the name of each of them.
	after map[string]*step
}

// step is Jobs that start together.
type step struct {
	// missing Jobs have to succeed first.
	missing int
	jobs    []*batchv1.Job
}

func newWork() *work { return &work{after: map[string]*step{}} }

// addNode adds the stages of one node: those of a package follow each other, and
// the packages share one interrupt.
func (w *work) addNode(nw *v1alpha1.NodeWright, build func(pkg string, stage nodestate.Stage) (*batchv1.Job, error)) error {
	names := nw.Spec.PackageNames()
	jobs := map[nodestate.Stage][]*batchv1.Job{}
	for _, stage := range []nodestate.Stage{nodestate.StageApply, nodestate.StageConfig, nodestate.StageInterrupt, nodestate.StagePostInterrupt} {
		for i, name := range names {
			p := nw.Spec.Packages[name]
			switch {
			case p.Interrupt == nil && (stage == nodestate.StageInterrupt || stage == nodestate.StagePostInterrupt):
				continue
			case stage == nodestate.StageInterrupt && i > 0:
				continue
			}
			job, err := build(name, stage)
			if err != nil {
				return err
			}
			jobs[stage] = append(jobs[stage], job)
			w.all = append(w.all, job)
		}
	}
	w.first = append(w.first, jobs[nodestate.StageApply]...)
	for i, job := range jobs[nodestate.StageApply] {
		w.follow(jobs[nodestate.StageConfig][i:i+1], job)
	}
	if len(jobs[nodestate.StageInterrupt]) > 0 {
		w.follow(jobs[nodestate.StageInterrupt], jobs[nodestate.StageConfig]...)
		w.follow(jobs[nodestate.StagePostInterrupt], jobs[nodestate.StageInterrupt]...)
	}
	return nil
}

// follow says that jobs start when all of earlier have succeeded.
func (w *work) follow(jobs []*batchv1.Job, earlier ...*batchv1.Job) {
	s := &step{missing: len(earlier), jobs: jobs}
	for _, job := range earlier {
		w.after[job.Name] = s
	}
}

// succeeded returns the Jobs that may start now that the named one has
// succeeded, which is to be said once.
func (w *work) succeeded(name string) []*batchv1.Job {
	s := w.after[name]
	if s == nil {
		return nil
	}
	if s.missing--; s.missing > 0 {
		return nil
	}
	return s.jobs
}

// interruptOf is what the stage of the package does to the node; nil for none.
func interruptOf(p *v1alpha1.Package, stage nodestate.Stage) *nodestate.Interrupt {
	if !stage.Interrupts() {
		return nil
	}
	return &nodestate.Interrupt{Type: string(p.Interrupt.Type), Services: p.Interrupt.Services}
}
