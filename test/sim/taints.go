package sim

import (
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/node/plan"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
)

// The taints of the model: those that keep workloads off nodes that are not set
// up, the first of them the one that the operator puts, and one of somebody else
// that ends pods.
var (
	runtimeRequired = []corev1.Taint{
		{Key: "nodewright.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule},
		{Key: "skyhook.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule},
	}
	maintenance         = corev1.Taint{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}
	tolerateMaintenance = corev1.Toleration{Key: maintenance.Key, Operator: corev1.TolerationOpExists}

	settings = stagejob.Settings{Tolerated: runtimeRequired}
)

// taintNew is what kubelet and admission do to a node that is created. Admission
// may be away.
func (w *world) taintNew(n *corev1.Node) {
	if w.tainted && w.chance(0.3) {
		n.Spec.Taints = append(n.Spec.Taints, runtimeRequired[1])
	}
	if w.chance(0.3) {
		return
	}
	for _, nw := range w.api.nodeWrights() {
		s := &nw.Spec
		if s.RuntimeRequired && s.AutoTaintNewNodes && nw.DeletionTimestamp == nil && w.selects(nw, n) && w.spec(nw).obstacle == "" {
			n.Spec.Taints = append(n.Spec.Taints, runtimeRequired[0])
			return
		}
	}
}

func hasTaint(n *corev1.Node, t corev1.Taint) bool { return slices.Contains(n.Spec.Taints, t) }

// gatesOf are the runtime-required taints of a node.
func gatesOf(n *corev1.Node) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range runtimeRequired {
		if hasTaint(n, t) {
			out = append(out, t)
		}
	}
	return out
}

func named(taints []corev1.Taint) string {
	var out []string
	for i := range taints {
		out = append(out, taints[i].ToString())
	}
	return strings.Join(out, " ")
}

func with(taints []corev1.Taint, t corev1.Taint) []corev1.Taint {
	return append(slices.Clone(taints), t)
}

func without(taints []corev1.Taint, gone ...corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return slices.Contains(gone, t) })
}

// maintain puts the taint of somebody else on or takes it off. Workloads do not
// tolerate it.
func (w *world) maintain(name string, yes bool) {
	w.log("node %s has taint %s: %t", name, maintenance.ToString(), yes)
	w.api.changeNode(name, func(n *corev1.Node) {
		if n.Spec.Taints = without(n.Spec.Taints, maintenance); yes {
			n.Spec.Taints = append(n.Spec.Taints, maintenance)
			w.workloads[n.UID] = nil
		}
	})
}

// letIn takes a runtime-required taint off by hand, or puts one on that goes
// again.
func (w *world) letIn(n *corev1.Node) {
	t := pick(w, runtimeRequired)
	there := hasTaint(n, t)
	w.log("user: node %s has taint %s: %t", n.Name, t.ToString(), !there)
	if there {
		w.checks.ungated(n)
	}
	w.api.changeNode(n.Name, func(n *corev1.Node) {
		if n.Spec.Taints = without(n.Spec.Taints, t); !there {
			n.Spec.Taints = append(n.Spec.Taints, t)
		}
	})
}

// tolerates tells whether a pod that is bound to the node can live there.
func tolerates(pod *corev1.Pod, node *corev1.Node) bool {
	return !hasTaint(node, maintenance) || slices.Contains(pod.Spec.Tolerations, tolerateMaintenance)
}

// reject is what a kubelet does with a pod that does not tolerate its node. Where
// the world is left alone the kubelet takes its time: the operator would try
// again for ever.
func (w *world) reject(pod *corev1.Pod) bool {
	if !w.stormy {
		return false
	}
	w.log("pod %s is rejected: it does not tolerate the taints of the node", pod.Name)
	w.api.changePod(pod, func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "TaintToleration", "a taint is not tolerated"
	})
	return true
}

// putTaint keeps workloads off a node that is new, before the record says that it
// is not new any more. gone tells that there is no such node.
func (o *operator) putTaint(v *view, p *plan.Plan) (gone bool, err error) {
	if p.Taints.Put == nil {
		return false, nil
	}
	err = o.changeTaints(v, "puts "+p.Taints.Put.ToString()+" on", true, func(n *corev1.Node) []corev1.Taint {
		if hasTaint(n, *p.Taints.Put) {
			return n.Spec.Taints
		}
		o.w.checks.gated(v.node, n, p)
		return with(n.Spec.Taints, *p.Taints.Put)
	})
	if errors.Is(err, errGone) {
		return true, nil
	}
	return false, err
}

// removeTaints lets workloads in, once the record stands.
func (o *operator) removeTaints(v *view, p *plan.Plan) error {
	if len(p.Taints.Remove) == 0 {
		return nil
	}
	err := o.changeTaints(v, "takes "+named(p.Taints.Remove)+" off", false, func(n *corev1.Node) []corev1.Taint {
		left := without(n.Spec.Taints, p.Taints.Remove...)
		if len(left) < len(n.Spec.Taints) {
			o.w.checks.letIn(n, p)
		}
		return left
	})
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// changeTaints is what a controllers/apply.Writer does: the change is made to the
// list as it is by then. A put is for the node as viewed.
func (o *operator) changeTaints(v *view, what string, put bool, change func(*corev1.Node) []corev1.Taint) error {
	return o.w.request("node controller "+what+" "+v.node.Name, func() error {
		live := o.w.api.node(v.node.Name)
		switch {
		case live == nil || live.UID != v.node.UID:
			return errGone
		case put && (!maps.Equal(live.Labels, v.node.Labels) || ownedBy(live, nodestate.OwnerNode)):
			return errStale
		}
		taints := change(live)
		if len(taints) == len(live.Spec.Taints) {
			return nil
		}
		// The change, and the event about it.
		o.w.writes += 2
		o.w.api.changeNode(live.Name, func(n *corev1.Node) { n.Spec.Taints = taints })
		w := o.writers[nodestate.OwnerNode]
		m := w.nodes[live.Name]
		m.rv = o.w.api.rv
		w.nodes[live.Name] = m
		return nil
	}, nil)
}

func ownedBy(n *corev1.Node, owner nodestate.Owner) bool {
	for key := range n.Annotations {
		if owns(key, owner) {
			return true
		}
	}
	return false
}

// ungated remembers that somebody took a taint off a node that is known.
func (c *checks) ungated(n *corev1.Node) {
	if ownedBy(n, nodestate.OwnerNode) {
		c.lifted[n.UID] = true
	}
}

// requires tells whether the NodeWright has to be complete on the node before
// workloads may run there.
func (c *checks) requires(nw *v1alpha1.NodeWright, node *corev1.Node) bool {
	return nw.Spec.RuntimeRequired && nw.DeletionTimestamp == nil && c.w.selects(nw, node)
}

// spoilt tells whether a user made an entry of the NodeWright unreadable, or took it
// away, since the record was read.
func (c *checks) spoilt(rec, read *nodestate.Record, nw string) bool {
	for ref := range read.Packages {
		if _, stands := rec.Packages[ref]; ref.NodeWright == nw && !stands {
			return true
		}
	}
	return len(rec.Malformed) > len(read.Malformed)
}

// gated: the taint goes on new nodes only, for a NodeWright that was there before,
// and never where it was taken off.
func (c *checks) gated(viewed, node *corev1.Node, p *plan.Plan) {
	basis := &c.w.op.basis
	nw := basis.specs[p.Taints.For]
	switch {
	case nw == nil || !c.requires(nw, viewed) || !nw.Spec.AutoTaintNewNodes || c.w.spec(nw).obstacle != "":
		c.w.fail("%s gets taint %s for %q, which does not ask for it", node.Name, p.Taints.Put.ToString(), p.Taints.For)
	case nw.CreationTimestamp.After(node.CreationTimestamp.Time):
		c.w.fail("%s gets taint %s for %s, which came after it", node.Name, p.Taints.Put.ToString(), nw.Name)
	case basis.at.Sub(node.CreationTimestamp.Time) > newNode:
		c.w.fail("%s gets taint %s, and it is not new", node.Name, p.Taints.Put.ToString())
	case c.lifted[node.UID]:
		c.w.fail("%s gets taint %s again", node.Name, p.Taints.Put.ToString())
	case v1alpha1.NodeIgnored(viewed.Labels):
		c.w.fail("%s gets taint %s, and it is ignored", node.Name, p.Taints.Put.ToString())
	}
}

// letIn: every NodeWright that requires its packages before workloads is complete
// by the record that stands; where there is none, only the taint of the operator
// goes, from nodes that it knows.
func (c *checks) letIn(node *corev1.Node, p *plan.Plan) {
	basis := &c.w.op.basis
	rec := c.w.api.record(node)
	required := false
	for _, name := range slices.Sorted(maps.Keys(basis.specs)) {
		nw := basis.specs[name]
		if !c.requires(nw, basis.node) {
			continue
		}
		required = true
		// What a user made unreadable since the pass read it cannot be judged.
		if c.w.spec(nw).obstacle != "" || !c.nodeComplete(nw, rec) && !c.spoilt(rec, &basis.record, name) {
			c.w.fail("workloads are let onto %s, and %s is not complete there: %s", node.Name, name, entriesOf(rec, name))
		}
	}
	_, known := basis.record.Seq[nodestate.OwnerNode]
	switch {
	case v1alpha1.NodeIgnored(basis.node.Labels):
		c.w.fail("workloads are let onto %s, which is ignored", node.Name)
	case !required && (!known || !slices.Equal(p.Taints.Remove, runtimeRequired[:1])):
		c.w.fail("taints %s go from %s, and no NodeWright is complete there; known: %t", named(p.Taints.Remove), node.Name, known)
	}
	c.lifted[node.UID] = true
}

// givenUp: a node is not forgotten before the taint of the operator is off. Once it
// is, the node counts as one that nobody has seen: where it is still new and a
// NodeWright selects it again, the taint comes again.
func (c *checks) givenUp(node *corev1.Node) {
	if c.known[node.UID] && hasTaint(c.basis.node, runtimeRequired[0]) {
		c.w.fail("node %s is given up with taint %s, which nobody will take off", node.Name, runtimeRequired[0].ToString())
	}
}

// gate: a runtime-required taint stands at rest only for a NodeWright that is not
// complete on the node, and that is said of it; else only what kubelets registered
// the node with.
func (c *checks) gate(node *corev1.Node) {
	taints := gatesOf(node)
	if len(taints) == 0 || v1alpha1.NodeIgnored(node.Labels) {
		return
	}
	rec := c.w.api.record(node)
	required, missing := false, false
	for _, nw := range c.w.api.nodeWrights() {
		if !c.requires(nw, node) {
			continue
		}
		required = true
		if c.w.spec(nw).obstacle != "" {
			missing = true
			continue
		}
		if rec.Status[nw.Name] == nodestate.StatusComplete {
			continue
		}
		missing = true
		if !isTrue(nw.Status.Conditions, v1alpha1.ConditionNodesGated) || !problemNames(nw, v1alpha1.ConditionNodesGated, node.Name) {
			c.w.fail("at rest, taint %s keeps workloads off %s until %s is complete, and nothing says so", taints[0].ToString(), node.Name, nw.Name)
		}
	}
	_, known := rec.Seq[nodestate.OwnerNode]
	switch {
	case required && !missing:
		c.w.fail("at rest, taints %s stand on %s, and all that have to be complete are", named(taints), node.Name)
	case !required && (known || c.known[node.UID]) && hasTaint(node, runtimeRequired[0]):
		c.w.fail("at rest, taint %s stands on %s, and nobody asks for it", runtimeRequired[0].ToString(), node.Name)
	}
}

// bearable: where pods cannot run for a taint, that is said.
func (c *checks) bearable(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record) {
	if nw.DeletionTimestamp != nil || c.w.spec(nw).obstacle != "" || !c.w.selects(nw, node) || v1alpha1.NodeIgnored(node.Labels) ||
		rec.Status[nw.Name] == nodestate.StatusComplete || !intolerable(nw, node) {
		return
	}
	if !isTrue(nw.Status.Conditions, v1alpha1.ConditionTaintNotTolerable) || !problemNames(nw, v1alpha1.ConditionTaintNotTolerable, node.Name) {
		c.w.fail("at rest, pods of %s cannot run on %s for taint %s, and nothing says so: %+v", nw.Name, node.Name, maintenance.ToString(), nw.Status.Problems)
	}
}

// intolerable tells whether pods of the NodeWright cannot live on the node.
func intolerable(nw *v1alpha1.NodeWright, node *corev1.Node) bool {
	return hasTaint(node, maintenance) && !slices.Contains(nw.Spec.AdditionalTolerations, tolerateMaintenance)
}

// problemNames tells whether a problem names the node, or has more nodes than it
// names.
func problemNames(nw *v1alpha1.NodeWright, kind, node string) bool {
	for i := range nw.Status.Problems {
		p := &nw.Status.Problems[i]
		if p.Type == kind {
			return int(p.Count) > len(p.Nodes) || slices.ContainsFunc(p.Nodes, func(n v1alpha1.ProblemNode) bool { return n.Name == node })
		}
	}
	return false
}

// free tells whether the node needs no share of the budget of the NodeWright:
// workloads are kept off until it is complete there.
func (c *checks) free(nw *v1alpha1.NodeWright, node *corev1.Node, word nodestate.StatusWord) bool {
	return c.requires(nw, node) && len(gatesOf(node)) > 0 && !v1alpha1.NodeIgnored(node.Labels) && word != nodestate.StatusComplete
}
