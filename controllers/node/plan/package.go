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
	if !ok {
		return restart(nodestate.StageApply, "the package is not on this node")
	}
	unfinished := e.State != nodestate.StateComplete
	switch changeOf(pkg, &e) {
	case changeHigher:
		return restart(nodestate.StageUpgrade, fmt.Sprintf("version %s follows %s", pkg.Version, e.Version))
	case changeLower:
		return restart(nodestate.StageApply, fmt.Sprintf("version %s replaces %s", pkg.Version, e.Version))
	case changeImage:
		if unfinished && e.Stage == nodestate.StageUpgrade {
			// As with an image that cannot be pulled: the version before is still what
			// is on the host.
			return restart(nodestate.StageUpgrade, "the image of the package changed")
		}
		return restart(nodestate.StageApply, "the image of the package changed")
	case changeConfig:
		if !unfinished {
			return restart(nodestate.StageConfig, "the configMap of the package changed")
		}
		return restart(restartStage(&e), "the configMap of the package changed")
	}
	if !unfinished {
		if stage, more := nextStage(e.Stage); more {
			return step{stage: stage, reason: "the stage before is complete"}
		}
		return step{}
	}
	return w.nextUnfinished(pkg, &e)
}

// nextUnfinished decides for an entry whose stage is not complete, and whose
// version, image and configMap are the spec's.
func (w *work) nextUnfinished(pkg *Package, e *nodestate.PackageStatus) step {
	switch {
	case e.UID != w.nw.UID:
		return restart(restartStage(e), "the entry was written for an earlier NodeWright of this name")
	case e.State == nodestate.StateUnknown || e.State == nodestate.StateSkipped || !runnable(e.Stage):
		return restart(restartStage(e), "nobody knows how far the stage came")
	case e.SpecHash != pkg.SpecHash:
		return restart(e.Stage, "the package changed while the stage was not complete")
	case w.parked(e) && e.Failures <= w.nw.RetryLimit:
		return step{stage: e.Stage, again: true, reason: "the retry limit allows another attempt"}
	default:
		return step{}
	}
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
	if s.newRun && w.hold.reason == "" && w.mustEnd(ref, s.reason) {
		w.active = true
		return
	}
	if missing := w.missingDependency(pkg); missing != "" {
		w.showMissing(pkg, missing)
		return
	}
	if w.nw.Serial && w.otherActive(pkg.Name) {
		return
	}
	w.wants = true
	if w.hold.reason != "" {
		return
	}
	w.active = true
	if w.mustEnd(ref, s.reason) {
		return
	}
	w.begin(pkg, s)
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
		w.waits = nodestate.SlotExecutorNotEnded
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
	old, had := w.entry(pkg.Name)
	e := old
	e.Name, e.NodeWright, e.UID = pkg.Name, w.nw.Name, w.nw.UID
	e.Stage, e.State, e.Attempt = s.stage, nodestate.StateInProgress, 1
	e.Reason, e.Message = "", ""
	if s.again {
		e.Attempt = old.Attempt + 1
	}
	if s.newRun {
		e.Run, e.Failures = w.p.in.NextSeq, 0
		if had && old.Version != pkg.Version {
			e.Previous = remember(&old)
		}
	}
	// A stage that only goes on keeps the bytes of the version it began with: its
	// copy directory and flags are named by them.
	if s.newRun || e.Version == "" {
		e.Version = pkg.Version
	}
	e.Image, e.ContainerSHA = pkg.Image, pkg.ContainerSHA
	e.ConfigHash, e.SpecHash = pkg.ConfigHash, pkg.SpecHash
	e.Rollout = w.nw.Revision
	w.put(e)
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

// otherActive tells whether another package of the NodeWright is at work. One
// that waits to start anew is not: two of them would wait for each other.
func (w *work) otherActive(pkg string) bool {
	for i := range w.nw.Packages {
		other := &w.nw.Packages[i]
		if other.Name == pkg {
			continue
		}
		e, ok := w.entry(other.Name)
		if ok && w.unfinished(&e) && w.next(other).stage == "" || w.p.runs(w.ref(other.Name)) {
			return true
		}
	}
	return false
}

// unfinished tells whether an attempt of the entry runs, or may come without a
// change of the spec.
func (w *work) unfinished(e *nodestate.PackageStatus) bool {
	return e.State == nodestate.StateInProgress ||
		e.State == nodestate.StateErroring && (!w.parked(e) || e.Failures <= w.nw.RetryLimit)
}

// parked tells whether an entry is erroring for failed attempts: nothing runs,
// and the last failure is counted. It stays so until the retry limit or the spec
// changes. Erroring for a pod that cannot start is not parked: the attempt goes
// on.
func (w *work) parked(e *nodestate.PackageStatus) bool {
	if e.State != nodestate.StateErroring {
		return false
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
