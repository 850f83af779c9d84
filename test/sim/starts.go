package sim

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/revision"
)

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
	if !slotInUse(rec, nw.Name) {
		c.w.fail("%s on %s starts without a slot", describeEntry(e), node.Name)
	}
	if e.Stage.Uninstalls() {
		c.startedUninstall(node, rec, nw, &pkg, e)
		return
	}
	if had && old.Run != e.Run && packageComplete(&pkg, old) {
		c.w.fail("%s on %s starts anew although it was complete: %s", describeEntry(e), node.Name, describeEntry(old))
	}
	if had {
		c.runsOnce(node, e, old)
	}
	c.dependencies(node, rec, nw, &pkg, e)
	if nw.Spec.Serial {
		c.serial(node, rec, nw, e)
	}
	c.turn(node, rec, nw, e)
}

// runsOnce: a new run of the same content for the same rollout begins no earlier
// than where the one before stood. What nobody knows about may run again.
func (c *checks) runsOnce(node *corev1.Node, e, old *nodestate.PackageStatus) {
	if old.Run == e.Run || old.Rollout != e.Rollout || old.UID != e.UID || old.SpecHash != e.SpecHash ||
		old.State == nodestate.StateUnknown || old.State == nodestate.StateSkipped || old.Stage.Uninstalls() {
		return
	}
	stages := nodestate.Stages()
	now, was := slices.Index(stages, e.Stage), slices.Index(stages, old.Stage)
	if now < was || now == was && old.State == nodestate.StateComplete {
		c.w.fail("%s on %s runs a stage again that was complete for the same rollout: %s", describeEntry(e), node.Name, describeEntry(old))
	}
}

// dependencies: all are complete at the versions asked for.
func (c *checks) dependencies(node *corev1.Node, rec *nodestate.Record, nw *v1alpha1.NodeWright, pkg *v1alpha1.Package, e *nodestate.PackageStatus) {
	for name, version := range pkg.DependsOn {
		dep, there := rec.Packages[nodestate.PackageRef{NodeWright: e.NodeWright, Package: name}]
		spec, inSpec := nw.Spec.Packages[name]
		if !there || !inSpec || !packageComplete(&spec, &dep) || !nodestate.SameVersion(dep.Version, version) {
			c.w.fail("%s on %s starts before its dependency %s %s: %s", describeEntry(e), node.Name, name, version, describeEntry(&dep))
		}
	}
}

// startedUninstall: only what is asked for is taken off, and only once nothing is
// on the node that depends on it and goes as well.
func (c *checks) startedUninstall(node *corev1.Node, rec *nodestate.Record, nw *v1alpha1.NodeWright, pkg *v1alpha1.Package, e *nodestate.PackageStatus) {
	if e.Stage == nodestate.StageUninstall && !uninstalls(nw, pkg) {
		c.w.fail("%s on %s starts, and nobody asked for it", describeEntry(e), node.Name)
	}
	for name, other := range nw.Spec.Packages {
		_, there := rec.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: name}]
		if _, depends := other.DependsOn[e.Name]; depends && there && name != e.Name && uninstalls(nw, &other) && e.Stage == nodestate.StageUninstall {
			c.w.fail("%s on %s starts before %s, which depends on it", describeEntry(e), node.Name, name)
		}
	}
}

// uninstalls tells whether the package is to be taken off.
func uninstalls(nw *v1alpha1.NodeWright, pkg *v1alpha1.Package) bool {
	return pkg.Uninstalls() || nw.DeletionTimestamp != nil && pkg.CanUninstall()
}

// erroringAlone tells whether a NodeWright has entries that are erroring and
// none that is at work: such a one holds its slot, for an image that cannot be
// pulled, but nobody else up.
func erroringAlone(rec *nodestate.Record, nodeWright string) bool {
	erroring := false
	for ref, e := range rec.Packages {
		if ref.NodeWright == nodeWright && e.State == nodestate.StateInProgress {
			return false
		}
		erroring = erroring || ref.NodeWright == nodeWright && e.State == nodestate.StateErroring
	}
	return erroring
}

// turn: a NodeWright begins on a node only when those before it are done there,
// and none is at work but for one that is erroring.
func (c *checks) turn(node *corev1.Node, rec *nodestate.Record, nw *v1alpha1.NodeWright, e *nodestate.PackageStatus) {
	seen := &c.basis.record
	if seen.Slots[nw.Name].State == nodestate.SlotWorking {
		return
	}
	for name, other := range c.basis.specs {
		if name == nw.Name || !c.gates(other, c.basis.node) {
			continue
		}
		_, granted := seen.Batches[name]
		if granted && seen.Slots[name].State == nodestate.SlotWorking && rec.Slots[name].State == nodestate.SlotWorking && !erroringAlone(seen, name) {
			c.w.fail("%s on %s starts while %s is at work there", describeEntry(e), node.Name, name)
		}
		if comesBefore(other, nw) && (other.Paused() || !c.nodeComplete(other, rec)) {
			c.w.fail("%s on %s starts before %s, whose turn it is", describeEntry(e), node.Name, name)
		}
	}
}

func comesBefore(a, b *v1alpha1.NodeWright) bool {
	return cmp.Or(cmp.Compare(a.Spec.PriorityOrDefault(), b.Spec.PriorityOrDefault()), cmp.Compare(a.Name, b.Name)) < 0
}

// gates tells whether the NodeWright holds those after it on the node, or may.
func (c *checks) gates(nw *v1alpha1.NodeWright, node *corev1.Node) bool {
	return c.w.selects(nw, node) && !nw.Disabled() && nw.DeletionTimestamp == nil && c.w.spec(nw).obstacle == ""
}

// slotInUse tells whether the node has a slot that it did not give back.
func slotInUse(rec *nodestate.Record, nw string) bool {
	batch, granted := rec.Batches[nw]
	slot, answered := rec.Slots[nw]
	return granted && (!answered || batch.Holds(&slot))
}

func (c *checks) serial(node *corev1.Node, rec *nodestate.Record, nw *v1alpha1.NodeWright, e *nodestate.PackageStatus) {
	for _, name := range nw.Spec.PackageNames() {
		ref := nodestate.PackageRef{NodeWright: nw.Name, Package: name}
		if name == e.Name {
			continue
		}
		other := rec.Packages[ref]
		if c.runs[place{node.UID, ref}] > 0 && other.State == nodestate.StateInProgress && c.jobRuns(node.Name, ref, e.Stage.Interrupts()) {
			c.w.fail("%s on %s starts beside %s", describeEntry(e), node.Name, describeEntry(&other))
		}
	}
}

// jobRuns tells whether a Job of the package is not over. One that sleeps does not
// hold up an interrupt, and goes on after it.
func (c *checks) jobRuns(node string, ref nodestate.PackageRef, interrupt bool) bool {
	return slices.ContainsFunc(c.w.api.jobsOn(node), func(job *batchv1.Job) bool {
		return c.executes(job, node, ref) && (!interrupt || !packagejob.Asleep(job))
	})
}

// matches tells whether the entry is of the package as the spec has it.
func matches(pkg *v1alpha1.Package, e *nodestate.PackageStatus) bool {
	return nodestate.SameVersion(pkg.Version, e.Version) && pkg.Image == e.Image && pkg.ContainerSHA == e.ContainerSHA &&
		revision.ConfigHash(pkg.ConfigMap) == e.ConfigHash
}

func packageComplete(pkg *v1alpha1.Package, e *nodestate.PackageStatus) bool {
	last := e.Stage == nodestate.StagePostInterrupt || e.Stage == nodestate.StageConfig && e.Interrupt == nil
	return e.State == nodestate.StateComplete && last && matches(pkg, e)
}
