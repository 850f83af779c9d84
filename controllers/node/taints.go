package node

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// standing are those of the configured taints that stand on a node, as they are
// configured: when a taint was added says nothing about whose it is.
func standing(taints, configured []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	for i := range configured {
		for j := range taints {
			if taints[j].MatchTaint(&configured[i]) && taints[j].Value == configured[i].Value {
				out = append(out, configured[i])
			}
		}
	}
	return out
}

// putTaint keeps workloads off a new node. It comes before the record, which says
// that the node is not new any more. gone tells that there is no such node.
func (r *Reconciler) putTaint(ctx context.Context, in *gathered, p *plan.Plan) (gone bool, err error) {
	t := p.Taints.Put
	if t == nil {
		return false, nil
	}
	outcome, err := r.opts.Taints.ChangeTaints(ctx, in.view, apply.TaintChange{Put: t})
	if err != nil {
		return false, fmt.Errorf("put taint %s on node %s: %w", t.ToString(), in.Node.Name, err)
	}
	if outcome == apply.Written {
		logf.FromContext(ctx).Info("put taint", "node", in.Node.Name, "taint", t.ToString(), "nodewright", p.Taints.For)
		r.event(in, in.specs[p.Taints.For], "", false, eventTaintPut, fmt.Sprintf(
			"taint %s keeps workloads off until the NodeWright is complete there", t.ToString()))
	}
	return outcome == apply.NodeGone, nil
}

// removeTaints lets workloads onto the node. It comes after the record that says
// why: what fails in between is made up for by a later pass.
func (r *Reconciler) removeTaints(ctx context.Context, in *gathered, p *plan.Plan) error {
	if len(p.Taints.Remove) == 0 {
		return nil
	}
	var named []string
	for i := range p.Taints.Remove {
		named = append(named, p.Taints.Remove[i].ToString())
	}
	taints := strings.Join(named, ", ")
	outcome, err := r.opts.Taints.ChangeTaints(ctx, in.view, apply.TaintChange{Remove: p.Taints.Remove})
	if err != nil {
		return fmt.Errorf("take taints %s off node %s: %w", taints, in.Node.Name, err)
	}
	if outcome != apply.Written {
		return nil
	}
	logf.FromContext(ctx).Info("took taints off", "node", in.Node.Name, "taints", taints, "complete", p.Taints.By)
	var about *v1alpha1.NodeWright
	message := fmt.Sprintf("workloads may run, taint %s is gone: no NodeWright with runtimeRequired selects the node any more", taints)
	if by := p.Taints.By; len(by) > 0 {
		about = in.specs[by[0]]
		message = fmt.Sprintf("workloads may run, taint %s is gone: complete is %s", taints, strings.Join(by, ", "))
	}
	r.event(in, about, "", false, eventTaintRemoved, message)
	return nil
}
