package plan

import (
	"fmt"
	"slices"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// answerRequests acts on what users ask for on the node. Each request is acted
// on once: its id is noted in the same apply as the act, and for as long as the
// request's key is on the node, which is removed after the apply. Until then
// nothing new starts for the packages that it is about.
func (w *work) answerRequests() {
	noted := w.p.in.Record.Handled[w.nw.Name]
	var handled []string
	for i := range w.p.in.Record.Requests {
		r := &w.p.in.Record.Requests[i]
		if r.NodeWright != w.nw.Name {
			continue
		}
		about := w.about(r)
		for _, ref := range about {
			w.asked[ref.Package] = true
		}
		if !slices.Contains(noted, r.ID) && !w.act(r, about) {
			continue
		}
		if !slices.Contains(handled, r.ID) {
			handled = append(handled, r.ID)
		}
		w.p.out.Answered = append(w.p.out.Answered, RequestAnswered{Key: r.Key, Value: r.Value})
	}
	handled = append(handled, w.refuseUnreadable(noted)...)
	slices.Sort(handled)
	if len(handled) == 0 {
		delete(w.p.out.Set.Handled, w.nw.Name)
		return
	}
	if w.p.out.Set.Handled == nil {
		w.p.out.Set.Handled = map[string][]string{}
	}
	w.p.out.Set.Handled[w.nw.Name] = handled
}

// refuseUnreadable answers requests that cannot be read, and returns what to note
// in the place of their ids.
func (w *work) refuseUnreadable(noted []string) []string {
	var refused []string
	for _, m := range w.p.in.Record.Malformed {
		if m.NodeWright != w.nw.Name || !m.Kind.IsRequest() {
			continue
		}
		id := "unreadable-" + nodestate.BlobHash(m.Value)
		if !slices.Contains(noted, id) {
			w.p.event(Event{w.nw.Name, "", true, ReasonRequestRefused, nodestate.CapString(fmt.Sprintf(
				"request %s on node %s cannot be read, and is taken off: %v", m.Key, w.p.in.Node.Name, m.Err), nodestate.MaxMessage)})
		}
		if !slices.Contains(refused, id) {
			refused = append(refused, id)
		}
		w.p.out.Answered = append(w.p.out.Answered, RequestAnswered{Key: m.Key, Value: m.Value})
	}
	return refused
}

// about are the packages that a request means: the one it names, or all that the
// spec has or the node carries.
func (w *work) about(r *nodestate.RequestAt) []nodestate.PackageRef {
	if r.Package != "" {
		return []nodestate.PackageRef{w.ref(r.Package)}
	}
	refs := w.p.refsOf(w.nw.Name)
	for i := range w.nw.Packages {
		if ref := w.ref(w.nw.Packages[i].Name); !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// act carries a request out, and tells whether it is done with: what runs for
// the packages has to end first.
func (w *work) act(r *nodestate.RequestAt, about []nodestate.PackageRef) bool {
	wait := false
	for _, ref := range about {
		if w.interruptRuns(ref) {
			wait = true
			continue
		}
		if w.p.stopExecutors(ref, ReasonRequested, fmt.Sprintf("a %s was asked for (request %s)", r.Action, shownID(r))) {
			w.waitFor(ref)
			wait = true
		}
	}
	if wait {
		w.active = true
		return false
	}
	for _, ref := range about {
		reason, message := ReasonRequested, ""
		if r.Action == nodestate.ActionReset {
			if message = w.absent(ref); message != "" {
				reason = ReasonRequestRefused
			} else {
				message = w.reset(ref)
			}
		} else if refusal := w.rerun(ref, r.Stage); refusal != "" {
			reason, message = ReasonRequestRefused, refusal
		} else {
			message = "runs again"
		}
		w.p.event(Event{w.nw.Name, ref.Package, reason == ReasonRequestRefused, reason,
			fmt.Sprintf("package %s on node %s, request %s (%s): %s", ref.Package, w.p.in.Node.Name, shownID(r), r.Action, message)})
	}
	if r.Action == nodestate.ActionReset && r.Package == "" {
		w.forgetUnreadable()
	}
	return true
}

// interruptRuns tells whether a Job interrupts the node for the package: that is
// not taken back.
func (w *work) interruptRuns(ref nodestate.PackageRef) bool {
	e, ok := w.entry(ref.Package)
	if !ok || !interrupting(&e) {
		return false
	}
	job := w.p.jobOf(&e)
	return job != nil && job.State == JobUnfinished
}

// shownID is the id as far as an event shows it.
func shownID(r *nodestate.RequestAt) string { return nodestate.CapString(r.ID, 64) }

// absent says of a package without a record what becomes of it; empty where there
// is a record, be it one that cannot be read.
func (w *work) absent(ref nodestate.PackageRef) string {
	pkg := w.specOf(ref.Package)
	_, recorded := w.entry(ref.Package)
	switch {
	case recorded || w.p.entryUnreadable(ref):
		return ""
	case pkg == nil:
		return "neither the NodeWright nor the node has the package"
	case w.uninstalls(pkg):
		return "it is not on the node, as the NodeWright asks for"
	default:
		return "it is not on the node, and starts by itself as soon as it may"
	}
}

// reset forgets what the node says of a package, readable or not.
func (w *work) reset(ref nodestate.PackageRef) string {
	delete(w.p.out.Set.Packages, ref)
	delete(w.p.out.Set.Raw, nodestate.NewPackageKey(nodestate.KindNodeState, ref.NodeWright, ref.Package).String())
	if w.p.malformed[ref] {
		delete(w.p.malformed, ref)
		w.p.malformedNW[w.nw.Name] = w.p.othersMalformed(ref)
	}
	if pkg := w.specOf(ref.Package); pkg == nil || w.uninstalls(pkg) {
		return "its record is forgotten, and nothing runs for it; what it did to the host stays"
	}
	return "its record is forgotten, and it starts anew"
}

// othersMalformed tells whether an entry of the NodeWright besides this one cannot
// be read.
func (p *planner) othersMalformed(but nodestate.PackageRef) bool {
	key := nodestate.NewPackageKey(nodestate.KindNodeState, but.NodeWright, but.Package).String()
	for _, m := range p.in.Record.Malformed {
		if _, carried := p.out.Set.Raw[m.Key]; carried && m.Key != key && m.NodeWright == but.NodeWright && m.Kind == nodestate.KindNodeState {
			return true
		}
	}
	return false
}

// forgetUnreadable drops entries of the NodeWright that cannot be read, also of
// packages that left the spec. A shortened key does not tell whose it is.
func (w *work) forgetUnreadable() {
	for _, m := range w.p.in.Record.Malformed {
		key, ok := nodestate.ParseKey(m.Key)
		if ok && key.Hash == "" && key.NodeWright == w.nw.Name && key.Kind == nodestate.KindNodeState {
			delete(w.p.out.Set.Raw, m.Key)
		}
	}
	w.p.malformedNW[w.nw.Name] = false
	for i := range w.nw.Packages {
		delete(w.p.malformed, w.ref(w.nw.Packages[i].Name))
	}
}

// rerun makes a package start anew from a stage, from its first one if none is
// named, and says why where it does not.
func (w *work) rerun(ref nodestate.PackageRef, stage nodestate.Stage) (refusal string) {
	if stage == "" {
		stage = nodestate.StageApply
	}
	e, ok := w.entry(ref.Package)
	switch {
	case w.p.malformed[ref]:
		return "its record cannot be read; ask for a reset instead"
	case !ok:
		return w.absent(ref)
	case w.specOf(ref.Package) == nil:
		return "the NodeWright does not have the package"
	case !mayBegin(stage, &e):
		return fmt.Sprintf("a package cannot start with stage %s", stage)
	case stage == nodestate.StageUpgrade && len(e.Previous) == 0:
		return "there was no version before that it could be upgraded from"
	}
	if w.uninstalls(w.specOf(ref.Package)) && e.Stage.Uninstalls() {
		stage = nodestate.StageUninstall
	}
	e.Stage, e.State, e.Reason, e.ConfigOnly = stage, nodestate.StateUnknown, ReasonRequested, false
	e.Message = fmt.Sprintf("a user asked for it to run again from stage %s", stage)
	w.put(e)
	return ""
}

// mayBegin tells whether a run may begin with the stage.
func mayBegin(stage nodestate.Stage, e *nodestate.PackageStatus) bool {
	switch stage {
	case nodestate.StageApply, nodestate.StageUpgrade, nodestate.StageConfig:
		return true
	default:
		return stage == nodestate.StagePostInterrupt && e.Interrupt != nil
	}
}
