package sim

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// failurePlays are what fails, comes and goes without any change of what users
// want.
func (w *world) failurePlays() []play {
	return []play{
		{2, w.someNode(func(n *corev1.Node) { w.setReachable(n.Name, unreachable(n)) })},
		{1, w.someNode(func(n *corev1.Node) {
			w.log("node %s goes", n.Name)
			w.api.remove(kindNode, n.Name)
		})},
		{2, func() bool {
			name := nodeName(w.rng.IntN(w.size + 1))
			if w.api.node(name) != nil {
				return false
			}
			w.createNode(name)
			return true
		}},
		{1, w.landLate},
		{1, w.someNode(func(n *corev1.Node) { w.maintain(n.Name, !hasTaint(n, maintenance)) })},
		{3, w.deleteJobOrPod},
	}
}

func (w *world) someNode(do func(*corev1.Node)) func() bool {
	return func() bool {
		nodes := w.api.nodes()
		if len(nodes) == 0 {
			return false
		}
		do(pick(w, nodes))
		return true
	}
}

// nodePlays are what happens to nodes.
func (w *world) nodePlays() []play {
	return append(w.failurePlays(), []play{
		{2, w.someNode(func(n *corev1.Node) { w.setIgnored(n.Name, !v1alpha1.NodeIgnored(n.Labels)) })},
		{1, w.someNode(func(n *corev1.Node) {
			pool := pick(w, []string{"a", "b"})
			w.api.changeNode(n.Name, func(n *corev1.Node) { n.Labels[labelPool] = pool })
			w.log("node %s is in pool %s now", n.Name, pool)
		})},
		{1, w.someNode(w.letIn)},
	}...)
}

func (w *world) setReachable(name string, yes bool) {
	w.log("node %s is reachable: %v", name, yes)
	w.api.changeNode(name, func(n *corev1.Node) {
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		if yes {
			n.Status.Conditions[0].Status = corev1.ConditionTrue
		}
	})
}

func (w *world) setIgnored(name string, yes bool) {
	w.log("node %s is ignored: %v", name, yes)
	w.api.changeNode(name, func(n *corev1.Node) {
		delete(n.Labels, v1alpha1.LabelIgnore)
		if yes {
			n.Labels[v1alpha1.LabelIgnore] = "true"
		}
	})
}
