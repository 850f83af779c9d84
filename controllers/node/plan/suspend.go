package plan

import (
	"fmt"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// stopped tells whether the user holds the NodeWright: nothing starts, and what
// runs is suspended.
func (w *work) stopped() bool { return w.nw.Paused || w.nw.Disabled }

// suspend ends the pods of what runs while the NodeWright is paused or disabled.
// An interrupt that was begun is not taken back: nobody knows how far it came.
func (w *work) suspend() {
	if !w.stopped() {
		return
	}
	reason, word := ReasonPaused, "paused"
	if w.nw.Disabled {
		reason, word = ReasonDisabled, "disabled"
	}
	for i := range w.p.in.Jobs {
		job := &w.p.in.Jobs[i]
		if !w.owns(job) || job.Identity.Interrupts() || job.Suspended && !job.Held {
			continue
		}
		if !job.Suspended {
			w.p.hold(job, true, fmt.Sprintf("NodeWright %s is %s", w.nw.Name, word))
		}
		w.explainSuspended(job, reason, fmt.Sprintf("the Job of the stage is suspended while the NodeWright is %s", word))
	}
}

// resume lets a suspended Job go on that is the attempt the entry names, for the
// spec of now. A Job that a user suspended is left to that user.
func (w *work) resume(job *Job) {
	switch {
	case !job.Held:
		w.wait(nodestate.SlotJobSuspended, fmt.Sprintf("somebody suspended Job %s of package %s: set its spec.suspend to false, or delete it and the stage starts anew",
			job.Name, job.Identity.Package))
	case w.stopped():
	case w.mayGoOn() && w.p.interruptDue():
		w.wait(nodestate.SlotInterruptWaits, "a Job that is suspended goes on once the node was interrupted")
	case w.mayGoOn():
		w.p.hold(job, false, fmt.Sprintf("NodeWright %s is neither paused nor disabled any more", w.nw.Name))
	default:
		w.wants = true
		w.wait(nodestate.SlotJobHeld, fmt.Sprintf("Job %s of package %s stays suspended: %s", job.Name, job.Identity.Package, w.hold.message))
		w.explainSuspended(job, w.hold.reason, "the Job of the stage stays suspended: "+w.hold.message)
	}
}

// mayGoOn tells whether an attempt that was decided on may run: a revision that
// is being renewed does not stop it.
func (w *work) mayGoOn() bool {
	return w.holdsSlot() && (w.hold.reason == "" || w.hold.reason == ReasonWaiting)
}

// explainSuspended says on the entry of a Job why it has no pods.
func (w *work) explainSuspended(job *Job, reason, message string) {
	e, ok := w.entry(job.Identity.Package)
	if !ok || !w.unfinished(&e) || identityOf(&w.p.in.Node, &e) != job.Identity {
		return
	}
	e.Reason, e.Message = reason, message
	w.put(e)
}

// owns tells whether the Job is an attempt of the NodeWright on this very node
// that has not ended.
func (w *work) owns(job *Job) bool {
	return !job.Unreadable && job.State == JobUnfinished && !job.Deleting &&
		job.Identity.NodeWright == w.nw.Name && string(job.Identity.NodeUID) == w.p.in.Node.UID
}

// hold asks for a Job to be suspended, or to go on.
func (p *planner) hold(job *Job, suspend bool, why string) {
	verb := "goes on"
	if suspend {
		verb = "is suspended, a step that runs gets SIGTERM"
	}
	id := &job.Identity
	p.out.Hold = append(p.out.Hold, JobHold{
		Name: job.Name, UID: job.UID, NodeWright: id.NodeWright, Package: id.Package, Suspend: suspend,
		Message: fmt.Sprintf("Job %s (package %s %s, stage %s) %s: %s", job.Name, id.Package, id.Version, id.Stage, verb, why),
	})
}
