package sim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// Annotations of the model on nodes: who holds the cordon. The field itself has
// one value, and goes with the last who holds it.
const (
	ownCordon   = "sim/own-cordon"
	humanCordon = "sim/human-cordon"
)

// Annotations of the model on Jobs and pods of interrupts: the type, and the boot
// under which the agent may reboot.
const (
	interruptType = "sim/interrupt"
	interruptBoot = "sim/boot"
)

const reboot = "reboot"

// workload is a pod of somebody else on a node.
type workload struct {
	name string
	uid  types.UID
	// guarded by a budget that lets nobody go; stays until it ends by itself.
	guarded, stays bool
	terminating    bool
}

// refusal is what an eviction was answered.
type refusal struct{ retryAt time.Time }

// lookAt is what the API server says of the workloads of a node.
func (o *operator) lookAt(node *corev1.Node) []plan.Pod {
	var out []plan.Pod
	for _, l := range o.w.workloads[node.UID] {
		pod := plan.Pod{Name: l.name, UID: string(l.uid), Terminating: l.terminating, NonInterrupt: l.stays, Stays: l.stays}
		if r, refused := o.refusals[l.uid]; refused && l.guarded {
			pod.Refused, pod.Blocked, pod.RetryAt = "pod "+l.name+" waits for its budget", true, r.retryAt
		}
		out = append(out, pod)
	}
	return out
}

func (o *operator) evictAll(node string, p *plan.Plan) error {
	for i := range p.Evict {
		if err := o.evict(node, &p.Evict[i]); err != nil {
			return err
		}
	}
	return nil
}

// evict asks for the end of a workload.
func (o *operator) evict(node string, e *plan.Eviction) error {
	if o.basis.record.Cordons[e.NodeWright].IsZero() || !o.basis.node.Spec.Unschedulable {
		o.w.fail("%s is evicted from %s before its cordon was seen", e.Pod, node)
	}
	return o.w.request("node controller evicts "+e.Pod, func() error {
		uid := o.basis.node.UID
		i := slices.IndexFunc(o.w.workloads[uid], func(l workload) bool { return l.uid == types.UID(e.UID) })
		if i < 0 {
			return nil
		}
		l := &o.w.workloads[uid][i]
		if l.terminating || l.stays {
			o.w.fail("%s is evicted, and it ends already, or must not be interrupted", l.name)
		}
		if l.guarded {
			o.refusals[l.uid] = refusal{retryAt: o.w.now.Add(10 * time.Second)}
			o.after(task{nodeController, node}, o.w.now.Add(time.Second))
			return nil
		}
		l.terminating = true
		return nil
	}, nil)
}

// workloadPlays are what schedulers, kubelets and administrators do to workloads.
func (w *world) workloadPlays() []play {
	return []play{
		{12, w.endWorkload},
		{5, func() bool {
			return w.bind(func(n *corev1.Node) bool { return !n.Spec.Unschedulable && len(n.Spec.Taints) == 0 })
		}},
		{2, w.comeUp},
	}
}

// rudePlays are those that a schedule without users leaves out.
func (w *world) rudePlays() []play {
	return []play{
		{1, func() bool { return w.bind(func(n *corev1.Node) bool { return n.Spec.Unschedulable }) }},
		{3, w.changeGuard},
		{2, w.cordonByHand},
		{1, func() bool {
			return anyOf(w, w.api.nodes(), func(n *corev1.Node) bool {
				if !ready(n) {
					return false
				}
				w.log("node %s is rebooted by somebody", n.Name)
				w.reboot(n)
				return true
			})
		}},
	}
}

// endWorkload lets a pod that ends be gone, or one that stays end by itself.
func (w *world) endWorkload() bool {
	return anyOf(w, w.api.nodes(), func(n *corev1.Node) bool {
		all := w.workloads[n.UID]
		i := slices.IndexFunc(all, func(l workload) bool { return l.terminating || l.stays && w.chance(0.3) })
		if i < 0 || !ready(n) {
			return false
		}
		w.log("%s on %s is gone", all[i].name, n.Name)
		w.workloads[n.UID] = slices.Delete(slices.Clone(all), i, i+1)
		return true
	})
}

// bind puts a workload on a node.
func (w *world) bind(fit func(*corev1.Node) bool) bool {
	return anyOf(w, w.api.nodes(), func(n *corev1.Node) bool {
		if !fit(n) || !ready(n) || len(w.workloads[n.UID]) > 2 {
			return false
		}
		l := workload{name: fmt.Sprintf("apps/%s", w.api.uid("web")), uid: w.api.uid("pod")}
		if !w.opts.Calm {
			l.guarded, l.stays = w.chance(0.2), w.chance(0.1)
		}
		w.log("%s is bound to %s, guarded %t, stays %t", l.name, n.Name, l.guarded, l.stays)
		w.workloads[n.UID] = append(slices.Clone(w.workloads[n.UID]), l)
		w.disturbed[n.UID]++
		return true
	})
}

func (w *world) changeGuard() bool {
	return anyOf(w, w.api.nodes(), func(n *corev1.Node) bool {
		i := slices.IndexFunc(w.workloads[n.UID], func(l workload) bool { return l.guarded })
		if i < 0 {
			return false
		}
		w.workloads[n.UID][i].guarded = false
		w.log("%s may go now", w.workloads[n.UID][i].name)
		return true
	})
}

// cordonByHand is kubectl cordon or uncordon. A cordon of a node that is cordoned
// changes nothing, and so gives nobody a hold on it.
func (w *world) cordonByHand() bool {
	return anyOf(w, w.api.nodes(), func(n *corev1.Node) bool {
		cordon := !n.Spec.Unschedulable
		w.log("user: node %s is cordoned by hand: %t", n.Name, cordon)
		w.api.changeNode(n.Name, func(n *corev1.Node) {
			n.Spec.Unschedulable = cordon
			delete(n.Annotations, humanCordon)
			delete(n.Annotations, ownCordon)
			if cordon {
				mark(n, humanCordon)
			}
		})
		w.disturbed[n.UID]++
		return true
	})
}

func mark(n *corev1.Node, key string) {
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[key] = "true"
}

// holdCordon is what an apply of the node controller does to the cordon.
func holdCordon(n *corev1.Node, hold bool) {
	_, ours := n.Annotations[ownCordon]
	switch {
	case hold:
		mark(n, ownCordon)
		n.Spec.Unschedulable = true
	case ours:
		delete(n.Annotations, ownCordon)
		n.Spec.Unschedulable = n.Annotations[humanCordon] != ""
	}
}

// cordonStands tells whether the cordon is as the node controller wants it.
func cordonStands(n *corev1.Node, hold bool) bool {
	_, ours := n.Annotations[ownCordon]
	return ours == hold && (!hold || n.Spec.Unschedulable)
}

func ready(n *corev1.Node) bool { return n.Status.Conditions[0].Status == corev1.ConditionTrue }

// reboot takes a node down; what runs there ends.
func (w *world) reboot(n *corev1.Node) {
	for _, pod := range w.api.podsOn(n.Name) {
		if pod.Status.Phase == corev1.PodRunning {
			w.endPod(pod, corev1.PodFailed, 137, "Error")
		}
	}
	w.workloads[n.UID] = nil
	w.api.changeNode(n.Name, func(n *corev1.Node) {
		n.Status.NodeInfo.BootID = string(w.api.uid("boot"))
		n.Status.Conditions[0].Status = corev1.ConditionFalse
	})
}

// comeUp brings a node up that was rebooted.
func (w *world) comeUp() bool {
	return anyOf(w, w.api.nodes(), func(n *corev1.Node) bool {
		if n.Status.Conditions[0].Status != corev1.ConditionFalse {
			return false
		}
		w.log("node %s is up again", n.Name)
		w.api.changeNode(n.Name, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
		return true
	})
}

// interruptNode is what the agent of a reboot does: nothing under another boot.
func (w *world) interruptNode(pod *corev1.Pod, node *corev1.Node) {
	switch {
	case pod.Annotations[interruptBoot] != node.Status.NodeInfo.BootID:
		w.log("pod %s finds another boot and does nothing", pod.Name)
		w.endPod(pod, corev1.PodSucceeded, 0, "Completed")
	case w.chance(w.flaky):
		w.log("pod %s fails to reboot", pod.Name)
		w.endPod(pod, corev1.PodFailed, 1, "Error")
	default:
		w.log("pod %s reboots %s", pod.Name, node.Name)
		if w.chance(0.5) {
			w.endPod(pod, corev1.PodSucceeded, 0, "Completed")
		}
		w.checks.rebooted(pod, node)
		w.reboot(w.api.node(node.Name))
	}
}

// interruptedQuietly: nobody is interrupted who could have been evicted.
func (c *checks) interruptedQuietly(id string, node *corev1.Node) {
	basis := &c.w.op.basis
	if c.w.disturbed[node.UID] != basis.disturbed {
		// Somebody cordoned, uncordoned or bound a pod between the look and the write:
		// no client can exclude that.
		return
	}
	if !basis.node.Spec.Unschedulable || len(basis.record.Cordons) == 0 || !basis.looked {
		c.w.fail("%s interrupts %s, and its cordon was not seen or nobody looked at its pods", id, node.Name)
	}
	if !node.Spec.Unschedulable || len(c.w.workloads[node.UID]) > 0 {
		c.w.fail("%s interrupts %s: cordoned %t, workloads %v", id, node.Name, node.Spec.Unschedulable, c.w.workloads[node.UID])
	}
	for _, job := range c.w.api.jobsOn(node.Name) {
		other, err := c.w.api.identity(job)
		if err == nil && other.Node == node.Name && other.JobName() != id && !packagejob.Asleep(job) && c.executes(job, node.Name, other.Ref()) {
			c.w.fail("%s interrupts %s while %s runs", id, node.Name, job.Name)
		}
	}
}

// rebooted remembers a reboot by an attempt.
func (c *checks) rebooted(pod *corev1.Pod, node *corev1.Node) {
	id, _ := c.refOf(pod)
	key := keyOf(&id)
	if c.reboots[key]++; c.reboots[key] > 1 {
		c.w.fail("%s reboots %s for the second time", pod.Name, node.Name)
	}
}

// cordonWritten: a cordon of somebody else stays, and ours stands only with a key.
func (c *checks) cordonWritten(before, after *corev1.Node) {
	if before.Annotations[humanCordon] != "" && !after.Spec.Unschedulable {
		c.w.fail("the cordon of a human on %s is gone", after.Name)
	}
	rec := c.w.api.record(after)
	_, ours := after.Annotations[ownCordon]
	if ours != (len(rec.Cordons) > 0) {
		c.w.fail("node %s: own cordon %t with keys %v", after.Name, ours, rec.Cordons)
	}
	for name := range rec.DrainStarts {
		if _, cordoned := rec.Cordons[name]; !cordoned {
			c.w.fail("node %s is drained for %s without its cordon", after.Name, name)
		}
	}
}

// interruptOver tells whether the interrupt that the entry stood at is over: by
// its Job, by another boot, or by the end of the one that it shares.
func (c *checks) interruptOver(node *corev1.Node, e *nodestate.PackageStatus) bool {
	switch {
	case e.State == nodestate.StateSkipped:
		return true // see shares
	case e.Interrupt != nil && e.Interrupt.Type == reboot:
		return node.Status.NodeInfo.BootID != e.BootID
	default:
		return c.succeeded[stageKey{node.UID, e.Ref(), e.Run, e.Stage}]
	}
}

// shares: who shared an interrupt is complete only with its carrier.
func (c *checks) shares(node *corev1.Node, was, is *nodestate.Record, e, old *nodestate.PackageStatus) {
	if old.State != nodestate.StateSkipped || e.Run != old.Run || e.State == nodestate.StateSkipped || e.Stage == nodestate.StageConfig ||
		e.Stage == nodestate.StageUninstall {
		return
	}
	ref := nodestate.PackageRef{NodeWright: e.NodeWright, Package: old.Carrier}
	carrier, stands := is.Packages[ref]
	if !stands {
		carrier = was.Packages[ref]
	}
	over := carrier.Stage == nodestate.StagePostInterrupt || carrier.Stage.Interrupts() && carrier.State == nodestate.StateComplete
	if before := was.Packages[ref]; !over && before.Stage.Interrupts() && !c.interruptOver(node, &before) || !stands && !carrier.Stage.Uninstalls() {
		c.w.fail("%s on %s follows the interrupt of %s: %s", describeEntry(e), node.Name, old.Carrier, describeEntry(&carrier))
	}
}
