package plan

import (
	"cmp"
	"slices"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// standing says where the record stands towards a finished Job.
type standing int

const (
	// ahead: the Job is of an attempt that the record as seen does not have yet.
	// The record is written before the Job is created, so it is about to come.
	ahead standing = iota + 1
	// current: the record waits for the outcome of this Job.
	current
	// left: the record has taken the outcome in, or does not want it any more.
	left
)

// standing compares the Job with the entry of its package.
func (p *planner) standing(id *packagejob.Identity) (standing, nodestate.PackageStatus) {
	entry, ok := p.in.Record.Packages[id.Ref()]
	if id.Run > p.in.Record.Seq[nodestate.OwnerNode] {
		// A run has the number of the apply that started it: that apply is not in
		// this view of the node.
		return ahead, entry
	}
	if !ok {
		return left, entry
	}
	if id.NamedBy(&entry) {
		switch entry.State {
		case nodestate.StateComplete, nodestate.StateSkipped, nodestate.StateUnknown:
			return left, entry
		default:
			return current, entry
		}
	}
	if comparePosition(id, &entry) > 0 {
		return ahead, entry
	}
	return left, entry
}

// comparePosition orders attempts of one package on one node. Runs grow, within
// a run stages follow each other, within a stage attempts count up.
func comparePosition(id *packagejob.Identity, entry *nodestate.PackageStatus) int {
	stages := nodestate.Stages()
	return cmp.Or(
		cmp.Compare(id.Run, entry.Run),
		cmp.Compare(slices.Index(stages, id.Stage), slices.Index(stages, entry.Stage)),
		cmp.Compare(id.Attempt, entry.Attempt),
	)
}
