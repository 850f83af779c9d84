package plan

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// NamedJob is the name of the Job that an entry names on a node. ok is false
// for an entry that cannot name one: it has no attempt yet, or was written by
// an earlier operator.
func NamedJob(node *Node, e *nodestate.PackageStatus) (name string, ok bool) {
	id := identityOf(node, e)
	if id.Validate() != nil {
		return "", false
	}
	return id.JobName(), true
}

func identityOf(node *Node, e *nodestate.PackageStatus) packagejob.Identity {
	return packagejob.Identity{
		Attempt: e.Attempt, Node: node.Name, NodeUID: types.UID(node.UID),
		NodeWright: e.NodeWright, NodeWrightUID: types.UID(e.UID),
		Package: e.Name, Run: e.Run, Stage: e.Stage, Version: e.Version,
	}
}

// jobOf finds the Job that the entry names. Identities are compared, names only
// where a Job does not say what it runs: the name is a hash of the identity.
func (p *planner) jobOf(e *nodestate.PackageStatus) *Job {
	id := identityOf(&p.in.Node, e)
	for i := range p.in.Jobs {
		job := &p.in.Jobs[i]
		if !job.Unreadable && job.Identity == id {
			return job
		}
	}
	for i := range p.in.Jobs {
		if job := &p.in.Jobs[i]; job.Unreadable {
			if name, ok := NamedJob(&p.in.Node, e); ok && name == job.Name {
				return job
			}
		}
	}
	return nil
}

// stopExecutors ends what still runs for a package and tells whether anything
// is left to wait for: two executors must never share the host directory of a
// package.
func (p *planner) stopExecutors(ref nodestate.PackageRef, reason, why string) (wait bool) {
	for i := range p.in.Jobs {
		job := &p.in.Jobs[i]
		if job.Unreadable || job.State != JobUnfinished || job.Identity.Ref() != ref {
			continue
		}
		wait = true
		p.deleteJob(job, reason, why)
	}
	return wait || slices.Contains(p.in.Executors, ref)
}

// outOfReach tells whether something runs for the package that this controller
// does not end: a pod without its Job, or a Job of a node that had this name
// before.
func (p *planner) outOfReach(ref nodestate.PackageRef) bool {
	return slices.Contains(p.in.Executors, ref) || slices.ContainsFunc(p.in.Jobs, func(j Job) bool {
		return !j.Unreadable && j.State == JobUnfinished && j.Identity.Ref() == ref && string(j.Identity.NodeUID) != p.in.Node.UID
	})
}

// runs tells whether a Job or pod of the package runs on the node.
func (p *planner) runs(ref nodestate.PackageRef) bool {
	return slices.Contains(p.in.Executors, ref) || slices.ContainsFunc(p.in.Jobs, func(j Job) bool {
		return !j.Unreadable && j.State == JobUnfinished && j.Identity.Ref() == ref
	})
}

// deleteJob asks for the deletion of a Job of this node, once.
func (p *planner) deleteJob(job *Job, reason, why string) {
	if job.Deleting || string(job.Identity.NodeUID) != p.in.Node.UID {
		return
	}
	if slices.ContainsFunc(p.out.Delete, func(d JobDelete) bool { return d.UID == job.UID }) {
		return
	}
	id := &job.Identity
	p.out.Delete = append(p.out.Delete, JobDelete{
		Name: job.Name, UID: job.UID, NodeWright: id.NodeWright, Package: id.Package, Reason: reason,
		Message: fmt.Sprintf("Job %s (package %s %s, stage %s) is deleted: %s", job.Name, id.Package, id.Version, id.Stage, why),
	})
}

// endStrayJobs ends unfinished Jobs that no entry names. Jobs of NodeWrights
// that nobody knows here are left alone: they may be new.
func (p *planner) endStrayJobs() {
	for i := range p.in.Jobs {
		job := &p.in.Jobs[i]
		if job.Unreadable || job.State != JobUnfinished || !p.knows(job.Identity.NodeWright) {
			continue
		}
		ref := job.Identity.Ref()
		e, recorded := p.out.Set.Packages[ref]
		open := e.State == nodestate.StateInProgress || e.State == nodestate.StateErroring
		if p.malformed[ref] || recorded && open && identityOf(&p.in.Node, &e) == job.Identity {
			continue
		}
		p.deleteJob(job, ReasonSuperseded, "the record of the node does not name it")
	}
}

func (p *planner) knows(nodeWright string) bool {
	return slices.ContainsFunc(p.order, func(nw NodeWright) bool { return nw.Name == nodeWright })
}

// refsOf lists the entries of a NodeWright, sorted.
func (p *planner) refsOf(nodeWright string) []nodestate.PackageRef {
	var refs []nodestate.PackageRef
	for ref := range p.out.Set.Packages {
		if ref.NodeWright == nodeWright {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b nodestate.PackageRef) int {
		return cmp.Compare(a.Package, b.Package)
	})
	return refs
}

// unfinishedJobs tells whether Jobs or pods of the NodeWright run on the node.
func (p *planner) unfinishedJobs(nodeWright string) bool {
	for i := range p.in.Jobs {
		job := &p.in.Jobs[i]
		if !job.Unreadable && job.State == JobUnfinished && job.Identity.NodeWright == nodeWright {
			return true
		}
	}
	return slices.ContainsFunc(p.in.Executors, func(r nodestate.PackageRef) bool { return r.NodeWright == nodeWright })
}
