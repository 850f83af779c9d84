package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// maxNote is what an event may say beside the name of the node, of up to 253
// bytes: the API takes a note of less than 1 KiB.
const maxNote = 700

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
		delete(w.p.out.Set.Slots, w.nw.Name)
		return
	}
	w.p.out.Set.Status[w.nw.Name] = word
	// A node that was out of the rollout for a while has no word, and was complete
	// before.
	told := w.slot != nil && !w.holdsSlot() && w.slot.Reason == nodestate.SlotComplete
	if word == nodestate.StatusComplete && old != word && !told {
		w.p.event(Event{w.nw.Name, "", false, ReasonNodeComplete, w.describeComplete()})
	}
}

// describeComplete names what is complete on the node, and what is to be off it.
func (w *work) describeComplete() string {
	var on, off []string
	for i := range w.nw.Packages {
		pkg := &w.nw.Packages[i]
		if e, ok := w.entry(pkg.Name); ok {
			on = append(on, pkg.Name+" "+e.Version)
		} else {
			off = append(off, pkg.Name)
		}
	}
	text := "no package is to be on the node"
	if len(on) > 0 {
		text = "complete: " + strings.Join(on, ", ")
	}
	if len(off) > 0 {
		text += "; uninstalled, or never installed: " + strings.Join(off, ", ")
	}
	return nodestate.CapString(text, maxNote)
}

// answerSlot gives the slot back when nothing can use it, and asks for another
// one when there is work again.
func (w *work) answerSlot(complete, erroring bool) {
	slot := nodestate.Slot{NodeWright: w.nw.Name, State: nodestate.SlotReleased}
	switch {
	case w.batch == nil && !w.isHeld():
		delete(w.p.out.Set.Slots, w.nw.Name)
		return
	case w.batch == nil:
		w.show(&slot, w.hold)
	case !w.holdsSlot():
		slot.ID = w.slot.ID
		w.show(&slot, w.standing(complete, erroring))
	default:
		slot.ID = w.batch.ID
		if reason := w.releaseReason(complete, erroring); reason != "" {
			w.show(&slot, w.released(reason))
		} else {
			slot.State = nodestate.SlotWorking
			w.showWait(&slot)
		}
	}
	w.p.out.Set.Slots[w.nw.Name] = slot
}

// isHeld tells whether something that does not pass with a slot keeps a package
// from starting, or a user holds them all.
func (w *work) isHeld() bool {
	switch w.hold.reason {
	case ReasonPaused, ReasonDisabled:
		return !w.complete()
	case ReasonBlocked, ReasonUnreachable, ReasonIgnored:
		return w.wants
	default:
		return false
	}
}

// released is what a slot says that is given back for the reason.
func (w *work) released(reason string) hold {
	if reason == w.hold.reason {
		return w.hold
	}
	return hold{reason: reason}
}

// passing are reasons of a slot that was given back which say nothing any more once
// they do not hold.
var passing = []string{ReasonBlocked, ReasonUnreachable, ReasonPaused, ReasonDisabled, ReasonIgnored, ReasonNotSelected}

// standing is what a slot says that was given back. Only the node knows that the
// same revision needs another slot here: after a change that is not part of the
// revision, or when what held it back is gone.
func (w *work) standing(complete, erroring bool) hold {
	was, current := w.slot.Reason, w.slotCurrent()
	switch {
	case w.wants && current && w.hold.reason == ReasonWaiting:
		return hold{reason: nodestate.SlotRetryWanted}
	case complete && current:
		return hold{reason: nodestate.SlotComplete}
	case w.isHeld():
		return w.hold
	case was == nodestate.SlotComplete:
		return hold{reason: nodestate.SlotSuperseded}
	case !slices.Contains(passing, was):
		return hold{reason: was}
	case w.wants || complete:
		return hold{reason: nodestate.SlotSuperseded}
	default:
		return hold{reason: w.idle(erroring)}
	}
}

// idle says why a slot is of no use that nothing holds back.
func (w *work) idle(erroring bool) string {
	switch {
	case erroring:
		return ReasonSlotErroring
	case w.p.malformedNW[w.nw.Name]:
		return ReasonMalformedState
	default:
		return ReasonNoPath
	}
}

// showWait says on the slot what the node waits for.
func (w *work) showWait(slot *nodestate.Slot) {
	if w.isHeld() || w.hold.reason == ReasonUnreachable {
		w.wait(w.hold.reason, w.hold.message)
	}
	if w.waits.reason == "" && w.hold.reason == "" && w.turns > 0 {
		w.waits = hold{nodestate.SlotPackageWaits, w.turn}
		if w.turns > 1 {
			w.waits.message += fmt.Sprintf("; packages that wait as well: %d", w.turns-1)
		}
	}
	w.show(slot, w.waits)
}

// show says on the slot why nothing happens, and since when where that is a wait.
func (w *work) show(slot *nodestate.Slot, why hold) {
	slot.Reason = why.reason
	if why.message == "" {
		return
	}
	slot.Message = nodestate.CapString(why.message, nodestate.MaxMessage)
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
	case erroring || w.p.malformedNW[w.nw.Name] || !w.wants:
		return w.idle(erroring)
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
