package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

const (
	// drainCheck is how often the pods of a node are looked at while it is being
	// emptied: they are not watched. Many end at once, so it begins with drainSoon
	// and grows with the time that the drain takes.
	drainCheck = 5 * time.Second
	drainSoon  = time.Second
	// waitCheck is how often, while they have to leave by themselves or cannot be
	// evicted.
	waitCheck = 15 * time.Second
	// namedPods is how many pods a message names.
	namedPods = 3
)

// quiet tells whether the node is cordoned, as read, and empty. It is asked for
// right before a Job is created, and asking makes the node so.
func (w *work) quiet() bool {
	w.wantsQuiet = true
	if _, ours := w.p.in.Record.Cordons[w.nw.Name]; !ours || !w.p.in.Node.Unschedulable {
		return false
	}
	pods, looked := w.p.in.Pods[w.nw.Name]
	if !looked {
		w.p.look(w.nw.Name)
		return false
	}
	return len(pods) == 0
}

func (p *planner) look(nodeWright string) {
	if !slices.Contains(p.out.Look, nodeWright) {
		p.out.Look = append(p.out.Look, nodeWright)
	}
}

// settleCordon cordons and empties the node for the stages that need that, and
// ends the cordon when it may.
func (w *work) settleCordon() {
	set := &w.p.out.Set
	_, cordoned := set.Cordons[w.nw.Name]
	switch {
	case w.wantsQuiet:
		w.active = true
		w.empty(cordoned)
	case cordoned && w.mayUncordon():
		w.uncordon()
	}
}

// mayUncordon tells whether our cordon has to go: all is complete, or the drain is
// cancelled before a stage has run. Once one has, it stays, also while packages
// are erroring or the NodeWright is paused.
func (w *work) mayUncordon() bool {
	switch {
	case w.complete():
		return true
	case len(w.asked) > 0:
		// What follows from a request shows once it is answered.
		return false
	case w.hold.reason == ReasonUnreachable, w.hold.reason == ReasonWaiting && (w.holdsSlot() || w.wantsEmpty()):
		// That passes by itself, and the drain goes on: a node that is cordoned is granted
		// the next slot.
		return false
	default:
		return !w.ranUnderCordon()
	}
}

// wantsEmpty tells whether a package is to start that needs an empty node.
func (w *work) wantsEmpty() bool {
	return slices.ContainsFunc(w.nw.Packages, func(pkg Package) bool {
		s := w.next(&pkg)
		if s.stage == "" || s.stage == nodestate.StagePostInterrupt || w.p.malformed[w.ref(pkg.Name)] {
			return false
		}
		interrupt, _ := w.decide(&pkg, s)
		return interrupt != nil
	})
}

// ranUnderCordon tells whether a stage of a run that ends in an interrupt has
// begun since the node was cordoned, or its drain was given up.
func (w *work) ranUnderCordon() bool {
	cordon := w.p.out.Set.Cordons[w.nw.Name]
	for _, ref := range w.p.refsOf(w.nw.Name) {
		e := w.p.out.Set.Packages[ref]
		since, err := nodestate.ParseTime(e.Since)
		switch {
		case e.Reason == ReasonDrainTimeout:
			return true
		case e.Interrupt == nil || e.State == nodestate.StateUnknown:
		case e.State == nodestate.StateInProgress || err == nil && !since.Before(cordon.Truncate(time.Second)):
			return true
		}
	}
	return false
}

func (w *work) uncordon() {
	w.p.endCordon(w.nw.Name)
	delete(w.p.out.Set.DrainStarts, w.nw.Name)
}

// endCordon takes the cordon of a NodeWright away, and tells of the last one.
func (p *planner) endCordon(nodeWright string) {
	delete(p.out.Set.Cordons, nodeWright)
	if len(p.out.Set.Cordons) > 0 {
		return
	}
	message := "the node is uncordoned"
	if p.in.Node.HeldByOthers {
		message = "the cordon of the operator ends; the node stays cordoned, since somebody else cordoned it as well"
	}
	p.event(Event{nodeWright, "", false, ReasonUncordoned, message})
}

// empty takes the next step towards a node without workloads: the cordon, once it
// is seen the wait for pods that must not be interrupted, then evictions, then
// the wait until the pods are gone.
func (w *work) empty(cordoned bool) {
	p, name := w.p, w.nw.Name
	if !cordoned {
		w.cordon()
		return
	}
	pods, looked := p.in.Pods[name]
	switch {
	case !p.in.Node.Unschedulable:
		// Somebody took the cordon away: the write of this pass brings it back, and
		// the next pass sees it.
		w.cordonAgain()
		return
	case !looked || len(pods) == 0:
		return
	case p.in.LastReplica:
		w.wait(nodestate.SlotLastReplica, "the node runs the last ready replica of the operator; it is drained once another one is ready elsewhere")
		p.due(p.in.Now.Add(waitCheck))
		return
	}
	if stay := slices.DeleteFunc(slices.Clone(pods), func(x Pod) bool { return !x.NonInterrupt }); len(stay) > 0 {
		w.wait(nodestate.SlotNonInterruptPods, "waits for pods that podNonInterruptLabels select: "+list(stay))
		p.due(p.in.Now.Add(waitCheck))
		return
	}
	w.drain(pods)
}

func (w *work) cordon() {
	p, name := w.p, w.nw.Name
	foreign := p.in.Node.Unschedulable && len(p.in.Record.Cordons) == 0
	if p.out.Set.Cordons == nil {
		p.out.Set.Cordons = map[string]time.Time{}
	}
	p.out.Set.Cordons[name] = p.in.Now.UTC().Truncate(time.Second)
	message := "the node is cordoned before it is drained"
	if foreign {
		message = "the node was cordoned by somebody else and is held cordoned as well; it stays cordoned when the operator is done"
	}
	w.wait(nodestate.SlotDraining, message)
	p.event(Event{name, "", false, ReasonCordoned, message})
	p.due(p.in.Now.Add(time.Second))
}

// cordonAgain goes on with what the drain waited for when the cordon was taken
// away: that did not end with it.
func (w *work) cordonAgain() {
	const message = "the node is cordoned again: somebody had ended the cordon during the drain"
	reason, text := nodestate.SlotDraining, message
	if w.slot != nil && w.slot.ID == w.batch.ID && drains(w.slot.Reason) {
		reason, text = w.slot.Reason, w.slot.Message
	}
	w.wait(reason, text)
	w.p.event(Event{w.nw.Name, "", true, ReasonCordoned, message})
	w.p.due(w.p.in.Now.Add(time.Second))
}

// drains tells whether the reason of a slot is a wait for pods.
func drains(reason string) bool {
	switch reason {
	case nodestate.SlotDraining, nodestate.SlotDrainBlocked, nodestate.SlotNonInterruptPods, nodestate.SlotLastReplica:
		return true
	default:
		return false
	}
}

// drain evicts what has to go. Pods whose end has begun are waited for and not
// evicted again.
func (w *work) drain(pods []Pod) {
	p, name := w.p, w.nw.Name
	started, draining := p.in.Record.DrainStarts[name]
	if !draining && !w.ranUnderCordon() {
		started = p.in.Now.UTC().Truncate(time.Second)
		if p.out.Set.DrainStarts == nil {
			p.out.Set.DrainStarts = map[string]time.Time{}
		}
		p.out.Set.DrainStarts[name] = started
		w.warnOfGrace(pods)
	}
	if timeout := w.nw.DrainTimeout; timeout > 0 && !started.IsZero() {
		if ends := started.Add(timeout); p.in.Now.Before(ends) {
			p.due(ends)
		} else {
			w.giveUpDrain(pods, timeout)
			return
		}
	}
	for i := range pods {
		pod := &pods[i]
		if pod.Terminating || pod.Holds != "" || pod.Stays || p.in.Now.Before(pod.RetryAt) {
			continue
		}
		p.out.Evict = append(p.out.Evict, Eviction{NodeWright: name, Pod: pod.Name, UID: pod.UID})
	}
	w.showDrain(pods, started)
}

// showDrain says what the drain waits for. Started is the zero time where that is
// not known.
func (w *work) showDrain(pods []Pod, started time.Time) {
	var stuck []string
	check := drainCheck
	if !started.IsZero() {
		check = min(max(w.p.in.Now.Sub(started), drainSoon), drainCheck)
	}
	for i := range pods {
		switch pod := &pods[i]; {
		case pod.Terminating:
		case pod.Holds != "":
			stuck = append(stuck, pod.Holds)
		case pod.Refused != "":
			stuck = append(stuck, pod.Refused)
			if pod.RetryAt.After(w.p.in.Now) {
				// Only what is due at that very time is tried again within the time promised.
				w.p.due(pod.RetryAt)
			}
		}
	}
	if len(stuck) > 0 {
		if len(w.p.out.Evict) == 0 {
			check = waitCheck
		}
		w.wait(nodestate.SlotDrainBlocked, shorten(stuck))
	} else {
		w.wait(nodestate.SlotDraining, "waits until these pods are gone: "+list(pods))
	}
	w.p.due(w.p.in.Now.Add(check))
}

// warnOfGrace tells of a drain that cannot end in time.
func (w *work) warnOfGrace(pods []Pod) {
	for i := range pods {
		grace := time.Duration(pods[i].GraceSeconds) * time.Second
		if timeout := w.nw.DrainTimeout; timeout > 0 && grace >= timeout {
			w.p.event(Event{w.nw.Name, "", true, ReasonDrainTooShort, fmt.Sprintf(
				"pod %s may take %s to end, and drain.timeout is %s: the drain may be given up before it can succeed", pods[i].Name, grace, timeout)})
			return
		}
	}
}

// giveUpDrain ends the wait: what was to run is erroring, and the cordon stays.
func (w *work) giveUpDrain(pods []Pod, timeout time.Duration) {
	for _, d := range w.awaitQuiet {
		e, running := w.entry(d.pkg.Name)
		if d.step.stage != "" {
			if d.step.stage.Interrupts() {
				e.Stage = d.step.stage
			} else {
				w.begin(d.pkg, d.step)
				e, running = w.entry(d.pkg.Name)
			}
		}
		if !running {
			continue
		}
		e.UID = w.nw.UID
		w.giveUp(e, ReasonDrainTimeout, fmt.Sprintf("the node was not empty within %s of drain.timeout, and stays cordoned; "+
			"ask for a rerun, or change the package, to try again: %s", timeout, list(pods)))
	}
	delete(w.p.out.Set.DrainStarts, w.nw.Name)
	w.active = w.goesOn()
}

func list(pods []Pod) string {
	var names []string
	for i := range pods[:min(len(pods), namedPods)] {
		names = append(names, pods[i].Name)
	}
	text := strings.Join(names, ", ")
	if more := len(pods) - namedPods; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func shorten(sentences []string) string {
	text := sentences[0]
	if more := len(sentences) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
