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
}

// next decides what the package needs, from its spec and its entry alone.
func (w *work) next(pkg *Package) step {
	e, ok := w.entry(pkg.Name)
	if !ok {
		return step{stage: nodestate.StageApply, newRun: true, reason: "the package is not on this node"}
	}
	unfinished := e.State != nodestate.StateComplete
	switch changeOf(pkg, &e) {
	case changeHigher:
		return step{nodestate.StageUpgrade, true, fmt.Sprintf("version %s follows %s", pkg.Version, e.Version)}
	case changeLower:
		return step{nodestate.StageApply, true, fmt.Sprintf("version %s replaces %s", pkg.Version, e.Version)}
	case changeImage:
		return step{nodestate.StageApply, true, "the image of the package changed"}
	case changeConfig:
		if !unfinished {
			return step{nodestate.StageConfig, true, "the configMap of the package changed"}
		}
		return step{restartStage(&e), true, "the configMap of the package changed"}
	}
	if !unfinished {
		if stage, more := nextStage(e.Stage); more {
			return step{stage: stage, reason: "the stage before is complete"}
		}
		return step{}
	}
	switch {
	case e.UID != w.nw.UID:
		return step{restartStage(&e), true, "the entry was written for an earlier NodeWright of this name"}
	case e.State == nodestate.StateUnknown || e.State == nodestate.StateSkipped || !runnable(e.Stage):
		return step{restartStage(&e), true, "nobody knows how far the stage came"}
	case e.SpecHash != pkg.SpecHash:
		return step{e.Stage, true, "the package changed while the stage was not complete"}
	default:
		return step{}
	}
}

// start begins what the package needs, if nothing holds it.
func (w *work) start(pkg *Package) {
	ref := w.ref(pkg.Name)
	if w.p.malformed[ref] {
		return
	}
	w.adopt(pkg)
	s := w.next(pkg)
	if s.stage == "" {
		return
	}
	if w.missingDependency(pkg) != "" || w.nw.Serial && w.otherActive(pkg.Name) {
		return
	}
	w.wants = true
	if w.hold.reason != "" {
		return
	}
	w.active = true
	if w.p.stopExecutors(ref, ReasonSpecChanged, s.reason) {
		return
	}
	w.begin(pkg, s)
}

// adopt takes over a complete entry that was written for an earlier NodeWright
// of the same name, as after a restore from a backup: nothing runs again.
func (w *work) adopt(pkg *Package) {
	e, ok := w.entry(pkg.Name)
	if ok && e.UID != w.nw.UID && e.State == nodestate.StateComplete {
		e.UID = w.nw.UID
		w.put(e)
	}
}

// begin records the intent: the entry says what runs before its Job exists.
func (w *work) begin(pkg *Package, s step) {
	old, had := w.entry(pkg.Name)
	e := old
	e.Name, e.NodeWright, e.UID = pkg.Name, w.nw.Name, w.nw.UID
	e.Stage, e.State, e.Attempt = s.stage, nodestate.StateInProgress, 1
	e.Reason, e.Message = "", ""
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

// otherActive tells whether another package of the NodeWright is at work.
func (w *work) otherActive(pkg string) bool {
	for i := range w.nw.Packages {
		name := w.nw.Packages[i].Name
		if name == pkg {
			continue
		}
		if e, ok := w.entry(name); ok && w.unfinished(&e) {
			return true
		}
	}
	return false
}

// unfinished tells whether an attempt of the entry runs, or is to come.
func (w *work) unfinished(e *nodestate.PackageStatus) bool {
	return e.State == nodestate.StateInProgress || e.State == nodestate.StateErroring && !w.terminal(e)
}

// terminal tells whether an erroring entry stays so until the spec changes or
// a user asks for another run: its retries are used up. Erroring for a pod
// that cannot start is not terminal.
func (w *work) terminal(e *nodestate.PackageStatus) bool {
	return e.State == nodestate.StateErroring && e.Failures > w.nw.RetryLimit
}
