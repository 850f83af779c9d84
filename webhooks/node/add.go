package node

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/support"
)

// Whether somebody may break the glass is asked of the API server. NodeWrights
// are read from the cache. Nothing is written: nodes are changed in the request.
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=nodewright.nvidia.com,resources=nodewrights,verbs=get;list;watch

// Options of the webhooks of nodes.
type Options struct {
	// Operator is the user name of the operator itself, as
	// system:serviceaccount:<namespace>:<name>. Required.
	Operator string
	// Taint is put on new nodes that have to be set up before workloads may land
	// there. Without a key, none is.
	Taint corev1.Taint
	// Reviewer tells who may break the glass; default is the API server.
	Reviewer Reviewer
	// Obstacle says why nothing of a NodeWright is carried out, and is empty if
	// something is; default is support.Obstacle.
	Obstacle func(*v1alpha1.NodeWright) string
}

var errNoOperator = errors.New("add webhooks of nodes: the operator's user name is required")

// AddToManager registers vnode and mnode with the manager's webhook server. They
// answer on each replica, with or without the lease.
func AddToManager(mgr ctrl.Manager, opts Options) error {
	if opts.Operator == "" {
		return errNoOperator
	}
	if opts.Reviewer == nil {
		// Not the manager's client: one that reads its own writes wants to watch what it
		// creates, and reviews cannot be watched.
		set, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return fmt.Errorf("make client for reviews of access: %w", err)
		}
		opts.Reviewer = accessReviewer{reviews: set.AuthorizationV1().SubjectAccessReviews()}
	}
	if opts.Obstacle == nil {
		opts.Obstacle = support.Obstacle
	}
	m := &mutator{operator: opts.Operator, reviewer: opts.Reviewer, reader: mgr.GetCache(), obstacle: opts.Obstacle}
	if opts.Taint.Key != "" {
		m.taint = &opts.Taint
		// The first creation of a node must not wait for the cache.
		if _, err := mgr.GetCache().GetInformer(context.Background(), &v1alpha1.NodeWright{}, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch nodewrights: %w", err)
		}
	}
	server := mgr.GetWebhookServer()
	server.Register(validatePath, &webhook.Admission{Handler: &validator{operator: opts.Operator, reviewer: opts.Reviewer}})
	server.Register(mutatePath, &webhook.Admission{Handler: m})
	return nil
}
