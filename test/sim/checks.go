package sim

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/apis/support"
	nodeplan "github.com/nodewright/nodewright/controllers/node/plan"
	rolloutplan "github.com/nodewright/nodewright/controllers/rollout/plan"
)

// stageKey names a stage of one run of one package on one node.
type stageKey struct {
	node  types.UID
	ref   nodestate.PackageRef
	run   int64
	stage nodestate.Stage
}

// place is one package on one node.
type place struct {
	node types.UID
	ref  nodestate.PackageRef
}

// checks remember what happened, and look at each thing that happens.
type checks struct {
	w *world
	// succeeded stages, as the host knows; complete ones, as the record says.
	succeeded, complete map[stageKey]bool
	// basis of the write that is looked at.
	basis basis
	// runs are the highest so far.
	runs map[place]int64
}

func newChecks(w *world) *checks {
	return &checks{w: w, succeeded: map[stageKey]bool{}, complete: map[stageKey]bool{}, runs: map[place]int64{}}
}

func keyOf(id *packagejob.Identity) stageKey {
	return stageKey{id.NodeUID, id.Ref(), id.Run, id.Stage}
}

// nodeWritten looks at what an apply changed.
func (c *checks) nodeWritten(before, after *corev1.Node, owner nodestate.Owner) {
	if owner != nodestate.OwnerNode {
		return
	}
	was, is := c.w.api.record(before), c.w.api.record(after)
	if _, numbered := is.Seq[nodestate.OwnerNode]; !numbered {
		// The node was given up: numbers begin anew.
		for at := range c.runs {
			if at.node == after.UID {
				delete(c.runs, at)
			}
		}
		for at := range c.complete {
			if at.node == after.UID {
				delete(c.complete, at)
			}
		}
	}
	for _, ref := range refs(is.Packages) {
		e := is.Packages[ref]
		old, had := was.Packages[ref]
		if had && old.Run == e.Run && old.Stage == e.Stage && old.State == e.State && old.Attempt == e.Attempt && old.Failures == e.Failures {
			continue
		}
		c.w.log("  %s: %s", after.Name, describeEntry(&e))
		if stood, ok := c.basis.record.Packages[ref]; !had && ok && stood.Run == e.Run {
			// A user made it unreadable since the pass read it.
			old, had = stood, true
		}
		c.entryWritten(after, is, &e, &old, had)
	}
	for ref := range was.Packages {
		if _, stays := is.Packages[ref]; !stays {
			if nw := c.basis.specs[ref.NodeWright]; nw != nil && nw.DeletionTimestamp == nil {
				c.w.fail("entry %v vanished from node %s", ref, after.Name)
			}
		}
	}
	for nw, word := range is.Status {
		if word != was.Status[nw] {
			c.w.log("  %s: status of %s is %q now", after.Name, nw, word)
		}
	}
}

func refs[V any](m map[nodestate.PackageRef]V) []nodestate.PackageRef {
	out := make([]nodestate.PackageRef, 0, len(m))
	for ref := range m {
		out = append(out, ref)
	}
	slices.SortFunc(out, nodestate.PackageRef.Compare)
	return out
}

func describeEntry(e *nodestate.PackageStatus) string {
	return fmt.Sprintf("%s/%s %s %s/%s run %d attempt %d failures %d %s", e.NodeWright, e.Name, e.Version, e.Stage, e.State,
		e.Run, e.Attempt, e.Failures, e.Reason)
}

func (c *checks) entryWritten(node *corev1.Node, rec *nodestate.Record, e, old *nodestate.PackageStatus, had bool) {
	at := place{node.UID, e.Ref()}
	key := stageKey{node.UID, e.Ref(), e.Run, e.Stage}
	if e.Run < c.runs[at] {
		c.w.fail("run of %v on %s went back from %d to %d", at.ref, node.Name, c.runs[at], e.Run)
	}
	c.runs[at] = e.Run
	sameRun := had && old.Run == e.Run
	if sameRun {
		c.position(node, e, old)
	}
	if e.State == nodestate.StateComplete && !c.complete[key] {
		if !c.succeeded[key] {
			c.w.fail("%s on %s is recorded complete, and no attempt of it succeeded", describeEntry(e), node.Name)
		}
		c.complete[key] = true
	}
	if e.State != nodestate.StateInProgress {
		return
	}
	started := !sameRun || old.Stage != e.Stage
	if started {
		c.started(node, rec, e, old, had)
	}
	if sameRun && e.Failures > old.Failures && c.evidence(e, old.Attempt) == nil {
		c.w.fail("%s on %s counts a failure without evidence", describeEntry(e), node.Name)
	}
}

// evidence is the report that the running pass of the node controller had.
func (c *checks) evidence(e *nodestate.PackageStatus, attempt int32) *nodestate.JobReport {
	named := *e
	named.Attempt = attempt
	if r, ok := c.basis.record.JobReports[e.Ref()]; ok && r.Of(&named) {
		return &r
	}
	return nil
}

// position: within a run, the record never goes back.
func (c *checks) position(node *corev1.Node, e, old *nodestate.PackageStatus) {
	stages := nodestate.Stages()
	now, was := slices.Index(stages, e.Stage), slices.Index(stages, old.Stage)
	back := now < was
	if now == was {
		back = e.Attempt < old.Attempt || old.State == nodestate.StateComplete && e.State != nodestate.StateComplete
	}
	if back || e.Failures < old.Failures {
		c.w.fail("the record of %s went back: %s, before %s", node.Name, describeEntry(e), describeEntry(old))
	}
	if now > was && old.State != nodestate.StateComplete && !c.succeeded[stageKey{node.UID, e.Ref(), e.Run, old.Stage}] {
		c.w.fail("%s on %s follows a stage that did not succeed", describeEntry(e), node.Name)
	}
}

// started looks at the start of a stage: dependencies, serial, slot, and that a
// complete package starts anew for a change only.
func (c *checks) started(node *corev1.Node, rec *nodestate.Record, e, old *nodestate.PackageStatus, had bool) {
	nw := c.basis.specs[e.NodeWright]
	if nw == nil {
		c.w.fail("%s on %s starts without a NodeWright", describeEntry(e), node.Name)
		return
	}
	pkg, ok := nw.Spec.Packages[e.Name]
	if !ok {
		c.w.fail("%s on %s starts, and is not in the spec", describeEntry(e), node.Name)
	}
	if had && old.Run != e.Run && old.State == nodestate.StateComplete && matches(&pkg, old) {
		c.w.fail("%s on %s starts anew although it was complete: %s", describeEntry(e), node.Name, describeEntry(old))
	}
	for name, version := range pkg.DependsOn {
		dep, there := rec.Packages[nodestate.PackageRef{NodeWright: e.NodeWright, Package: name}]
		spec, inSpec := nw.Spec.Packages[name]
		if !there || !inSpec || !packageComplete(&spec, &dep) || !nodestate.SameVersion(dep.Version, version) {
			c.w.fail("%s on %s starts before its dependency %s %s: %s", describeEntry(e), node.Name, name, version, describeEntry(&dep))
		}
	}
	if nw.Spec.Serial {
		c.serial(node, rec, nw, e)
	}
	batch, granted := rec.Batches[nw.Name]
	slot := rec.Slots[nw.Name]
	if !granted || !batch.Holds(&slot) {
		c.w.fail("%s on %s starts without a slot", describeEntry(e), node.Name)
	}
	c.turn(node, rec, nw, e)
}

// turn: a NodeWright begins on a node only when those before it are done there,
// and none is at work.
func (c *checks) turn(node *corev1.Node, rec *nodestate.Record, nw *v1alpha1.NodeWright, e *nodestate.PackageStatus) {
	seen := &c.basis.record
	if seen.Slots[nw.Name].State == nodestate.SlotWorking {
		return
	}
	for name, other := range c.basis.specs {
		if name == nw.Name || other.Disabled() || other.DeletionTimestamp != nil || support.Held(other) != "" || !selects(other, node) {
			continue
		}
		_, granted := seen.Batches[name]
		if granted && seen.Slots[name].State == nodestate.SlotWorking && rec.Slots[name].State == nodestate.SlotWorking {
			c.w.fail("%s on %s starts while %s is at work there", describeEntry(e), node.Name, name)
		}
		before := other.Spec.PriorityOrDefault() < nw.Spec.PriorityOrDefault() ||
			other.Spec.PriorityOrDefault() == nw.Spec.PriorityOrDefault() && name < nw.Name
		if before && (other.Paused() || !c.nodeComplete(other, rec)) {
			c.w.fail("%s on %s starts before %s, whose turn it is", describeEntry(e), node.Name, name)
		}
	}
}

func (c *checks) serial(node *corev1.Node, rec *nodestate.Record, nw *v1alpha1.NodeWright, e *nodestate.PackageStatus) {
	for _, name := range nw.Spec.PackageNames() {
		ref := nodestate.PackageRef{NodeWright: nw.Name, Package: name}
		if name == e.Name {
			continue
		}
		other := rec.Packages[ref]
		if c.runs[place{node.UID, ref}] > 0 && other.State == nodestate.StateInProgress && c.jobRuns(node.Name, ref) {
			c.w.fail("%s on %s starts beside %s", describeEntry(e), node.Name, describeEntry(&other))
		}
	}
}

func (c *checks) jobRuns(node string, ref nodestate.PackageRef) bool {
	for _, job := range c.w.api.jobs() {
		id, err := c.w.api.identity(job)
		if _, finished := packagejob.Finished(job); err == nil && !finished && id.Node == node && id.Ref() == ref {
			return true
		}
	}
	return false
}

// matches tells whether the entry is of the package as the spec has it.
func matches(pkg *v1alpha1.Package, e *nodestate.PackageStatus) bool {
	return nodestate.SameVersion(pkg.Version, e.Version) && pkg.Image == e.Image && pkg.ContainerSHA == e.ContainerSHA &&
		revision.ConfigHash(pkg.ConfigMap) == e.ConfigHash
}

func packageComplete(pkg *v1alpha1.Package, e *nodestate.PackageStatus) bool {
	return e.State == nodestate.StateComplete && e.Stage == nodestate.StageConfig && matches(pkg, e)
}

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
	for _, other := range c.w.api.jobs() {
		o, err := c.w.api.identity(other)
		if _, finished := packagejob.Finished(other); err != nil || finished || other.Name == job.Name {
			continue
		}
		if o.Node == id.Node && o.Ref() == id.Ref() {
			c.w.fail("Job %s is created while %s is unfinished", describe(&id), describe(&o))
		}
	}
	c.alone(job.Name, id.Node, id.Ref(), "")
	batch, granted := rec.Batches[id.NodeWright]
	slot := rec.Slots[id.NodeWright]
	if !granted || !batch.Holds(&slot) {
		c.w.fail("Job %s is created without a slot", describe(&id))
	}
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
	for _, pod := range c.w.api.pods() {
		if pod.Name == but || podEnded(pod) || pod.Spec.NodeName != node {
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
	if c.complete[keyOf(&id)] {
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

// granted: no more nodes are worked on, or were left broken, than the ceiling
// allows. What counts is what stands on the nodes, not what the cache shows.
func (c *checks) granted(in *rolloutplan.Input, p *rolloutplan.Plan, g *rolloutplan.Grant) {
	if g.Renewal {
		return
	}
	ceiling := int(p.Status.Compartments[0].Ceiling)
	slots, counting, counted := 0, 0, false
	for i := range in.Nodes {
		n := &in.Nodes[i]
		live := c.w.api.node(n.Name)
		if live == nil || string(live.UID) != n.UID {
			continue
		}
		rec := c.w.api.record(live)
		holds := false
		if b, ok := rec.Batches[in.NodeWright.Name]; ok {
			s, answered := rec.Slots[in.NodeWright.Name]
			holds = !answered || b.Holds(&s)
		}
		erroring := n.Selected && !n.Ignored && rec.Status[in.NodeWright.Name] == nodestate.StatusErroring
		if holds {
			slots++
		}
		if holds || erroring {
			counting++
		}
		if n.Name == g.Node {
			counted = n.Word == nodestate.StatusErroring
		}
	}
	if slots > ceiling || !counted && counting > ceiling {
		c.w.fail("%s gets a slot of %s: %d slots, %d nodes count, the ceiling is %d", g.Node, in.NodeWright.Name, slots, counting, ceiling)
	}
}

// planned: Ready is never said before all is complete.
func (c *checks) planned(nw *v1alpha1.NodeWright, in *rolloutplan.Input, p *rolloutplan.Plan) {
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
			if ok && !packageComplete(&pkg, &e) {
				c.w.fail("%s is Ready, and node %s has %s", nw.Name, n.Name, describeEntry(&e))
			}
		}
	}
}

// told counts an event of the node controller as the write that it is.
func (c *checks) told(node string, e nodeplan.Event) {
	c.w.writes++
	c.w.log("  event on %s about %s: %s %s", node, e.NodeWright, e.Reason, e.Message)
}

func (c *checks) refOf(pod *corev1.Pod) (packagejob.Identity, nodestate.PackageRef) {
	id, err := c.w.api.identity(pod)
	if err != nil {
		panic(err)
	}
	return id, id.Ref()
}
