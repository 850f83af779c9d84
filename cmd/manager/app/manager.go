package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configv1alpha1 "github.com/nodewright/nodewright/apis/config/v1alpha1"
	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/validation"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/index"
	"github.com/nodewright/nodewright/controllers/job"
	"github.com/nodewright/nodewright/controllers/node"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
	"github.com/nodewright/nodewright/controllers/pod"
	"github.com/nodewright/nodewright/controllers/rollout"
	"github.com/nodewright/nodewright/controllers/transform"
)

// The lease outlasts every request that its holder can have under way: those
// to nodes end after 5 s.
const (
	leaseDuration = 30 * time.Second
	renewDeadline = 20 * time.Second
	retryPeriod   = 2 * time.Second
)

// ReplicaLabels are what config/manager labels the manager's pods with, whatever
// prefix and namespace it is installed with. The selector of its Deployment keeps
// them from ever changing.
func ReplicaLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "nodewright", "app.kubernetes.io/component": "manager"}
}

// The lease lives in the operator's namespace; events of its changes go there.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=system,resources=events,verbs=create;patch
// Who scrapes metrics is asked of the API server.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// newManager makes the manager with everything in it.
func newManager(ctx context.Context, rc *rest.Config, o *options, c *configv1alpha1.ManagerConfiguration) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	leaseNamespace := c.LeaderElection.Namespace
	if leaseNamespace == "" {
		leaseNamespace = o.namespace
	}
	served := &certificate{dir: c.Webhook.CertDir}
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		Scheme:                 scheme,
		MapperProvider:         newMapper,
		WebhookServer:          newWebhookServer(&c.Webhook, served),
		Cache:                  cacheOptions(o.namespace),
		Client:                 client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)}},
		Metrics:                metricsOptions(&c.Metrics),
		HealthProbeBindAddress: c.Health.BindAddress,
		LeaderElection:         *c.LeaderElection.Enabled,
		LeaderElectionID:       c.LeaderElection.Name,
		// The process ends right after the manager: nothing of it writes without the
		// lease, and the next leader need not wait.
		LeaderElectionReleaseOnCancel: true,
		LeaderElectionNamespace:       leaseNamespace,
		LeaseDuration:                 ptr.To(leaseDuration),
		RenewDeadline:                 ptr.To(renewDeadline),
		RetryPeriod:                   ptr.To(retryPeriod),
	})
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	if err := index.Setup(ctx, mgr); err != nil {
		return nil, err
	}
	if err := addProbes(mgr); err != nil {
		return nil, err
	}
	if *c.Webhook.Enabled {
		if err := addWebhooks(mgr, o, c, served); err != nil {
			return nil, err
		}
	}
	return mgr, addControllers(mgr, o, c)
}

// cacheOptions keep out of memory what no controller reads.
func cacheOptions(namespace string) cache.Options {
	byObject := transform.ByObject(namespace)
	byObject[&corev1.ConfigMap{}] = cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	return cache.Options{ByObject: byObject}
}

func metricsOptions(m *configv1alpha1.Metrics) metricsserver.Options {
	out := metricsserver.Options{BindAddress: m.BindAddress}
	if *m.Secure {
		out.SecureServing = true
		out.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return out
}

func addProbes(mgr manager.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add probe: %w", err)
	}
	// Ready does not need the lease: a rollout of the operator would wait for ever
	// for a new replica that waits for the old one.
	err := mgr.AddReadyzCheck("caches", func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("caches are not filled yet")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add probe: %w", err)
	}
	return nil
}

// addControllers registers the controllers, each with the writer of its own
// field manager.
func addControllers(mgr manager.Manager, o *options, c *configv1alpha1.ManagerConfiguration) error {
	barrier := apply.NewLeaderBarrier(mgr.GetAPIReader(), mgr.GetCache(),
		apply.BarrierKind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Node")},
		apply.BarrierKind{GroupVersionKind: batchv1.SchemeGroupVersion.WithKind("Job"), Scope: []client.ListOption{
			client.InNamespace(o.namespace), client.MatchingLabelsSelector{Selector: packagejob.Selector()},
		}},
		apply.BarrierKind{GroupVersionKind: v1alpha1.GroupVersion.WithKind("NodeWright")},
	)
	if err := mgr.Add(barrier); err != nil {
		return fmt.Errorf("add leader barrier: %w", err)
	}
	refusals := apply.NewRefusals()
	writer := func(owner nodestate.Owner) *apply.Writer {
		return apply.NewWriter(mgr.GetClient(), mgr.GetAPIReader(), owner, apply.WithGate(barrier), apply.WithRefusals(refusals))
	}
	settings, err := jobSettings(o, c)
	if err != nil {
		return err
	}
	return errors.Join(
		node.AddToManager(mgr, node.Options{
			Writer: writer(nodestate.OwnerNode), Jobs: *settings,
			StageTimeout: c.StageTimeout.Duration, RetryLimit: *c.Retry.Limit,
			PodStartGrace: c.PodStartGracePeriod.Duration, Workers: int(*c.Concurrency.Node),
			RuntimeRequired: settings.Tolerated, ReapplyOnReboot: c.ReapplyOnReboot,
			Replicas: ReplicaLabels(),
		}),
		job.AddToManager(mgr, job.Options{
			Writer: writer(nodestate.OwnerJob), Namespace: o.namespace, Workers: int(*c.Concurrency.Job),
			TTLSucceeded: c.JobTTL.Succeeded.Duration, TTLFailed: c.JobTTL.Failed.Duration,
		}),
		pod.AddToManager(mgr, pod.Options{
			Writer: writer(nodestate.OwnerPod), Namespace: o.namespace, Workers: int(*c.Concurrency.Pod),
			Grace: c.PodStartGracePeriod.Duration,
		}),
		rollout.AddToManager(mgr, rollout.Options{
			Writer: writer(nodestate.OwnerRollout), Namespace: o.namespace, Gate: barrier, Refusals: refusals,
			RuntimeRequired: settings.Tolerated, Intolerable: settings.Intolerable,
		}),
	)
}

func jobSettings(o *options, c *configv1alpha1.ManagerConfiguration) (*stagejob.Settings, error) {
	s := &stagejob.Settings{
		Namespace: o.namespace, AgentImage: c.AgentImage, ImagePullSecret: c.ImagePullSecret,
		AlwaysPull: c.AlwaysPull, ServiceAccount: o.packageAccount,
		CopyDirRoot: strings.TrimSuffix(c.CopyDirRoot, "/"), AgentLogRoot: strings.TrimSuffix(c.AgentLogRoot, "/"),
		HostRoot: c.HostRoot,
	}
	for _, text := range c.RuntimeRequiredTaints {
		taint, err := validation.ParseTaint(text)
		if err != nil {
			return nil, fmt.Errorf("read runtimeRequiredTaints: %w", err)
		}
		s.Tolerated = append(s.Tolerated, taint)
	}
	return s, nil
}
