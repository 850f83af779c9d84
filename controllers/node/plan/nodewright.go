package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// work plans one NodeWright that selects the node.
type work struct {
	p  *planner
	nw *NodeWright
	// batch is nil when no slot was ever granted.
	batch *nodestate.Batch
	slot  *nodestate.Slot
	// hold says why no stage may start now; empty if one may.
	hold hold
	// wants says that some package could start but for the hold.
	wants bool
	// asked are packages that a request on the node is about: none of them starts
	// before the request is answered and gone.
	asked map[string]bool
	// active says that something runs, or is due to.
	active bool
	// advancing says that a package can go on without an interrupt of the node.
	advancing bool
	// atInterrupt are packages that can go on with an interrupt only; awaitQuiet are
	// those that wait for an empty node, wantsQuiet says that anything does.
	atInterrupt []due
	awaitQuiet  []due
	wantsQuiet  bool
	// waits is why a stage on a node that works does not go on.
	waits hold
	// turns counts packages that did not begin since they wait for others, turn says
	// of the first of them for which.
	turns int
	turn  string
}

// hold is a reason why a stage does not start or go on, with a sentence about it.
type hold struct {
	reason  string
	message string
}

// wait notes what a stage waits for. An attempt that follows a failed one, a pod
// that does not start yet and an uninstall that has to come first count less than
// anything else: what that one waits for in turn is what holds the node up.
func (w *work) wait(reason, message string) {
	switch w.waits.reason {
	case "", nodestate.SlotBackOff, nodestate.SlotPodNotStarting, nodestate.SlotNoPath:
		w.waits = hold{reason, message}
	}
}

// takeTurn notes that a package waits for others of the NodeWright: ordinary
// progress, of which the first is enough to say what the node is at.
func (w *work) takeTurn(pkg, others, why string) {
	if w.turns++; w.turns == 1 {
		w.turn = pkg + " waits for " + others + why
	}
}

func newWork(p *planner, nw *NodeWright) *work {
	w := &work{p: p, nw: nw, asked: map[string]bool{}}
	if b, ok := p.in.Record.Batches[nw.Name]; ok {
		w.batch = &b
	}
	if s, ok := p.in.Record.Slots[nw.Name]; ok {
		w.slot = &s
	}
	w.hold = w.findHold()
	return w
}

func (w *work) holdsSlot() bool { return w.batch != nil && w.batch.Holds(w.slot) }

// slotCurrent tells whether the last grant is for what the NodeWright asks for
// now: what a stage needs is there before the grant, and not before.
func (w *work) slotCurrent() bool {
	return w.batch.Rollout == w.nw.Revision && w.batch.UID == w.nw.UID
}

func (w *work) findHold() hold {
	by := w.p.heldBack(w.nw)
	switch {
	case w.nw.Held != "" && !w.nw.Deleting:
		return hold{ReasonBlocked, w.nw.Held}
	case w.nw.Deleting && w.p.in.Node.Ignored:
		return hold{ReasonIgnored, "the node is ignored, so packages stay on it"}
	case w.nw.Disabled:
		return hold{ReasonDisabled, "the NodeWright is disabled"}
	case w.nw.Paused:
		return hold{ReasonPaused, "the NodeWright is paused"}
	case by != "":
		return hold{ReasonBlocked, w.p.comesFirst(by)}
	case w.p.in.Node.Unreachable:
		return hold{ReasonUnreachable, "the node's Ready condition is Unknown; no attempt starts before the kubelet reports again"}
	case !w.holdsSlot():
		return hold{ReasonWaiting, "the rollout has not granted this node a slot"}
	case !w.slotCurrent():
		return hold{ReasonWaiting, "the slot is for an earlier revision; the rollout will renew it"}
	default:
		return hold{}
	}
}

func (w *work) run() {
	w.forgetRemoved()
	w.adopt()
	w.answerRequests()
	w.observeAll()
	w.advance()
}

// observeAll brings the entries up to what Jobs and node say.
func (w *work) observeAll() {
	for i := range w.nw.Packages {
		w.observe(&w.nw.Packages[i])
	}
	w.resolveSkipped()
	w.finishUninstalls()
}

// advance starts what may start.
func (w *work) advance() {
	for i := range w.nw.Packages {
		w.start(&w.nw.Packages[i])
	}
	w.startInterrupts()
	for i := range w.nw.Packages {
		w.ensureJob(&w.nw.Packages[i])
	}
	w.settleCordon()
	w.suspend()
	w.answer()
}

func (w *work) ref(pkg string) nodestate.PackageRef {
	return nodestate.PackageRef{NodeWright: w.nw.Name, Package: pkg}
}

func (w *work) entry(pkg string) (nodestate.PackageStatus, bool) {
	e, ok := w.p.out.Set.Packages[w.ref(pkg)]
	return e, ok
}

// put stores an entry. What did not change keeps its bytes. The time follows
// from stage and state, unless the entry brings another one.
func (w *work) put(e nodestate.PackageStatus) {
	ref := e.Ref()
	old, had := w.p.in.Record.Packages[ref]
	moved := !had || old.Stage != e.Stage || old.State != e.State || old.Run != e.Run
	if moved && e.Since == old.Since {
		e.Since = nodestate.FormatTime(w.p.in.Now)
	}
	e.BootID = w.p.in.Node.BootID
	if had {
		e.BootID = w.bootOf(&e, &old)
		same := e
		same.BootID = old.BootID
		if equalStatus(&same, &old) {
			e = old
		}
	}
	w.p.out.Set.Packages[ref] = e
}

// forgetRemoved marks unfinished entries of packages that left the spec: they
// are still on the host, and nobody works on them.
func (w *work) forgetRemoved() {
	for _, ref := range w.p.refsOf(w.nw.Name) {
		e := w.p.out.Set.Packages[ref]
		if w.specOf(ref.Package) != nil || e.State != nodestate.StateInProgress && e.State != nodestate.StateErroring {
			continue
		}
		if rebooting(&e) && w.bootChanged(&e) {
			e.State, e.Reason, e.Message = nodestate.StateComplete, "", ""
			w.put(e)
			continue
		}
		job := w.p.jobOf(&e)
		if interrupting(&e) && job != nil && job.State == JobUnfinished {
			w.active = true
			continue
		}
		if job != nil && !job.Unreadable && job.State == JobSucceeded && !rebooting(&e) {
			e.State, e.Reason, e.Message = nodestate.StateComplete, "", ""
			w.put(e)
			continue
		}
		if w.p.stopExecutors(ref, ReasonRemoved, "the package was taken out of the NodeWright") {
			continue
		}
		e.State, e.Reason = nodestate.StateUnknown, ReasonRemoved
		e.Message = fmt.Sprintf("the package was taken out of the NodeWright while stage %s was not complete", e.Stage)
		w.put(e)
	}
}

func (w *work) specOf(pkg string) *Package {
	i := slices.IndexFunc(w.nw.Packages, func(p Package) bool { return p.Name == pkg })
	if i < 0 {
		return nil
	}
	return &w.nw.Packages[i]
}

// complete tells whether every package of the spec is at its last stage.
func (w *work) complete() bool {
	for i := range w.nw.Packages {
		if !w.done(&w.nw.Packages[i]) {
			return false
		}
	}
	return !w.p.malformedNW[w.nw.Name]
}

// done tells whether the package is complete at its last stage for the spec.
func (w *work) done(pkg *Package) bool {
	e, ok := w.entry(pkg.Name)
	switch {
	case w.uninstalls(pkg):
		return !ok
	case w.nw.Deleting:
		return !ok || !interrupting(&e)
	case !ok || e.State != nodestate.StateComplete || e.UID != w.nw.UID || e.Stage.Uninstalls():
		return false
	}
	_, more := w.nextStage(pkg, &e)
	return !more && changeOf(pkg, &e) == changeNone && !w.rebooted(&e)
}

// missingDependency names the first dependency that is not complete at the
// version asked for.
func (w *work) missingDependency(pkg *Package) string {
	var missing []string
	for name, version := range pkg.DependsOn {
		dep := w.specOf(name)
		if dep != nil && w.done(dep) {
			if e, _ := w.entry(name); nodestate.SameVersion(e.Version, version) {
				continue
			}
		}
		missing = append(missing, name+" "+version)
	}
	slices.Sort(missing)
	return strings.Join(missing, ", ")
}
