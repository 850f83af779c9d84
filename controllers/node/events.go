package node

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// Reasons of events that do not come from the planner.
const (
	// eventConfigGone: the configMap that a package was set up with is gone, so its
	// uninstall gets that of the spec.
	eventConfigGone = "ConfigGone"
	// eventNoRoom: annotations of others leave no room on the node for the record; take some off it.
	eventNoRoom = "NoRoom"
	// eventJobRefused: the API server does not take the Job of a stage; the message says why.
	eventJobRefused = "JobRefused"
	// eventJobCreatedAgain: a Job that somebody deleted was created again.
	eventJobCreatedAgain = "JobCreatedAgain"
	// eventJobSuspended: a Job was suspended, for a pause or so that the node can be interrupted.
	eventJobSuspended = "JobSuspended"
	// eventJobResumed: a Job that was suspended goes on.
	eventJobResumed = "JobResumed"
	// eventMetadataDropped: annotations of the node are too large for the metadata of a
	// package, and were left out of it.
	eventMetadataDropped = "MetadataDropped"
	// eventTaintPut: the runtime-required taint was put on a new node.
	eventTaintPut = "TaintPut"
	// eventTaintRemoved: runtime-required taints were taken off the node.
	eventTaintRemoved = "TaintRemoved"

	actionRun = "RunPackages"
)

// tell sends the events of a plan that was carried out.
func (r *Reconciler) tell(in *gathered, p *plan.Plan) {
	for _, e := range p.Events {
		// Of a NodeWright that is gone the node is told.
		r.event(in, in.specs[e.NodeWright], e.Package, e.Warning, e.Reason, e.Message)
	}
}

// event speaks about a NodeWright, or one package of it, related to the node, or
// about the node alone where nw is nil.
func (r *Reconciler) event(in *gathered, nw *v1alpha1.NodeWright, pkg string, warning bool, reason, message string) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	if nw == nil {
		r.opts.Recorder.Eventf(in.view.Node, nil, kind, reason, actionRun, "node %s: %s", in.Node.Name, message)
		return
	}
	r.opts.Recorder.Eventf(nw.About(pkg), in.view.Node, kind, reason, actionRun, "node %s: %s", in.Node.Name, message)
}
