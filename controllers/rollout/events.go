package rollout

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

const (
	actionRollOut   = "RollOut"
	actionConfigure = "Configure"

	// reasonConfigMapReplaced: a ConfigMap of a package did not hold what the spec says, and was replaced.
	reasonConfigMapReplaced = "ConfigMapReplaced"
)

// configMapReplaced tells that a ConfigMap of a package had another content.
func configMapReplaced(pkg, configMap string) plan.Event {
	return plan.Event{
		Warning: true, Reason: reasonConfigMapReplaced,
		Message: "ConfigMap " + configMap + " of package " + pkg + " did not hold what the spec says and was replaced",
	}
}

// tell sends the events of a plan that was carried out.
func (r *Reconciler) tell(nw *v1alpha1.NodeWright, events []plan.Event) {
	for _, e := range events {
		r.event(nw, "", actionRollOut, e)
	}
}

// event speaks about a NodeWright, or one package of it.
func (r *Reconciler) event(nw *v1alpha1.NodeWright, pkg, action string, e plan.Event) {
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	r.opts.Recorder.Eventf(nw.About(pkg), nil, kind, e.Reason, action, "%s", e.Message)
}
