package plan

import (
	"fmt"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// answer writes what the node makes of its slot, and the status word.
func (w *work) answer() {
	complete := w.complete()
	erroring := w.erroring()
	if w.p.unfinishedJobs(w.nw.Name) {
		w.active = true
	}
	w.answerSlot(complete, erroring)
	word := w.word(complete, erroring)
	old, had := w.p.in.Record.Status[w.nw.Name]
	silent := word == nodestate.StatusWaiting || word == nodestate.StatusBlocked && w.hold.reason == ReasonUnreachable
	if silent && !had && w.untouched() && !w.p.gates(w.nw) {
		// A node that nothing was done to says nothing: no word means that it waits
		// for a slot, and saves a write for each node of a fleet.
		delete(w.p.out.Set.Status, w.nw.Name)
		return
	}
	w.p.out.Set.Status[w.nw.Name] = word
	if word == nodestate.StatusComplete && old != word {
		w.p.event(Event{w.nw.Name, "", false, ReasonNodeComplete, fmt.Sprintf(
			"%s complete on node %s", arePackages(len(w.nw.Packages)), w.p.in.Node.Name)})
	}
}

func arePackages(n int) string {
	if n == 1 {
		return "the package is"
	}
	return fmt.Sprintf("all %d packages are", n)
}

// answerSlot gives the slot back when nothing can use it, and asks for another
// one when there is work again.
func (w *work) answerSlot(complete, erroring bool) {
	if w.batch == nil {
		delete(w.p.out.Set.Slots, w.nw.Name)
		return
	}
	slot := nodestate.Slot{ID: w.batch.ID, NodeWright: w.nw.Name, State: nodestate.SlotWorking}
	switch {
	case !w.holdsSlot():
		slot = *w.slot
		// Only the node knows that the same revision needs another slot here: after a
		// change that is not part of the revision, or when what held it back is gone.
		switch current := w.slotCurrent(); {
		case w.wants && current && w.hold.reason == ReasonWaiting:
			slot.Reason = nodestate.SlotRetryWanted
		case complete && current:
			slot.Reason = nodestate.SlotComplete
		case slot.Reason == nodestate.SlotComplete:
			slot.Reason = nodestate.SlotSuperseded
		}
	default:
		if reason := w.releaseReason(complete, erroring); reason != "" {
			slot.State, slot.Reason = nodestate.SlotReleased, reason
		} else {
			w.showWait(&slot)
		}
	}
	w.p.out.Set.Slots[w.nw.Name] = slot
}

// showWait says on the slot what the node waits for, and since when.
func (w *work) showWait(slot *nodestate.Slot) {
	if w.waits.reason == "" && w.hold.reason == "" && w.turns > 0 {
		w.waits = hold{nodestate.SlotPackageWaits, w.turn}
		if w.turns > 1 {
			w.waits.message += fmt.Sprintf("; packages that wait as well: %d", w.turns-1)
		}
	}
	slot.Reason = w.waits.reason
	if w.waits.message == "" {
		return
	}
	slot.Message = nodestate.CapString(w.waits.message, nodestate.MaxMessage)
	slot.Since = nodestate.FormatTime(w.p.in.Now)
	if w.slot != nil && w.slot.Reason == slot.Reason && w.slot.Since != "" {
		slot.Since = w.slot.Since
	}
}

// releaseReason says why the slot is given back; empty to keep it.
func (w *work) releaseReason(complete, erroring bool) string {
	switch {
	case w.active:
		return ""
	case complete:
		return ReasonComplete
	case !w.slotCurrent():
		// The rollout renews the slot for the new revision.
		return ""
	case w.hold.reason == ReasonBlocked || w.hold.reason == ReasonUnreachable:
		if w.begun() {
			return ""
		}
		return w.hold.reason
	case w.hold.reason != "":
		return ""
	case erroring:
		return ReasonSlotErroring
	case w.p.malformedNW[w.nw.Name]:
		return ReasonMalformedState
	case !w.wants:
		return ReasonNoPath
	default:
		return ""
	}
}

// begun tells whether anything was done on the node for this revision, or is
// not finished of an earlier one.
func (w *work) begun() bool {
	for _, ref := range w.p.refsOf(w.nw.Name) {
		e := w.p.out.Set.Packages[ref]
		if e.Rollout == w.nw.Revision || e.State == nodestate.StateInProgress {
			return true
		}
	}
	return false
}

// untouched tells whether the node carries nothing of the NodeWright.
func (w *work) untouched() bool {
	return w.batch == nil && len(w.p.refsOf(w.nw.Name)) == 0 && !w.p.malformedNW[w.nw.Name]
}

func (w *work) erroring() bool {
	for i := range w.nw.Packages {
		if e, ok := w.entry(w.nw.Packages[i].Name); ok && e.State == nodestate.StateErroring {
			return true
		}
	}
	return false
}

func (w *work) word(complete, erroring bool) nodestate.StatusWord {
	switch {
	case complete:
		return nodestate.StatusComplete
	case erroring:
		return nodestate.StatusErroring
	case w.nw.Disabled:
		return nodestate.StatusDisabled
	case w.nw.Paused:
		return nodestate.StatusPaused
	case w.p.malformedNW[w.nw.Name]:
		return nodestate.StatusUnknown
	case w.active:
		return nodestate.StatusInProgress
	case w.hold.reason == ReasonBlocked || w.hold.reason == ReasonUnreachable:
		return nodestate.StatusBlocked
	case !w.wants:
		// No slot would help: a dependency is missing.
		return nodestate.StatusBlocked
	default:
		return nodestate.StatusWaiting
	}
}
