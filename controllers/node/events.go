package node

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// Reasons of events that do not come from the planner.
const (
	eventConfigGone      = "ConfigGone"
	eventNoRoom          = "NoRoom"
	eventJobRefused      = "JobRefused"
	eventJobCreatedAgain = "JobCreatedAgain"
	eventJobSuspended    = "JobSuspended"
	eventJobResumed      = "JobResumed"
	eventMetadataDropped = "MetadataDropped"
	eventTaintPut        = "TaintPut"
	eventTaintRemoved    = "TaintRemoved"

	actionRun = "RunPackages"
)

// tell sends the events of a plan that was carried out.
func (r *Reconciler) tell(in *gathered, p *plan.Plan) {
	for _, e := range p.Events {
		if nw := in.specs[e.NodeWright]; nw != nil {
			r.event(in, nw, e.Package, e.Warning, e.Reason, e.Message)
		}
	}
}

// event speaks about a NodeWright, or one package of it, related to the node, or
// about the node alone where nw is nil.
//
// Events of one pass that differ in nothing but their notes become one, with the
// note of the first: so the package is part of what the event is about.
func (r *Reconciler) event(in *gathered, nw *v1alpha1.NodeWright, pkg string, warning bool, reason, message string) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	if nw == nil {
		r.opts.Recorder.Eventf(in.view.Node, nil, kind, reason, actionRun, "node %s: %s", in.Node.Name, message)
		return
	}
	about := &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindNodeWright, Name: nw.Name, UID: nw.UID,
	}
	if pkg != "" {
		about.FieldPath = "spec.packages{" + pkg + "}"
	}
	r.opts.Recorder.Eventf(about, in.view.Node, kind, reason, actionRun, "node %s: %s", in.Node.Name, message)
}
