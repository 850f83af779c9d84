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
			r.event(in, nw, e.Warning, e.Reason, e.Message)
		}
	}
}

// event speaks about a NodeWright, related to the node, or about the node alone
// where nw is nil.
func (r *Reconciler) event(in *gathered, nw *v1alpha1.NodeWright, warning bool, reason, message string) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	if nw == nil {
		r.opts.Recorder.Eventf(in.view.Node, nil, kind, reason, actionRun, "node %s: %s", in.Node.Name, message)
		return
	}
	r.opts.Recorder.Eventf(nw, in.view.Node, kind, reason, actionRun, "node %s: %s", in.Node.Name, message)
}
