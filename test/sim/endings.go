package sim

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
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
	for _, node := range c.w.api.nodes() {
		c.gate(node)
	}
	for _, nw := range c.w.api.nodeWrights() {
		for _, node := range c.w.api.nodes() {
			rec := c.w.api.record(node)
			c.bearable(nw, node, rec)
			if problem := c.unexplained(nw, node, rec); problem != "" {
				c.w.fail("at rest, %s on %s: %s (status %q, slot %+v, batch %+v)", nw.Name, node.Name, problem,
					rec.Status[nw.Name], rec.Slots[nw.Name], rec.Batches[nw.Name])
			}
		}
	}
}

func (c *checks) unexplained(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record) string {
	running := c.runsOn(node.Name, nw.Name)
	taking := c.w.selects(nw, node) && !v1alpha1.NodeIgnored(node.Labels) && nw.DeletionTimestamp == nil
	going := nw.DeletionTimestamp != nil && c.toUninstall(nw, rec)
	switch {
	case running && (unreachable(node) || len(rec.Malformed) > 0 || hasTaint(node, maintenance)):
		return ""
	case running:
		if problem := c.unexplainedRun(nw, node, rec, taking || going); problem != "" {
			return problem
		}
	}
	switch {
	case nw.DeletionTimestamp != nil:
		return c.unexplainedRest(nw, node, rec)
	case !taking:
		if slotInUse(rec, nw.Name) && !running {
			return "the node is out of the rollout and keeps its slot"
		}
		return ""
	}
	return c.unexplainedWord(nw, node, rec)
}

// unexplainedRest is about what is left of a NodeWright that is being deleted.
func (c *checks) unexplainedRest(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record) string {
	_, cordoned := rec.Cordons[nw.Name]
	switch {
	case !hasRef(rec.Packages, nw.Name) && !cordoned, len(rec.Malformed) > 0:
		return ""
	case !c.toUninstall(nw, rec):
		return "it is deleted, and entries or a cordon are left"
	case nw.Paused(), nw.Disabled(), unreachable(node), v1alpha1.NodeIgnored(node.Labels), intolerable(nw, node), c.othersFirst(nw, node, rec),
		c.erroring(nw, rec), c.waitsForBudget(nw, node, rec), c.waitsForPods(node, rec, nw.Name), c.waitsForOthers(node, rec, nw.Name):
		return ""
	default:
		return "it is deleted, and is not taken off"
	}
}

// toUninstall tells whether the node has a package of the NodeWright that can be
// taken off.
func (c *checks) toUninstall(nw *v1alpha1.NodeWright, rec *nodestate.Record) bool {
	for name, pkg := range nw.Spec.Packages {
		if _, there := rec.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: name}]; there && uninstalls(nw, &pkg) {
			return true
		}
	}
	return false
}

// unexplainedRun is about what has not ended.
func (c *checks) unexplainedRun(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record, taking bool) string {
	asleep := c.asleep(node.Name, nw.Name)
	switch {
	case asleep && !taking:
		return "a Job is suspended, and nothing would let it go on"
	case asleep, !taking:
		return ""
	case !c.erroring(nw, rec):
		return "something runs, and does not end"
	default:
		return ""
	}
}

func (c *checks) unexplainedWord(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record) string {
	stopped := isStopped(nw)
	hindered := c.hinders(nw, node)
	blocked := hindered || c.othersFirst(nw, node, rec)
	waits := c.waitsForPods(node, rec, nw.Name) || c.waitsForOthers(node, rec, nw.Name)
	free := !stopped && !waits && !blocked && c.keepsSlot(nw, node, rec)
	held := hindered || blocked && c.asleep(node.Name, nw.Name)
	for _, rule := range []struct {
		words   []nodestate.StatusWord
		broken  bool
		problem string
	}{
		{words(nodestate.StatusComplete), !c.nodeComplete(nw, rec), "complete is said of packages that are not"},
		{words(nodestate.StatusErroring), !c.erroring(nw, rec), "erroring is said, and no package is"},
		{words(nodestate.StatusComplete, nodestate.StatusErroring), free, "it is done, and keeps its slot"},
		{words(nodestate.StatusPaused, nodestate.StatusDisabled), !stopped, "nobody paused or disabled it"},
		{words(nodestate.StatusUnknown), len(rec.Malformed) == 0, "everything can be read"},
		{words(nodestate.StatusBlocked), !blocked && !c.dependencyMissing(nw, rec), "nothing blocks it"},
		{words(nodestate.StatusInProgress), !held && !waits, "in progress, and nothing happens"},
		{words(nodestate.StatusWaiting, ""), !hindered && !stopped && !c.waitsForBudget(nw, node, rec), "it waits for nothing"},
	} {
		if rule.broken && slices.Contains(rule.words, rec.Status[nw.Name]) {
			return rule.problem
		}
	}
	return ""
}

func isStopped(nw *v1alpha1.NodeWright) bool { return nw.Paused() || nw.Disabled() }

// hinders tells whether nothing can start on the node for now.
func (c *checks) hinders(nw *v1alpha1.NodeWright, node *corev1.Node) bool {
	return c.w.spec(nw).obstacle != "" || unreachable(node) || intolerable(nw, node)
}

// keepsSlot tells whether the node has a slot, and nothing of the NodeWright runs
// there.
func (c *checks) keepsSlot(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record) bool {
	return slotInUse(rec, nw.Name) && !c.runsOn(node.Name, nw.Name)
}

func words(w ...nodestate.StatusWord) []nodestate.StatusWord { return w }

// asleep tells whether all that has not ended of the NodeWright are Jobs that are
// suspended.
func (c *checks) asleep(node, nw string) bool {
	return !slices.ContainsFunc(c.w.api.jobsOn(node), func(job *batchv1.Job) bool {
		id, err := c.w.api.identity(job)
		return err == nil && id.NodeWright == nw && !packagejob.Suspended(job) && c.executes(job, node, id.Ref())
	}) && !c.podRunsOn(node, nw)
}

// waitsForPods: the record names what keeps the node from being empty, and that is
// so.
func (c *checks) waitsForPods(node *corev1.Node, rec *nodestate.Record, nw string) bool {
	s := rec.Slots[nw]
	return s.Reason == nodestate.SlotDrainBlocked && s.Message != "" &&
		slices.ContainsFunc(c.w.workloads[node.UID], func(l workload) bool { return l.guarded })
}

// waitsForOthers: the record names another NodeWright whose Job or interrupt has
// not ended, or an entry that cannot be read, and that is so.
func (c *checks) waitsForOthers(node *corev1.Node, rec *nodestate.Record, nw string) bool {
	s := rec.Slots[nw]
	if s.Reason != nodestate.SlotInterruptWaits || s.Message == "" {
		return false
	}
	if slices.ContainsFunc(rec.Malformed, func(m nodestate.Malformed) bool {
		return m.Kind == nodestate.KindNodeState && strings.Contains(s.Message, m.Key)
	}) {
		return true
	}
	for _, other := range c.w.api.nodeWrights() {
		if other.Name != nw && c.runsOn(node.Name, other.Name) {
			return true
		}
	}
	for ref, e := range rec.Packages {
		if ref.NodeWright != nw && e.Stage.Interrupts() && e.State == nodestate.StateInProgress {
			return true
		}
	}
	return false
}

func (c *checks) podRunsOn(node, nw string) bool {
	return slices.ContainsFunc(c.w.api.podsOn(node), func(pod *corev1.Pod) bool {
		_, ref := c.refOf(pod)
		return !podEnded(pod) && ref.NodeWright == nw
	})
}

// runsOn tells whether a Job or pod of the NodeWright has not ended.
func (c *checks) runsOn(node, nw string) bool {
	return slices.ContainsFunc(c.w.api.jobsOn(node), func(job *batchv1.Job) bool {
		id, err := c.w.api.identity(job)
		return err == nil && id.NodeWright == nw && c.executes(job, node, id.Ref())
	}) || c.podRunsOn(node, nw)
}

func (c *checks) nodeComplete(nw *v1alpha1.NodeWright, rec *nodestate.Record) bool {
	for name, pkg := range nw.Spec.Packages {
		e, ok := rec.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: name}]
		if uninstalls(nw, &pkg) {
			if ok {
				return false
			}
			continue
		}
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
		going := other.DeletionTimestamp != nil && !other.Disabled() && c.toUninstall(other, rec)
		if other.Name == nw.Name || !c.gates(other, node) && !going {
			continue
		}
		everywhere := other.Spec.SequencingOrDefault() != v1alpha1.SequencingAll || everywhere(other)
		if other.Paused() || !everywhere || rec.Status[other.Name] != nodestate.StatusComplete {
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

// waitsForBudget tells whether the node needs a share of the budget, and there is
// none left.
func (c *checks) waitsForBudget(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record) bool {
	return !slotInUse(rec, nw.Name) && !c.free(nw, node, rec.Status[nw.Name]) && c.usedUp(nw)
}

// usedUp tells whether the ceiling is taken up.
func (c *checks) usedUp(nw *v1alpha1.NodeWright) bool {
	matched, counting := 0, 0
	for _, node := range c.w.api.nodes() {
		rec := c.w.api.record(node)
		active := c.w.selects(nw, node) && !v1alpha1.NodeIgnored(node.Labels)
		holds := slotInUse(rec, nw.Name)
		if nw.DeletionTimestamp != nil {
			active = c.toUninstall(nw, rec) && !v1alpha1.NodeIgnored(node.Labels)
			// A node whose record cannot be read keeps its slot: what is there is not known.
			holds = holds && (active || len(rec.Malformed) > 0)
		}
		_, cordoned := rec.Cordons[nw.Name]
		matched += one(active)
		counting += one(!c.free(nw, node, rec.Status[nw.Name]) && (holds || active && (cordoned || rec.Status[nw.Name] == nodestate.StatusErroring)))
	}
	return counting >= budget(&nw.Spec, matched)
}

// allComplete: after everything was repaired, every node is done.
func (c *checks) allComplete() {
	for _, node := range c.w.api.nodes() {
		c.gate(node)
	}
	for _, nw := range c.w.api.nodeWrights() {
		if nw.DeletionTimestamp != nil {
			c.w.fail("%s is deleted and does not go", nw.Name)
		}
		for _, node := range c.w.api.nodes() {
			if c.w.selects(nw, node) {
				c.nodeDone(nw, node)
			}
		}
		if !isTrue(nw.Status.Conditions, v1alpha1.ConditionReady) || nw.Status.ObservedGeneration != nw.Generation {
			c.w.fail("after the repair, %s is not Ready: %+v", nw.Name, nw.Status)
		}
	}
}

func (c *checks) nodeDone(nw *v1alpha1.NodeWright, node *corev1.Node) {
	rec := c.w.api.record(node)
	if rec.Status[nw.Name] != nodestate.StatusComplete || !c.nodeComplete(nw, rec) || slotInUse(rec, nw.Name) {
		c.w.fail("after the repair, %s is not done with %s: status %q, slot %+v, batch %+v, entries %s", nw.Name, node.Name,
			rec.Status[nw.Name], rec.Slots[nw.Name], rec.Batches[nw.Name], entriesOf(rec, nw.Name))
	}
	c.nothingAsked(nw, node, rec)
	if node.Spec.Unschedulable != (node.Annotations[humanCordon] != "") {
		c.w.fail("after the repair, node %s is cordoned: %t, by hand: %q", node.Name, node.Spec.Unschedulable, node.Annotations[humanCordon])
	}
	if c.runsOn(node.Name, nw.Name) {
		c.w.fail("after the repair, something of %s still runs on %s", nw.Name, node.Name)
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
		c.gate(node)
		for _, m := range []map[string]string{node.Annotations, node.Labels} {
			for key, value := range m {
				if _, owned := nodestate.OwnerOf(key); owned {
					left = append(left, fmt.Sprintf("%s=%s on %s", key, value, node.Name))
				}
			}
		}
	}
	if slices.Sort(left); len(left) > 0 {
		c.w.fail("after the deletion of everything there is left: %s", strings.Join(left, ", "))
	}
}

// writeBudget: for each node and NodeWright with L stages, 3L + 6.
func (c *checks) writeBudget() {
	budget := 0
	for _, nw := range c.w.api.nodeWrights() {
		for _, node := range c.w.api.nodes() {
			if c.w.selects(nw, node) {
				budget += 6
				if nw.Spec.RuntimeRequired {
					// The record of a new node, the taint, and an event about it, both ways.
					budget += 5
				}
				for _, pkg := range nw.Spec.Packages {
					budget += 3 * 2
					if pkg.Interrupt != nil {
						// Two more stages, cordon, drain and its end, and what it waits for.
						budget += 3*2 + 8
					}
				}
			}
		}
	}
	if c.w.writes > budget {
		c.w.fail("%d writes, the budget is %d", c.w.writes, budget)
	}
}
