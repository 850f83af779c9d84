package nodestate

import "slices"

// Stage of a package on a node.
type Stage string

// The stages.
const (
	StageApply              Stage = "apply"
	StageUpgrade            Stage = "upgrade"
	StageConfig             Stage = "config"
	StageInterrupt          Stage = "interrupt"
	StagePostInterrupt      Stage = "post-interrupt"
	StageUninstall          Stage = "uninstall"
	StageUninstallInterrupt Stage = "uninstall-interrupt"
)

// State of a package within its stage.
type State string

// The states. An absent key means: the package is not on this host.
const (
	StateInProgress State = "in_progress"
	StateComplete   State = "complete"
	StateSkipped    State = "skipped"
	StateErroring   State = "erroring"
	StateUnknown    State = "unknown"
)

// StatusWord sums a NodeWright up, on one node or over all its nodes.
type StatusWord string

// The status words.
const (
	StatusComplete   StatusWord = "complete"
	StatusInProgress StatusWord = "in_progress"
	StatusErroring   StatusWord = "erroring"
	StatusBlocked    StatusWord = "blocked"
	StatusWaiting    StatusWord = "waiting"
	StatusPaused     StatusWord = "paused"
	StatusDisabled   StatusWord = "disabled"
	StatusUnknown    StatusWord = "unknown"
)

// Stages lists all stages in the order of a life: install, upgrade, uninstall.
func Stages() []Stage {
	return []Stage{
		StageApply, StageUpgrade, StageConfig, StageInterrupt, StagePostInterrupt,
		StageUninstall, StageUninstallInterrupt,
	}
}

// States lists all states.
func States() []State {
	return []State{StateInProgress, StateComplete, StateSkipped, StateErroring, StateUnknown}
}

// StatusWords lists all status words.
func StatusWords() []StatusWord {
	return []StatusWord{
		StatusComplete, StatusInProgress, StatusErroring, StatusBlocked, StatusWaiting,
		StatusPaused, StatusDisabled, StatusUnknown,
	}
}

// Known tells whether the stage is one of Stages.
func (s Stage) Known() bool { return slices.Contains(Stages(), s) }

// Interrupts tells whether the stage interrupts the node.
func (s Stage) Interrupts() bool { return s == StageInterrupt || s == StageUninstallInterrupt }

// Uninstalls tells whether the stage takes the package off the host.
func (s Stage) Uninstalls() bool { return s == StageUninstall || s == StageUninstallInterrupt }

// Known tells whether the state is one of States.
func (s State) Known() bool { return slices.Contains(States(), s) }

// Known tells whether the word is one of StatusWords.
func (s StatusWord) Known() bool { return slices.Contains(StatusWords(), s) }
