package sim

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/support"
	rolloutplan "github.com/nodewright/nodewright/controllers/rollout/plan"
)

func isTrue(conditions []metav1.Condition, kind string) bool {
	for i := range conditions {
		if conditions[i].Type == kind {
			return conditions[i].Status == metav1.ConditionTrue
		}
	}
	return false
}

// quiet: where nothing happens any more, each NodeWright is done with each of
// its nodes, or there is a reason that can be named.
func (c *checks) quiet() {
	for _, nw := range c.w.api.nodeWrights() {
		for _, node := range c.w.api.nodes() {
			rec := c.w.api.record(node)
			if problem := c.unexplained(nw, node, rec); problem != "" {
				c.w.fail("at rest, %s on %s: %s (status %q, slot %+v, batch %+v)", nw.Name, node.Name, problem,
					rec.Status[nw.Name], rec.Slots[nw.Name], rec.Batches[nw.Name])
			}
		}
	}
}

func (c *checks) unexplained(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record) string {
	running := c.runsOn(node.Name, nw.Name)
	batch, granted := rec.Batches[nw.Name]
	slot, answered := rec.Slots[nw.Name]
	inUse := granted && (!answered || batch.Holds(&slot))
	switch {
	case running && (unreachable(node) || len(rec.Malformed) > 0):
		return ""
	case running && !c.erroring(nw, rec) && nw.DeletionTimestamp == nil && selects(nw, node) && !v1alpha1.NodeIgnored(node.Labels):
		return "something runs, and does not end"
	case nw.DeletionTimestamp != nil:
		if hasRef(rec.Packages, nw.Name) && len(rec.Malformed) == 0 {
			return "it is deleted, and entries are left"
		}
		return ""
	case !selects(nw, node) || v1alpha1.NodeIgnored(node.Labels):
		if inUse && !running {
			return "the node is out of the rollout and keeps its slot"
		}
		return ""
	}
	return c.unexplainedWord(nw, node, rec, inUse)
}

func (c *checks) unexplainedWord(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record, inUse bool) string {
	held := support.Held(nw) != ""
	switch rec.Status[nw.Name] {
	case nodestate.StatusComplete:
		if !c.nodeComplete(nw, rec) {
			return "complete is said of packages that are not"
		}
		if inUse && !nw.Paused() && !nw.Disabled() && !held {
			return "complete, and keeps its slot"
		}
	case nodestate.StatusErroring:
		if !c.erroring(nw, rec) {
			return "erroring is said, and no package is"
		}
	case nodestate.StatusPaused, nodestate.StatusDisabled:
		if !nw.Paused() && !nw.Disabled() {
			return "nobody paused or disabled it"
		}
	case nodestate.StatusUnknown:
		if len(rec.Malformed) == 0 {
			return "everything can be read"
		}
	case nodestate.StatusBlocked:
		if !held && !unreachable(node) && !c.othersFirst(nw, node, rec) && !c.dependencyMissing(nw, rec) {
			return "nothing blocks it"
		}
	case nodestate.StatusInProgress:
		if !unreachable(node) {
			return "in progress, and nothing happens"
		}
	default:
		if !held && !unreachable(node) && !nw.Paused() && !nw.Disabled() && !c.usedUp(nw) {
			return "it waits for nothing"
		}
	}
	return ""
}

// runsOn tells whether a Job or pod of the NodeWright has not ended.
func (c *checks) runsOn(node, nw string) bool {
	for _, job := range c.w.api.jobs() {
		id, err := c.w.api.identity(job)
		if _, finished := packagejob.Finished(job); err == nil && !finished && id.Node == node && id.NodeWright == nw {
			return true
		}
	}
	for _, pod := range c.w.api.pods() {
		if _, ref := c.refOf(pod); !podEnded(pod) && pod.Spec.NodeName == node && ref.NodeWright == nw {
			return true
		}
	}
	return false
}

func (c *checks) nodeComplete(nw *v1alpha1.NodeWright, rec *nodestate.Record) bool {
	for name, pkg := range nw.Spec.Packages {
		e, ok := rec.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: name}]
		if !ok || e.UID != string(nw.UID) || !packageComplete(&pkg, &e) {
			return false
		}
	}
	return true
}

func (c *checks) erroring(nw *v1alpha1.NodeWright, rec *nodestate.Record) bool {
	for name := range nw.Spec.Packages {
		e := rec.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: name}]
		if e.State == nodestate.StateErroring && e.Reason != "" {
			return true
		}
	}
	return false
}

// othersFirst tells whether another NodeWright of the node is not done.
func (c *checks) othersFirst(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record) bool {
	for _, other := range c.w.api.nodeWrights() {
		if other.Name == nw.Name || !selects(other, node) || other.Disabled() || other.DeletionTimestamp != nil || support.Held(other) != "" {
			continue
		}
		if other.Paused() || rec.Status[other.Name] != nodestate.StatusComplete {
			return true
		}
	}
	return false
}

func (c *checks) dependencyMissing(nw *v1alpha1.NodeWright, rec *nodestate.Record) bool {
	for _, pkg := range nw.Spec.Packages {
		for name, version := range pkg.DependsOn {
			spec, inSpec := nw.Spec.Packages[name]
			e := rec.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: name}]
			if !inSpec || !packageComplete(&spec, &e) || !nodestate.SameVersion(e.Version, version) {
				return true
			}
		}
	}
	return false
}

// usedUp tells whether the ceiling is taken up.
func (c *checks) usedUp(nw *v1alpha1.NodeWright) bool {
	matched, counting := 0, 0
	for _, node := range c.w.api.nodes() {
		rec := c.w.api.record(node)
		active := selects(nw, node) && !v1alpha1.NodeIgnored(node.Labels)
		b, granted := rec.Batches[nw.Name]
		s, answered := rec.Slots[nw.Name]
		if active {
			matched++
		}
		if granted && (!answered || b.Holds(&s)) || active && rec.Status[nw.Name] == nodestate.StatusErroring {
			counting++
		}
	}
	return counting >= rolloutplan.Ceiling(&nw.Spec, matched)
}

// allComplete: after everything was repaired, every node is done.
func (c *checks) allComplete() {
	for _, nw := range c.w.api.nodeWrights() {
		if nw.DeletionTimestamp != nil {
			c.w.fail("%s is deleted and does not go", nw.Name)
		}
		for _, node := range c.w.api.nodes() {
			if !selects(nw, node) {
				continue
			}
			rec := c.w.api.record(node)
			batch, slot := rec.Batches[nw.Name], rec.Slots[nw.Name]
			if rec.Status[nw.Name] != nodestate.StatusComplete || !c.nodeComplete(nw, rec) || batch.Holds(&slot) {
				c.w.fail("after the repair, %s is not done with %s: status %q, slot %+v, batch %+v, entries %s", nw.Name, node.Name,
					rec.Status[nw.Name], slot, batch, entriesOf(rec, nw.Name))
			}
		}
		if !isTrue(nw.Status.Conditions, v1alpha1.ConditionReady) || nw.Status.ObservedGeneration != nw.Generation {
			c.w.fail("after the repair, %s is not Ready: %+v", nw.Name, nw.Status)
		}
	}
	for _, job := range c.w.api.jobs() {
		id, err := c.w.api.identity(job)
		nw, node := c.w.api.nodeWright(id.NodeWright), c.w.api.node(id.Node)
		if _, finished := packagejob.Finished(job); !finished && err == nil && nw != nil && node != nil && selects(nw, node) {
			c.w.fail("after the repair, Job %s is not finished", job.Name)
		}
	}
}

func entriesOf(rec *nodestate.Record, nw string) string {
	var all []string
	for _, ref := range refs(rec.Packages) {
		if e := rec.Packages[ref]; ref.NodeWright == nw {
			all = append(all, describeEntry(&e))
		}
	}
	return strings.Join(all, "; ")
}

// nothingLeft: after the deletion of all NodeWrights, nodes carry nothing of the
// operator, and its Jobs are gone.
func (c *checks) nothingLeft() {
	var left []string
	for _, nw := range c.w.api.nodeWrights() {
		left = append(left, "NodeWright "+nw.Name)
	}
	for _, job := range c.w.api.jobs() {
		left = append(left, "Job "+job.Name)
	}
	for _, node := range c.w.api.nodes() {
		for _, m := range []map[string]string{node.Annotations, node.Labels} {
			for key, value := range m {
				if _, owned := nodestate.OwnerOf(key); owned {
					left = append(left, fmt.Sprintf("%s=%s on %s", key, value, node.Name))
				}
			}
		}
	}
	if len(left) > 0 {
		c.w.fail("after the deletion of everything there is left: %s", strings.Join(left, ", "))
	}
}

// writeBudget: for each node and NodeWright with L stages, 3L + 6.
func (c *checks) writeBudget() {
	budget := 0
	for _, nw := range c.w.api.nodeWrights() {
		for _, node := range c.w.api.nodes() {
			if selects(nw, node) {
				budget += 3*2*len(nw.Spec.Packages) + 6
			}
		}
	}
	if c.w.writes > budget {
		c.w.fail("%d writes, the budget is %d", c.w.writes, budget)
	}
}
