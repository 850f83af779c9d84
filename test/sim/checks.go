package sim

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
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
	// reboots by attempts.
	reboots map[stageKey]int
	// answered requests.
	answered map[string]bool
	// known are nodes that the node controller recorded, lifted those that lost a
	// runtime-required taint since.
	known, lifted map[types.UID]bool
	// touched are the nodes that a NodeWright worked on, allowed is its highest budget
	// so far, by UID of the NodeWright.
	touched map[types.UID]map[types.UID]bool
	allowed map[types.UID]int
}

func newChecks(w *world) *checks {
	return &checks{
		w: w, succeeded: map[stageKey]bool{}, complete: map[stageKey]bool{}, runs: map[place]int64{}, answered: map[string]bool{},
		reboots: map[stageKey]int{}, known: map[types.UID]bool{}, lifted: map[types.UID]bool{},
		touched: map[types.UID]map[types.UID]bool{}, allowed: map[types.UID]int{},
	}
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
	c.cordonWritten(before, after)
	if _, numbered := is.Seq[nodestate.OwnerNode]; !numbered {
		c.givenUp(after)
		c.forget(after.UID)
	} else {
		c.known[after.UID] = true
	}
	answered := c.requestsAnswered(after, was, is)
	for _, ref := range refs(is.Packages) {
		e := is.Packages[ref]
		old, had := was.Packages[ref]
		if had && samePosition(&old, &e) {
			continue
		}
		if c.w.opts.Trace {
			c.w.log("  %s: %s", after.Name, describeEntry(&e))
		}
		if stood, ok := c.basis.record.Packages[ref]; !had && ok && stood.Run == e.Run {
			// A user made it unreadable since the pass read it.
			old, had = stood, true
		}
		if answered[ref.NodeWright] && e.State == nodestate.StateUnknown {
			continue // a user asked for it to start anew
		}
		c.entryWritten(after, is, &e, &old, had)
		if had {
			c.shares(after, was, is, &e, &old)
		}
	}
	c.stays(after, was, is, answered)
	for nw, word := range is.Status {
		if word != was.Status[nw] {
			c.w.log("  %s: status of %s is %q now", after.Name, nw, word)
		}
	}
}

func samePosition(a, b *nodestate.PackageStatus) bool {
	return a.Run == b.Run && a.Stage == b.Stage && a.State == b.State && a.Attempt == b.Attempt && a.Failures == b.Failures
}

// forget is for a node that the owner gave up: numbers begin anew.
func (c *checks) forget(node types.UID) {
	delete(c.known, node)
	delete(c.lifted, node)
	maps.DeleteFunc(c.runs, func(at place, _ int64) bool { return at.node == node })
	maps.DeleteFunc(c.complete, func(key stageKey, _ bool) bool { return key.node == node })
}

// stays: entries go with their NodeWright, or because a user asked for it.
func (c *checks) stays(node *corev1.Node, was, is *nodestate.Record, answered map[string]bool) {
	for ref := range was.Packages {
		if _, stays := is.Packages[ref]; stays || answered[ref.NodeWright] {
			continue
		}
		if e := was.Packages[ref]; e.Stage.Uninstalls() && (c.interruptOver(node, &e) || e.State == nodestate.StateComplete) {
			continue
		}
		if nw := c.basis.specs[ref.NodeWright]; nw != nil && nw.DeletionTimestamp == nil {
			c.w.fail("entry %v vanished from node %s", ref, node.Name)
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
		c.completed(node, key, e, old, sameRun)
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

// completed: an attempt of the stage succeeded, or the interrupt is over.
func (c *checks) completed(node *corev1.Node, key stageKey, e, old *nodestate.PackageStatus, sameRun bool) {
	if !c.succeeded[key] && (!sameRun || !e.Stage.Interrupts() || !c.interruptOver(node, old)) {
		c.w.fail("%s on %s is recorded complete, and no attempt of it succeeded", describeEntry(e), node.Name)
	}
	c.complete[key] = true
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
	// Who shared an interrupt that came to nothing waits again.
	back := now < was && old.State != nodestate.StateSkipped
	if now == was {
		back = e.Attempt < old.Attempt || old.State == nodestate.StateComplete && e.State != nodestate.StateComplete
	}
	if back || e.Failures < old.Failures {
		c.w.fail("the record of %s went back: %s, before %s", node.Name, describeEntry(e), describeEntry(old))
	}
	if now > was && old.State != nodestate.StateComplete && (!old.Stage.Interrupts() || !c.interruptOver(node, old)) && !c.succeeded[stageKey{node.UID, e.Ref(), e.Run, old.Stage}] {
		c.w.fail("%s on %s follows a stage that did not succeed", describeEntry(e), node.Name)
	}
}
