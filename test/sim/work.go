package sim

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	nodeplan "github.com/nodewright/nodewright/controllers/node/plan"
	rolloutplan "github.com/nodewright/nodewright/controllers/rollout/plan"
)

// jobCreated: the record names it, nothing else runs, the node holds a slot, and
// the stage is not complete.
func (c *checks) jobCreated(job *batchv1.Job) {
	id, err := c.w.api.identity(job)
	if err != nil {
		c.w.fail("Job %s is created without identity: %v", job.Name, err)
	}
	c.w.log("  Job %s is created", describe(&id))
	node := c.w.api.node(id.Node)
	if node == nil || node.UID != id.NodeUID {
		return
	}
	rec := c.w.api.record(node)
	e, ok := rec.Packages[id.Ref()]
	if !c.wroteJunk(rec, id.Ref()) && (!ok || !id.NamedBy(&e)) {
		c.w.fail("Job %s is created, and the record says %s", describe(&id), describeEntry(&e))
	}
	if c.complete[keyOf(&id)] {
		c.w.fail("Job %s is created, and its stage is complete", describe(&id))
	}
	for _, other := range c.w.api.jobsOn(id.Node) {
		if other.Name != job.Name && c.executes(other, id.Node, id.Ref()) {
			c.w.fail("Job %s is created while %s is unfinished", describe(&id), other.Name)
		}
	}
	c.touches(&id)
	c.alone(job.Name, id.Node, id.Ref(), "")
	if id.Interrupts() {
		c.interruptedQuietly(job.Name, node)
	}
	if !slotInUse(rec, id.NodeWright) {
		c.w.fail("Job %s is created without a slot", describe(&id))
	}
}

// executes tells whether the Job is unfinished and of the package on the node.
func (c *checks) executes(job *batchv1.Job, node string, ref nodestate.PackageRef) bool {
	id, err := c.w.api.identity(job)
	_, finished := packagejob.Finished(job)
	return err == nil && !finished && id.Node == node && id.Ref() == ref
}

// wroteJunk tells whether a user made the entry unreadable, or took it away,
// since it was written.
func (c *checks) wroteJunk(rec *nodestate.Record, ref nodestate.PackageRef) bool {
	_, readable := rec.Packages[ref]
	return !readable
}

// alone: at most one pod of a package works on a node.
func (c *checks) alone(what, node string, ref nodestate.PackageRef, but string) {
	if other := c.podRuns(node, ref, but); other != "" {
		c.w.fail("%s: two executors of %v on %s, the other is pod %s", what, ref, node, other)
	}
}

// podRuns names a pod of the package on the node that has not ended, if any.
func (c *checks) podRuns(node string, ref nodestate.PackageRef, but string) string {
	for _, pod := range c.w.api.podsOn(node) {
		if pod.Name == but || podEnded(pod) {
			continue
		}
		if _, other := c.refOf(pod); other == ref {
			return pod.Name
		}
	}
	return ""
}

func (c *checks) podCreated(pod *corev1.Pod) {
	_, ref := c.refOf(pod)
	c.alone("pod "+pod.Name+" is created", pod.Spec.NodeName, ref, pod.Name)
}

func (c *checks) podStarted(pod *corev1.Pod) {
	id, ref := c.refOf(pod)
	// The agent of a reboot finds another boot then, and does nothing.
	if c.complete[keyOf(&id)] && pod.Annotations[interruptType] != reboot {
		c.w.fail("pod %s runs, and its stage is complete", pod.Name)
	}
	c.alone("pod "+pod.Name+" runs", pod.Spec.NodeName, ref, pod.Name)
}

func (c *checks) podSucceeded(pod *corev1.Pod) {
	id, _ := c.refOf(pod)
	c.succeeded[keyOf(&id)] = true
}

// jobMarked: the record does not wait for the outcome of the Job any more.
func (c *checks) jobMarked(job *batchv1.Job) {
	id, err := c.w.api.identity(job)
	node := c.w.api.node(packagejob.NodeName(job))
	if err != nil || node == nil || node.UID != id.NodeUID {
		return
	}
	rec := c.w.api.record(node)
	if e, ok := rec.Packages[id.Ref()]; ok && id.NamedBy(&e) && e.State == nodestate.StateInProgress {
		c.w.fail("Job %s is marked as recorded, and the record still waits for it: %s", job.Name, describeEntry(&e))
	}
}

// suspended: a pass over a node leaves no Job running whose NodeWright a user
// holds, but for one that interrupts the node.
func (c *checks) suspended(in *nodeplan.Input) {
	for i := range in.Jobs {
		job := c.w.api.job(in.Jobs[i].Name)
		if job == nil || in.Jobs[i].Unreadable || in.Jobs[i].State != nodeplan.JobUnfinished || job.DeletionTimestamp != nil {
			continue
		}
		id := &in.Jobs[i].Identity
		nw := c.w.op.basis.specs[id.NodeWright]
		if nw == nil || !isStopped(nw) || id.Interrupts() || string(id.NodeUID) != in.Node.UID || packagejob.Suspended(job) ||
			in.Node.Ignored || !c.w.selects(nw, c.w.op.basis.node) || !c.executes(job, in.Node.Name, id.Ref()) {
			continue
		}
		c.w.fail("%s is paused or disabled, and a pass over %s leaves Job %s running", nw.Name, in.Node.Name, describe(id))
	}
}

// granted: no more nodes are worked on, or were left broken, than the ceiling
// allows. What counts is what stands on the nodes, not what the cache shows.
func (c *checks) granted(in *rolloutplan.Input, p *rolloutplan.Plan, g *rolloutplan.Grant) {
	nw := in.NodeWright
	ceiling := int(p.Status.Compartments[0].Ceiling)
	if nw.DeletionTimestamp == nil {
		ceiling = budgetOf(in)
	}
	slots, counting := 0, 0
	for i := range in.Nodes {
		holds, counts := c.counts(nw, &in.Nodes[i])
		slots, counting = slots+one(holds), counting+one(holds || counts)
	}
	n := &in.Nodes[slices.IndexFunc(in.Nodes, func(n rolloutplan.Node) bool { return n.UID == g.UID })]
	switch counted := n.Word == nodestate.StatusErroring || n.Cordoned; {
	case g.Renewal && (n.Batch == nil || !n.Batch.Holds(n.Slot)):
		c.w.fail("the slot of %s on %s is renewed, and there is none: %+v %+v", nw.Name, g.Node, n.Batch, n.Slot)
	case g.Renewal, exempt(nw, n):
	case slots > ceiling, !counted && counting > ceiling:
		c.w.fail("%s gets a slot of %s: %d slots, %d nodes count, the ceiling is %d", g.Node, nw.Name, slots, counting, ceiling)
	}
}

// counts tells whether a node has a slot that needs a share of the budget, and
// whether it does without one.
func (c *checks) counts(nw *v1alpha1.NodeWright, n *rolloutplan.Node) (holds, broken bool) {
	live := c.w.api.node(n.Name)
	if live == nil || string(live.UID) != n.UID || exempt(nw, n) {
		return false, false
	}
	rec := c.w.api.record(live)
	holds = slotInUse(rec, nw.Name)
	if nw.DeletionTimestamp != nil {
		// A node that everything was taken off is done with its slot.
		var stands rolloutplan.Node
		readRemains(nw, rec, &stands)
		holds = holds && (stands.Remains || n.Pending)
	}
	return holds, erroringAndTold(n, rec, nw.Name) || cordonedAndTold(nw, n, rec)
}

// exempt tells whether the node, as the cache shows it, needs no share of the
// budget.
func exempt(nw *v1alpha1.NodeWright, n *rolloutplan.Node) bool {
	return nw.Spec.RuntimeRequired && nw.DeletionTimestamp == nil && n.Gated != "" && n.Selected && !n.Ignored &&
		n.Word != nodestate.StatusComplete
}

// budgetOf is how many nodes of the input may be worked on at once.
func budgetOf(in *rolloutplan.Input) int {
	matched := 0
	for i := range in.Nodes {
		matched += one(in.Nodes[i].Selected && !in.Nodes[i].Ignored)
	}
	return budget(&in.NodeWright.Spec, matched)
}

// budget is how many of this many nodes may be worked on at once.
func budget(s *v1alpha1.NodeWrightSpec, nodes int) int {
	b := s.InterruptionBudget
	switch {
	case nodes == 0:
		return 0
	case b != nil && b.Count != nil:
		return int(*b.Count)
	case b != nil && *b.Percent == 0:
		return 0
	case b != nil:
		return max(1, nodes*int(*b.Percent)/100)
	}
	for _, p := range s.Packages {
		if p.Interrupt != nil || len(p.ConfigInterrupts) > 0 {
			return 1
		}
	}
	return nodes
}

// touches: a package that fails wherever it runs reaches no more nodes than the
// budget, whatever else happens.
func (c *checks) touches(id *packagejob.Identity) {
	nw := c.w.api.nodeWright(id.NodeWright)
	if !c.w.opts.Doomed || c.w.healed || id.NodeWright != doomed.NodeWright || nw == nil {
		return
	}
	touched := c.touched[nw.UID]
	if touched == nil {
		touched = map[types.UID]bool{}
		c.touched[nw.UID] = touched
	}
	touched[id.NodeUID] = true
	var there []string
	for _, node := range c.w.api.nodes() {
		if touched[node.UID] {
			there = append(there, node.Name)
		}
	}
	if len(there) > c.allowed[nw.UID] {
		c.w.fail("%s fails wherever it runs, and %s was worked on at %d nodes, the budget is %d: %v", doomed, nw.Name, len(there), c.allowed[nw.UID], there)
	}
}

// erroringAndTold: an attempt may end badly on a node that was out of the rollout
// for a while and gave its slot back. It counts once the cache shows it.
func erroringAndTold(n *rolloutplan.Node, rec *nodestate.Record, nw string) bool {
	if !n.Selected || n.Ignored {
		return false
	}
	told := n.Word == nodestate.StatusErroring || rec.Slots[nw].Reason == nodeplan.ReasonSlotErroring
	return told && rec.Status[nw] == nodestate.StatusErroring
}

// cordonedAndTold: a node that the NodeWright holds cordoned takes no workloads, and
// counts until it is complete.
func cordonedAndTold(nw *v1alpha1.NodeWright, n *rolloutplan.Node, rec *nodestate.Record) bool {
	_, cordoned := rec.Cordons[nw.Name]
	return cordoned && n.Cordoned && nw.DeletionTimestamp == nil && n.Selected && !n.Ignored && rec.Status[nw.Name] != nodestate.StatusComplete
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// planned: Ready is never said before all is complete.
func (c *checks) planned(nw *v1alpha1.NodeWright, in *rolloutplan.Input, p *rolloutplan.Plan) {
	c.allowed[nw.UID] = max(c.allowed[nw.UID], budgetOf(in))
	if !isTrue(p.Status.Conditions, v1alpha1.ConditionReady) {
		return
	}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		live := c.w.api.node(n.Name)
		if !n.Selected || n.Ignored || live == nil || string(live.UID) != n.UID {
			continue
		}
		rec := c.w.api.record(live)
		for name, pkg := range nw.Spec.Packages {
			e, ok := rec.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: name}]
			// A user may have asked for it to run again since the cache was as it is.
			if ok && e.Reason != nodeplan.ReasonRequested && (uninstalls(nw, &pkg) || !packageComplete(&pkg, &e)) {
				c.w.fail("%s is Ready, and node %s has %s", nw.Name, n.Name, describeEntry(&e))
			}
		}
	}
}

// letGo: a NodeWright goes only once nothing is on nodes that was to be taken off.
func (c *checks) letGo(nw *v1alpha1.NodeWright) {
	for _, node := range c.w.api.nodes() {
		if c.toUninstall(nw, c.w.api.record(node)) {
			c.w.fail("%s is let go, and node %s has %s", nw.Name, node.Name, entriesOf(c.w.api.record(node), nw.Name))
		}
	}
}

// told counts an event of the node controller as the write that it is.
func (c *checks) told(node string, e nodeplan.Event) {
	c.w.writes++
	c.actedOnce(e)
	c.w.log("  event on %s about %s: %s %s", node, e.NodeWright, e.Reason, e.Message)
}

func (c *checks) refOf(pod *corev1.Pod) (packagejob.Identity, nodestate.PackageRef) {
	id, err := c.w.api.identity(pod)
	if err != nil {
		panic(err)
	}
	return id, id.Ref()
}
