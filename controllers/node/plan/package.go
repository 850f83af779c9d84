package plan

import (
	"fmt"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// step is what a package needs next.
type step struct {
	// stage to start; empty for nothing.
	stage nodestate.Stage
	// newRun says that the stage begins a run of its own.
	newRun bool
	reason string
	// again says that the stage goes on with another attempt of the same run.
	again bool
}

// next decides what the package needs, from its spec and its entry alone.
func (w *work) next(pkg *Package) step {
	e, ok := w.entry(pkg.Name)
	switch {
	case ok && interrupting(&e) && (e.UID == w.nw.UID || w.p.jobOf(&e) != nil):
		// A change of the spec waits for the end. For an earlier NodeWright of the name
		// no Job is created any more.
		return step{}
	case w.uninstalls(pkg):
		return w.nextUninstall(pkg, &e, ok)
	case w.nw.Deleting:
		return step{}
	case !ok:
		return restart(nodestate.StageApply, "the package is not on this node")
	case e.Stage.Uninstalls():
		return w.nextCancelled(&e)
	case w.rebooted(&e):
		return restart(nodestate.StageApply, "the node was rebooted")
	}
	if s, changed := nextChanged(pkg, &e); changed {
		return s
	}
	if e.State != nodestate.StateComplete {
		return w.nextUnfinished(pkg, &e)
	}
	if stage, more := w.nextStage(pkg, &e); more {
		return step{stage: stage, reason: "the stage before is complete"}
	}
	return step{}
}

// nextChanged decides for an entry whose version, image or configMap is not the
// spec's.
func nextChanged(pkg *Package, e *nodestate.PackageStatus) (s step, changed bool) {
	unfinished := e.State != nodestate.StateComplete
	switch changeOf(pkg, e) {
	case changeHigher:
		if unfinished && e.Stage == nodestate.StageApply {
			// Nothing on the host was ever complete that could be upgraded: the image may
			// not even have been there.
			return restart(nodestate.StageApply, fmt.Sprintf("version %s replaces %s, which was not applied", pkg.Version, e.Version)), true
		}
		return restart(nodestate.StageUpgrade, fmt.Sprintf("version %s follows %s", pkg.Version, e.Version)), true
	case changeLower:
		return restart(nodestate.StageApply, fmt.Sprintf("version %s replaces %s", pkg.Version, e.Version)), true
	case changeImage:
		if unfinished && e.Stage == nodestate.StageUpgrade {
			// As with an image that cannot be pulled: the version before is still what
			// is on the host.
			return restart(nodestate.StageUpgrade, "the image of the package changed"), true
		}
		return restart(nodestate.StageApply, "the image of the package changed"), true
	case changeConfig:
		stage := nodestate.StageConfig
		if unfinished && (e.Stage == nodestate.StageUpgrade || e.Stage == nodestate.StageApply) {
			stage = e.Stage
		}
		return restart(stage, "the configMap of the package changed"), true
	default:
		return step{}, false
	}
}

// nextStage is the stage after a complete one. A package that an earlier operator
// interrupted has nothing after that if the spec has no interrupt.
func (w *work) nextStage(pkg *Package, e *nodestate.PackageStatus) (next nodestate.Stage, more bool) {
	if e.Stage == nodestate.StageInterrupt && e.Interrupt == nil && pkg.Interrupt == nil {
		return "", false
	}
	return nextStage(e)
}

// nextUnfinished decides for an entry whose stage is not complete, and whose
// version, image and configMap are the spec's.
func (w *work) nextUnfinished(pkg *Package, e *nodestate.PackageStatus) step {
	switch {
	case e.State == nodestate.StateSkipped && e.UID == w.nw.UID:
		// It follows its carrier.
		return step{}
	case e.UID != w.nw.UID:
		return restart(restartStage(e), "the entry was written for an earlier NodeWright of this name")
	case e.State == nodestate.StateUnknown || e.State == nodestate.StateSkipped:
		return restart(restartStage(e), "nobody knows how far the stage came")
	case e.SpecHash != pkg.SpecHash:
		stage := e.Stage
		if stage == nodestate.StageInterrupt && !e.ConfigOnly && pkg.Interrupt == nil {
			// The interrupt that failed is not asked for any more.
			stage = nodestate.StageConfig
		}
		return restart(stage, "the package changed while the stage was not complete")
	case w.mayRetry(e):
		return step{stage: e.Stage, again: true, reason: "the retry limit allows another attempt"}
	default:
		return step{}
	}
}

// mayRetry tells whether an entry that was given up gets another attempt since
// the retry limit is higher now. For what is not a failed attempt the limit does
// not matter.
func (w *work) mayRetry(e *nodestate.PackageStatus) bool {
	return e.Reason != ReasonDrainTimeout && e.Reason != ReasonRebootTimeout && w.parked(e) && e.Failures <= w.nw.RetryLimit
}

func restart(stage nodestate.Stage, reason string) step {
	return step{stage: stage, newRun: true, reason: reason}
}

// start begins what the package needs, if nothing holds it.
func (w *work) start(pkg *Package) {
	ref := w.ref(pkg.Name)
	if w.p.malformed[ref] {
		return
	}
	s := w.next(pkg)
	if s.stage == "" {
		return
	}
	if w.asked[pkg.Name] {
		w.wants = true
		return
	}
	// What runs for an earlier spec ends before anything is waited for: what is
	// waited for may in turn wait for its end.
	if s.newRun && (w.hold.reason == "" || w.hold.reason == ReasonBlocked) && w.mustEnd(ref, s.reason) {
		w.active, w.advancing = true, true
		return
	}
	if w.waitsForOthers(pkg, s) {
		return
	}
	w.wants = true
	if w.hold.reason != "" {
		return
	}
	w.active = true
	if w.mustEnd(ref, s.reason) {
		w.advancing = true
		return
	}
	if s.stage.Interrupts() {
		// Once nothing else can advance, those that wait share one interrupt.
		w.atInterrupt = append(w.atInterrupt, due{pkg: pkg, step: s})
		return
	}
	w.advancing = true
	w.beginOnce(pkg, s)
}

// beginOnce begins the stage, once the node is fit for it.
func (w *work) beginOnce(pkg *Package, s step) {
	if w.p.interrupted(w.ref(pkg.Name)) {
		w.wait(nodestate.SlotInterruptWaits, "the node is being interrupted")
		return
	}
	if interrupt, _ := w.decide(pkg, s); interrupt != nil && s.stage != nodestate.StagePostInterrupt && !w.quiet() {
		w.awaitQuiet = append(w.awaitQuiet, due{pkg: pkg, step: s})
		return
	}
	w.begin(pkg, s)
}

// waitsForOthers tells whether the package cannot start yet for other packages of
// the NodeWright.
func (w *work) waitsForOthers(pkg *Package, s step) bool {
	if s.stage.Uninstalls() {
		if by := w.dependents(pkg); by != "" {
			w.wants, w.active = true, true
			w.wait(nodestate.SlotNoPath, "uninstall runs in reverse order: these packages are taken off first: "+by)
			return true
		}
	} else if missing := w.missingDependency(pkg); missing != "" {
		w.showMissing(pkg, missing)
		w.takeTurn(pkg.Name, missing, " to be complete")
		return true
	}
	if !w.nw.Serial || s.stage.Interrupts() {
		return false
	}
	if len(w.awaitQuiet) > 0 {
		// The node is being emptied for another one, whose turn it is.
		w.wants = true
		return true
	}
	other := w.otherActive(pkg.Name)
	if other == "" {
		return false
	}
	w.takeTurn(pkg.Name, other, ", since packages run one at a time")
	return true
}

// mustEnd ends what runs for a package that is to start anew, and tells whether
// that is to be waited for.
func (w *work) mustEnd(ref nodestate.PackageRef, why string) bool {
	reason := ReasonSpecChanged
	if _, recorded := w.entry(ref.Package); !recorded {
		reason = ReasonSuperseded
	}
	if !w.p.stopExecutors(ref, reason, why) {
		return false
	}
	w.waitFor(ref)
	return true
}

// waitFor notes that a stage waits for what this controller does not end.
func (w *work) waitFor(ref nodestate.PackageRef) {
	if w.p.outOfReach(ref) {
		w.wait(nodestate.SlotExecutorNotEnded, fmt.Sprintf("a Job or pod of package %s from a former node of this name, or a pod without its Job, "+
			"has not ended; the next stage starts when it has: see kubectl get pods in the operator's namespace", ref.Package))
	}
}

// showMissing says on an entry that has to start anew what it waits for.
func (w *work) showMissing(pkg *Package, missing string) {
	e, ok := w.entry(pkg.Name)
	if !ok || e.State != nodestate.StateInProgress || e.Reason != "" && e.Reason != ReasonNoPath {
		return
	}
	e.Reason = ReasonNoPath
	e.Message = "waits for these packages to be complete on the node: " + missing
	w.put(e)
}

// adopt takes over complete entries that were written for an earlier NodeWright
// of the same name, as after a restore from a backup: nothing runs again.
func (w *work) adopt() {
	for i := range w.nw.Packages {
		e, ok := w.entry(w.nw.Packages[i].Name)
		if ok && e.UID != w.nw.UID && e.State == nodestate.StateComplete {
			e.UID = w.nw.UID
			w.put(e)
		}
	}
}

// begin records the intent: the entry says what runs before its Job exists.
func (w *work) begin(pkg *Package, s step) {
	old, _ := w.entry(pkg.Name)
	e := old
	e.Name, e.NodeWright, e.UID = pkg.Name, w.nw.Name, w.nw.UID
	if s.newRun {
		e.Interrupt, e.ConfigOnly = w.decide(pkg, s)
		e.Run, e.Failures = w.p.in.NextSeq, 0
	}
	e.Stage, e.State, e.Attempt = s.stage, nodestate.StateInProgress, 1
	e.Reason, e.Message, e.Carrier = "", "", ""
	if s.again {
		e.Attempt = old.Attempt + 1
	}
	e.SpecHash, e.Rollout = pkg.SpecHash, w.nw.Revision
	w.fillContent(pkg, &e, &old, s)
	if e.Interrupt != nil {
		delete(w.p.out.Set.DrainStarts, w.nw.Name)
	}
	w.put(e)
}

// fillContent says what of the package the stage runs.
func (w *work) fillContent(pkg *Package, e, old *nodestate.PackageStatus, s step) {
	if s.stage.Uninstalls() {
		// What is on the host goes, be the spec ahead of it. Another image of the same
		// version may be there since the one before could not be pulled.
		if nodestate.SameVersion(pkg.Version, e.Version) {
			e.Image, e.ContainerSHA = pkg.Image, pkg.ContainerSHA
		}
		return
	}
	if s.newRun {
		if old.Version != "" && old.Version != pkg.Version && !old.Stage.Uninstalls() {
			e.Previous = remember(old)
		}
		e.Version = pkg.Version
	}
	// A stage that only goes on keeps the bytes of the version it began with: its
	// copy directory and flags are named by them.
	if e.Version == "" {
		e.Version = pkg.Version
	}
	e.Image, e.ContainerSHA, e.ConfigHash = pkg.Image, pkg.ContainerSHA, pkg.ConfigHash
}

// remember puts the version of the entry in front of the older ones.
func remember(old *nodestate.PackageStatus) []nodestate.PreviousVersion {
	previous := []nodestate.PreviousVersion{{
		Version: old.Version, Image: old.Image, ContainerSHA: old.ContainerSHA,
	}}
	for _, v := range old.Previous {
		if !nodestate.SameVersion(v.Version, old.Version) && len(previous) < nodestate.MaxPrevious {
			previous = append(previous, v)
		}
	}
	return previous
}

// otherActive names another package of the NodeWright that is at work; empty if
// none is. One that waits to start anew is not: two of them would wait for each
// other.
func (w *work) otherActive(pkg string) string {
	for i := range w.nw.Packages {
		other := &w.nw.Packages[i]
		if other.Name == pkg {
			continue
		}
		e, ok := w.entry(other.Name)
		if ok && w.unfinished(&e) && w.next(other).stage == "" || w.p.runs(w.ref(other.Name)) {
			return other.Name
		}
	}
	return ""
}

// unfinished tells whether an attempt of the entry runs, or may come without a
// change of the spec.
func (w *work) unfinished(e *nodestate.PackageStatus) bool {
	return e.State == nodestate.StateInProgress || e.State == nodestate.StateErroring && (!w.parked(e) || w.mayRetry(e))
}

// parked tells whether an entry is erroring for failed attempts: nothing runs,
// and the last failure is counted. It stays so until the retry limit or the spec
// changes. Erroring for a pod that cannot start is not parked: the attempt goes
// on.
func (w *work) parked(e *nodestate.PackageStatus) bool {
	switch {
	case e.State != nodestate.StateErroring:
		return false
	case e.Reason == ReasonDrainTimeout || e.Reason == ReasonRebootTimeout:
		return true
	}
	job := w.p.jobOf(e)
	switch {
	case job == nil:
		return true
	case job.Unreadable:
		return e.Failures > w.nw.RetryLimit
	case job.State != JobFailed:
		return false
	}
	report, ok := w.p.in.Record.JobReports[e.Ref()]
	if !ok || !report.Of(e) {
		return e.Failures > w.nw.RetryLimit
	}
	return report.Reason == e.Reason
}
