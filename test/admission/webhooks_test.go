package admission

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	configv1alpha1 "github.com/nodewright/nodewright/apis/config/v1alpha1"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
	"github.com/nodewright/nodewright/webhooks/deploymentpolicy"
	"github.com/nodewright/nodewright/webhooks/node"
	"github.com/nodewright/nodewright/webhooks/nodewright"
)

// eager is in the names of NodeWrights that the webhooks of the tests take for
// carried out, whatever this version supports.
const eager = "eager"

// runtimeRequired is the taint that new nodes get.
func runtimeRequired() corev1.Taint {
	taint, err := validation.ParseTaint(configv1alpha1.DefaultRuntimeRequiredTaints()[0])
	if err != nil {
		panic(err)
	}
	return taint
}

// addWebhooks registers the webhooks of this project.
func addWebhooks(mgr ctrl.Manager) error {
	return errors.Join(
		nodewright.AddToManager(mgr, nodewright.Options{}),
		deploymentpolicy.AddToManager(mgr, deploymentpolicy.Options{}),
		addNodeWebhooks(mgr),
	)
}

func addNodeWebhooks(mgr ctrl.Manager) error {
	return node.AddToManager(mgr, node.Options{
		Operator: operator.user, Taint: runtimeRequired(),
		Obstacle: func(nw *v1alpha1.NodeWright) string {
			if nw.Name == eager {
				return ""
			}
			return "not in these tests"
		},
	})
}
