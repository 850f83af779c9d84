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

// nextStage is the stage after the complete one that the entry stands in; ok is
// false after the last.
func nextStage(e *nodestate.PackageStatus) (next nodestate.Stage, ok bool) {
	switch e.Stage {
	case nodestate.StageApply, nodestate.StageUpgrade:
		return nodestate.StageConfig, true
	case nodestate.StageConfig:
		return nodestate.StageInterrupt, e.Interrupt != nil
	case nodestate.StageInterrupt:
		// An entry of an earlier operator does not say what its interrupt was.
		return nodestate.StagePostInterrupt, true
	case nodestate.StageUninstall:
		return nodestate.StageUninstallInterrupt, e.Interrupt != nil
	default:
		return "", false
	}
}

// interrupting tells whether the node is being interrupted for the entry: nobody
// takes that back, and nothing else runs on the node meanwhile.
func interrupting(e *nodestate.PackageStatus) bool {
	return e.Stage.Interrupts() && e.State == nodestate.StateInProgress
}

// rebooting tells whether only another boot ID ends the stage.
func rebooting(e *nodestate.PackageStatus) bool {
	return e.Stage.Interrupts() && e.Interrupt != nil && e.Interrupt.Type == nodestate.InterruptReboot
}

// beforeInterrupt tells whether a run that installs the package, and not only
// another configMap of it, has not passed its interrupt, or its end if it has none.
func beforeInterrupt(e *nodestate.PackageStatus) bool {
	switch {
	case e.ConfigOnly:
		return false
	case e.Stage == nodestate.StageApply || e.Stage == nodestate.StageUpgrade:
		return true
	case e.Stage == nodestate.StageConfig:
		return e.State != nodestate.StateComplete || e.Interrupt != nil
	default:
		return e.Stage == nodestate.StageInterrupt && e.State != nodestate.StateComplete
	}
}

// restartStage is where an unfinished entry starts anew: at its own stage, or
// from the beginning where nobody knows what was done.
func restartStage(e *nodestate.PackageStatus) nodestate.Stage {
	switch e.Stage {
	case nodestate.StageUpgrade, nodestate.StageConfig, nodestate.StagePostInterrupt:
		return e.Stage
	default:
		return nodestate.StageApply
	}
}

// equalStatus compares what differs most often first.
func equalStatus(a, b *nodestate.PackageStatus) bool {
	return a.Stage == b.Stage && a.State == b.State && a.Run == b.Run && a.Attempt == b.Attempt && reflect.DeepEqual(a, b)
}
