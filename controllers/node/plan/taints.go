package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// Taints are the changes of the runtime-required taints of the node.
type Taints struct {
	// Put goes on before the record is written, and holds for the node as viewed
	// only; nil for none. For names the NodeWright that asks for it.
	Put *corev1.Taint
	For string
	// Remove go once the record is written, in the order of the configuration. By
	// names the NodeWrights that are complete on the node, in the order in which
	// they run; there is none where none asks for the taint any more.
	Remove []corev1.Taint
	By     []string
}

// planTaints decides about the runtime-required taints, once all NodeWrights are
// planned. It follows from what stands, at any later pass as well:
//
//   - All go when every NodeWright that requires its packages before workloads is
//     complete on the node. One that is paused, disabled or held by what this
//     operator does not support keeps them while it is not complete.
//   - Where no such NodeWright selects the node any more, ours goes, the first of
//     the configuration. With the others kubelets register: who set them up so
//     takes them off. A node that was never recorded keeps ours as well: it came
//     with it, before there was a NodeWright for it.
//   - Ours is put on a node that is new, and never comes back: see newTo.
//   - On a node that is ignored, taints are left alone. The node stays known as
//     long as ours stands, so that it goes once the label is off.
func (p *planner) planTaints() {
	if len(p.in.Config.Taints) == 0 {
		return
	}
	ours := p.in.Config.Taints[0]
	stands := slices.Contains(p.in.Taints, ours)
	if p.in.Node.Ignored {
		p.out.Remember = stands && p.recorded()
		return
	}
	required, missing, wantedBy := p.required()
	switch {
	case wantedBy != "" && !stands:
		p.out.Taints = Taints{Put: &ours, For: wantedBy}
	case missing:
	case len(required) > 0 && len(p.in.Taints) > 0:
		p.out.Taints = Taints{Remove: slices.Clone(p.in.Taints), By: required}
	case len(required) == 0 && stands && p.recorded():
		p.out.Taints = Taints{Remove: []corev1.Taint{ours}}
	}
}

// required names the NodeWrights that have to be complete on the node before
// workloads may run. missing says that one is not, wantedBy names the first of
// those for which the node is new.
func (p *planner) required() (names []string, missing bool, wantedBy string) {
	for i := range p.order {
		nw := &p.order[i]
		if !nw.RuntimeRequired || !nw.Selected || nw.Deleting {
			continue
		}
		names = append(names, nw.Name)
		if p.completeHere(nw) {
			continue
		}
		missing = true
		if wantedBy == "" && p.newTo(nw) {
			wantedBy = nw.Name
		}
	}
	return names, missing, wantedBy
}

// completeHere tells whether the NodeWright is complete on the node. One that is
// held may ask for more than its packages show.
func (p *planner) completeHere(nw *NodeWright) bool {
	return nw.Held == "" && p.out.Set.Status[nw.Name] == nodestate.StatusComplete
}

// recorded tells whether the node controller has ever written on the node. Its
// number stays as long as a NodeWright has anything to do with the node.
func (p *planner) recorded() bool {
	_, ok := p.in.Record.Seq[nodestate.OwnerNode]
	return ok
}

// gates tells whether the NodeWright keeps workloads off the node, or is about
// to. Such a node is recorded at once: from then on it is not new, and it is
// known that the taint has to go some day.
func (p *planner) gates(nw *NodeWright) bool {
	return nw.RuntimeRequired && len(p.in.Config.Taints) > 0 && (len(p.in.Taints) > 0 || p.newTo(nw))
}

// newTo tells whether the node is one that the taint is put on for the
// NodeWright: admission does that when a node is created, and this is for nodes
// that came while it was away. A taint that somebody took off must not return,
// nor land where workloads have been running for long, so all of this has to
// hold:
//
//   - The NodeWright wants it, is carried out, and was there before the node.
//   - Nothing of the operator stands on the node but a grant, which may come
//     before this controller sees the node. The first record ends this; reruns and
//     reboots do not bring it back.
//   - The node is young. Nodes that came while no manager ran for longer, that are
//     relabelled, or selected by a changed spec, run workloads already.
func (p *planner) newTo(nw *NodeWright) bool {
	node := &p.in.Node
	return nw.RuntimeRequired && nw.AutoTaint && nw.Held == "" && !node.Created.IsZero() &&
		!nw.Created.After(node.Created) && p.in.Now.Sub(node.Created) <= p.in.Config.NewNode && p.untouchedNode()
}

// untouchedNode tells whether nothing of the operator stands on the node but a
// grant.
func (p *planner) untouchedNode() bool {
	rec := &p.in.Record
	if len(rec.Malformed) > 0 {
		return false
	}
	for owner := range rec.Seq {
		if owner != nodestate.OwnerRollout {
			return false
		}
	}
	set := rec.Set
	set.Batches = nil
	return set.Empty()
}
