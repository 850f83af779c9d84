package rollout

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

// noteTaints reads what the taints of nodes mean for the NodeWright. found are
// the nodes of the input, in the same order.
func (r *Reconciler) noteTaints(nw *v1alpha1.NodeWright, in *plan.Input, found []*corev1.Node) {
	configured := r.opts.RuntimeRequired
	if len(configured) > 0 {
		in.RuntimeRequired = configured[0].ToString()
	}
	for i := range in.Nodes {
		taints := found[i].Spec.Taints
		if n := &in.Nodes[i]; (n.Selected || len(n.Uninstalls) > 0) && len(taints) > 0 {
			n.Gated, n.Created = gated(taints, configured), found[i].CreationTimestamp.Time
			n.Intolerable = r.opts.Intolerable(nw, taints)
		}
	}
}

// gated is the runtime-required taint that keeps workloads off; empty for none. One
// that only asks the scheduler to prefer other nodes does not.
func gated(taints, configured []corev1.Taint) string {
	for i := range taints {
		for j := range configured {
			if taints[i].MatchTaint(&configured[j]) && taints[i].Value == configured[j].Value &&
				taints[i].Effect != corev1.TaintEffectPreferNoSchedule {
				return taints[i].ToString()
			}
		}
	}
	return ""
}
