package plan

import (
	"reflect"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// change says how the spec of a package differs from its entry.
type change int

const (
	changeNone change = iota
	// changeConfig: another configMap. A complete package runs config again.
	changeConfig
	// changeImage: another repository or digest of the same version.
	changeImage
	// changeLower, changeHigher: another version.
	changeLower
	changeHigher
)

// changeOf compares what restarts a complete package. Versions that differ in
// spelling or build data only are the same.
func changeOf(pkg *Package, e *nodestate.PackageStatus) change {
	switch {
	case !nodestate.SameVersion(pkg.Version, e.Version):
		if nodestate.HigherVersion(pkg.Version, e.Version) {
			return changeHigher
		}
		return changeLower
	case pkg.Image != e.Image || pkg.ContainerSHA != e.ContainerSHA:
		return changeImage
	case pkg.ConfigHash != e.ConfigHash:
		return changeConfig
	default:
		return changeNone
	}
}

// nextStage is the stage after a complete one; ok is false after the last.
func nextStage(s nodestate.Stage) (next nodestate.Stage, ok bool) {
	switch s {
	case nodestate.StageApply, nodestate.StageUpgrade:
		return nodestate.StageConfig, true
	default:
		return "", false
	}
}

// lastStagePassed tells whether nothing comes after the stage. Stages behind
// an interrupt count as well: a package that lost its interrupt is still
// installed.
func lastStagePassed(s nodestate.Stage) bool {
	switch s {
	case nodestate.StageConfig, nodestate.StageInterrupt, nodestate.StagePostInterrupt:
		return true
	default:
		return false
	}
}

// runnable tells whether the planner knows how to run the stage.
func runnable(s nodestate.Stage) bool {
	switch s {
	case nodestate.StageApply, nodestate.StageUpgrade, nodestate.StageConfig:
		return true
	default:
		return false
	}
}

// restartStage is where an unfinished entry starts anew: at its own stage, or
// from the beginning if it stands in one that the spec does not lead through.
func restartStage(e *nodestate.PackageStatus) nodestate.Stage {
	if runnable(e.Stage) {
		return e.Stage
	}
	return nodestate.StageApply
}

// equalStatus compares what differs most often first.
func equalStatus(a, b *nodestate.PackageStatus) bool {
	return a.Stage == b.Stage && a.State == b.State && a.Run == b.Run && a.Attempt == b.Attempt && reflect.DeepEqual(a, b)
}
