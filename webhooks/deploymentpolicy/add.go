package deploymentpolicy

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// PathValidate is the path that the webhook configuration names.
const PathValidate = "/validate-nodewright-nvidia-com-v1alpha1-deploymentpolicy"

// Options of the webhook: there are none yet.
type Options struct{}

// Who names a policy is asked when it is to be deleted; nothing is written.
// +kubebuilder:rbac:groups=nodewright.nvidia.com,resources=nodewrights,verbs=get;list;watch

// AddToManager registers the webhook, on every replica.
func AddToManager(mgr ctrl.Manager, _ Options) error {
	mgr.GetWebhookServer().Register(PathValidate,
		counted(admission.WithValidator(mgr.GetScheme(), &validator{live: mgr.GetAPIReader()})))
	return nil
}
