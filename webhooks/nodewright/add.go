package nodewright

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
	"github.com/nodewright/nodewright/webhooks/answer"
)

// The paths that the webhook configurations name.
const (
	PathDefault  = "/mutate-nodewright-nvidia-com-v1alpha1-nodewright"
	PathValidate = "/validate-nodewright-nvidia-com-v1alpha1-nodewright"
)

// Options of the webhooks.
type Options struct {
	// Rules of the manager's configuration.
	Rules validation.Rules
}

// Nodes and policies are read to judge an update; nothing is written.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=nodewright.nvidia.com,resources=deploymentpolicies,verbs=get;list;watch

// AddToManager registers both webhooks, on every replica.
func AddToManager(mgr ctrl.Manager, opts Options) error {
	// A cache that a request is the first to ask would make it wait.
	for _, kind := range []client.Object{&corev1.Node{}, &v1alpha1.DeploymentPolicy{}} {
		if _, err := mgr.GetCache().GetInformer(context.Background(), kind); err != nil {
			return fmt.Errorf("watch %T for webhooks of NodeWrights: %w", kind, err)
		}
	}
	server := mgr.GetWebhookServer()
	server.Register(PathDefault, counted(webhookDefault, &webhook.Admission{Handler: &defaulter{}}))
	server.Register(PathValidate, hook(mgr.GetScheme(), &validator{
		nodes: mgr.GetCache(), policies: mgr.GetCache(), live: mgr.GetAPIReader(), rules: opts.Rules,
	}))
	return nil
}

// hook is what the API server asks about NodeWrights.
func hook(scheme *runtime.Scheme, v *validator) *admission.Webhook {
	return counted(webhookValidate, answer.PastUnreadable(admission.WithValidator(scheme, v), scheme, v1alpha1.KindNodeWright))
}
