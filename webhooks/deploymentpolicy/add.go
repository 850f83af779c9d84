package deploymentpolicy

import (
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/webhooks/answer"
)

// PathValidate is the path that the webhook configuration names.
const PathValidate = "/validate-nodewright-nvidia-com-v1alpha1-deploymentpolicy"

// Options of the webhook: there are none yet.
type Options struct{}

// Who names a policy is asked when it is to be deleted; nothing is written.
// +kubebuilder:rbac:groups=nodewright.nvidia.com,resources=nodewrights,verbs=get;list;watch

// AddToManager registers the webhook, on every replica.
func AddToManager(mgr ctrl.Manager, _ Options) error {
	mgr.GetWebhookServer().Register(PathValidate, hook(mgr.GetScheme(), &validator{live: mgr.GetAPIReader()}))
	return nil
}

// hook is what the API server asks about DeploymentPolicies.
func hook(scheme *runtime.Scheme, v *validator) *admission.Webhook {
	return counted(answer.PastUnreadable(admission.WithValidator(scheme, v), scheme, v1alpha1.KindDeploymentPolicy))
}
