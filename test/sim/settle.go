package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// maxSteps bounds the way to rest, and stepsPerNode with it: beyond them the
// operator runs in circles.
const (
	maxSteps     = 20_000
	stepsPerNode = 2_000
)

// idleRounds is how often the time of the next thing may come without a change
// before the world counts as resting. Each round is twice as long as the one
// before, so that all are longer than any time limit there is.
const (
	idleRounds = 14
	firstRound = 10 * time.Second
)

// garbagePeriod is the time between two rounds of the pod garbage collector of
// Kubernetes.
const garbagePeriod = 20 * time.Second

// settle lets everything go on without users and faults until nothing is left to
// do, now or later.
func (w *world) settle(phase string) {
	w.log("--- %s", phase)
	idle, seen := 0, w.api.rv
	limit := maxSteps + stepsPerNode*len(w.api.nodes())
	for range limit {
		if w.goOn() {
			continue
		}
		// Who waits for pods to go looks again and again.
		if idle++; w.api.rv != seen {
			idle, seen = 0, w.api.rv
		}
		if idle > idleRounds {
			w.log("--- at rest, but for those that look again")
			w.logSlots()
			return
		}
		at, ok := w.nextTime()
		// Between two rounds of the collector time goes by: a Job whose node is gone
		// gets pods until somebody deletes it, and that may be due later.
		if round := w.now.Add(garbagePeriod); (!ok || round.Before(at)) && w.collectGarbage() {
			w.now = round
			continue
		}
		if !ok {
			w.log("--- at rest")
			w.logSlots()
			return
		}
		if later := w.now.Add(firstRound << idle); idle > 1 && at.Before(later) {
			at = later
		}
		w.now = at
	}
	w.fail("%s, the operator does not come to rest in %d steps", phase, limit)
}

// goOn lets one thing happen that needs no time. Mostly the operator is slower than
// the cluster, and waits a little before it looks at a whole rollout: that takes
// fewer passes.
func (w *world) goOn() bool {
	if w.hasty {
		return w.deliverOne() || w.runOne() || w.syncJob() || w.actKubelet() || w.endWorkload() || w.comeUp()
	}
	return w.actKubelet() || w.syncJob() || w.deliverOne() || w.runBut(rolloutController) || w.endWorkload() || w.comeUp() || w.runOne()
}

// logSlots says what each node waits for.
func (w *world) logSlots() {
	for _, n := range w.api.nodes() {
		rec := w.api.record(n)
		for _, nw := range slices.Sorted(maps.Keys(rec.Slots)) {
			s := rec.Slots[nw]
			w.log("  %s: slot of %s %s (%s) %s, cordoned %t, workloads %v", n.Name, nw, s.State, s.Reason, s.Message, n.Spec.Unschedulable, w.workloads[n.UID])
		}
	}
}

// nextTime is when the next thing is due.
func (w *world) nextTime() (time.Time, bool) {
	var next time.Time
	due := func(at time.Time) {
		if at.After(w.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, t := range w.op.timersByTime() {
		due(w.op.timers[t])
	}
	due(w.api.expiry)
	for _, job := range w.api.openJobs() {
		if at, ok := deadlineOf(job); ok {
			due(at)
		}
	}
	for _, pod := range w.api.openPods() {
		if pod.DeletionTimestamp != nil {
			due(w.endOf(pod))
		}
	}
	return next, !next.IsZero()
}

// someSteps is about how many steps it takes until Jobs run that were waited for.
const someSteps = 40

// tryAgain lets users allow more attempts of what has failed, and pause for a while
// what runs then.
func (w *world) tryAgain() {
	w.raiseLimits()
	for range w.rng.IntN(someSteps) {
		w.goOn()
	}
	paused := w.pauseSome()
	w.settle("paused")
	w.checks.quiet()
	for _, name := range paused {
		w.log("user: %s goes on", name)
		w.api.changeNodeWright(name, true, func(nw *v1alpha1.NodeWright) { delete(nw.Annotations, v1alpha1.AnnotationPause) })
	}
	w.settle("tried again")
	w.checks.quiet()
}

// pauseSome pauses what nobody holds, and names it.
func (w *world) pauseSome() []string {
	var paused []string
	for _, nw := range w.api.nodeWrights() {
		if nw.DeletionTimestamp == nil && !isStopped(nw) {
			paused = append(paused, nw.Name)
			w.log("user: %s is paused", nw.Name)
			w.api.changeNodeWright(nw.Name, true, func(nw *v1alpha1.NodeWright) { nw.Annotations[v1alpha1.AnnotationPause] = "true" })
		}
	}
	return paused
}

// raiseLimits lets users allow one or two attempts more.
func (w *world) raiseLimits() {
	for _, nw := range w.api.nodeWrights() {
		if nw.DeletionTimestamp == nil {
			limit := nw.Spec.RetryLimitOr(retryLimit) + int32(1+w.rng.IntN(2))
			w.api.changeNodeWright(nw.Name, true, func(nw *v1alpha1.NodeWright) { nw.Spec.Retry = &v1alpha1.Retry{Limit: &limit} })
			w.log("user: the retry limit of %s is %d now", nw.Name, limit)
		}
	}
}

// heal repairs what users and nodes did, and asks for another version of
// everything.
func (w *world) heal() {
	w.log("--- repair")
	w.flaky, w.healed = 0, true
	for _, n := range w.api.nodes() {
		for i := range w.workloads[n.UID] {
			w.workloads[n.UID][i].guarded = false
		}
		if unreachable(n) {
			w.setReachable(n.Name, true)
		}
		if hasTaint(n, maintenance) {
			w.maintain(n.Name, false)
		}
		if v1alpha1.NodeIgnored(n.Labels) {
			w.setIgnored(n.Name, false)
		}
	}
	for range 3 {
		w.settle("can be reached again")
		w.removeJunk()
	}
	w.settle("can be read again")
	for _, nw := range w.api.nodeWrights() {
		w.api.changeNodeWright(nw.Name, true, func(nw *v1alpha1.NodeWright) {
			nw.Annotations = map[string]string{}
			s := &nw.Spec
			s.Sequencing, s.DeploymentPolicy, s.Drain = v1alpha1.SequencingNode, "", nil
			switch b := s.InterruptionBudget; {
			case b == nil:
			case b.Percent != nil:
				b.Percent = ptr.To(max(*b.Percent, 10))
			default:
				b.Count = ptr.To(max(*b.Count, 1))
			}
			for i, name := range s.PackageNames() {
				p := s.Packages[name]
				if nw.DeletionTimestamp != nil {
					// What is to be taken off is what is on the host.
					p.Image, p.Env = "reg/"+name, []corev1.EnvVar{{Name: "A", Value: "repaired"}}
					if w.lostImage(nw.Name, name, p.Version) {
						// Nobody can pull the image of the version that is there.
						p.Uninstall = nil
					}
					s.Packages[name] = p
					continue
				}
				p.Image, p.Version = "reg/"+name, fmt.Sprintf("9.%d.0", i)
				// Then all is deleted, which takes these off.
				p.Uninstall = &v1alpha1.Uninstall{Enabled: w.chance(0.3) && !w.stuckOutside(nw, name)}
				s.Packages[name] = p
			}
			follow(s)
			breakCycles(s)
		})
		w.log("%s is repaired: %s", nw.Name, describeSpec(&w.api.nodeWright(nw.Name).Spec))
	}
}

// lostImage tells whether a node has the package at another version, whose image
// cannot be pulled.
func (w *world) lostImage(nw, pkg, version string) bool {
	return slices.ContainsFunc(w.api.nodes(), func(n *corev1.Node) bool {
		e, ok := w.api.record(n).Packages[nodestate.PackageRef{NodeWright: nw, Package: pkg}]
		return ok && e.Image == brokenImage && !nodestate.SameVersion(e.Version, version)
	})
}

// stuckOutside tells whether the package has failed on a node that the NodeWright does
// not select, where no new version of it comes: to take it off fails as well.
func (w *world) stuckOutside(nw *v1alpha1.NodeWright, pkg string) bool {
	return slices.ContainsFunc(w.api.nodes(), func(n *corev1.Node) bool {
		e, ok := w.api.record(n).Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: pkg}]
		return ok && !w.selects(nw, n) && (e.Image == brokenImage || e.State == nodestate.StateErroring)
	})
}

// breakCycles drops dependencies against the order of names: packages that came
// again may have closed a cycle.
func breakCycles(s *v1alpha1.NodeWrightSpec) {
	for name, p := range s.Packages {
		for other := range p.DependsOn {
			if other >= name {
				delete(p.DependsOn, other)
			}
		}
		s.Packages[name] = p
	}
}

func (w *world) removeJunk() {
	for _, n := range w.api.nodes() {
		for key, value := range n.Annotations {
			if value == junk {
				w.log("user: %s on %s is removed", key, n.Name)
				w.api.changeNode(n.Name, func(n *corev1.Node) { delete(n.Annotations, key) })
			}
		}
	}
}

// deleteAll deletes all NodeWrights.
func (w *world) deleteAll() {
	for _, nw := range w.api.nodeWrights() {
		w.log("user: %s is deleted", nw.Name)
		w.api.deleteNodeWright(nw.Name)
	}
}
