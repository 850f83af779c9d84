package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/nodewright/nodewright/apis/config/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
	"github.com/nodewright/nodewright/webhooks/deploymentpolicy"
	"github.com/nodewright/nodewright/webhooks/node"
	"github.com/nodewright/nodewright/webhooks/nodewright"
)

// What the API server trusts is compared with what is served. Configurations of
// webhooks hold no secret, and their names follow a prefix that a role cannot
// know, so all may be listed. Nothing of them is ever written.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations;mutatingwebhookconfigurations,verbs=list

// newWebhookServer serves admission with the certificate.
func newWebhookServer(w *configv1alpha1.Webhook, c *certificate) webhook.Server {
	return webhook.NewServer(webhook.Options{
		Host: w.Host, Port: int(*w.Port),
		TLSOpts: []func(*tls.Config){func(t *tls.Config) {
			t.GetCertificate = c.current
			// Every API server that is new enough speaks it.
			t.MinVersion = tls.VersionTLS12
		}},
	})
}

// addWebhooks registers admission. It runs on all replicas, with or without the
// lease: the API server asks any of them.
func addWebhooks(mgr manager.Manager, o *options, m *configv1alpha1.ManagerConfiguration, c *certificate) error {
	if err := mgr.Add(c); err != nil {
		return fmt.Errorf("add certificate of admission: %w", err)
	}
	// The first of the taints is the one that the operator puts.
	taint, err := validation.ParseTaint(m.RuntimeRequiredTaints[0])
	if err != nil {
		return fmt.Errorf("read runtimeRequiredTaints: %w", err)
	}
	trusted := &trust{reader: mgr.GetAPIReader(), namespace: o.namespace, serving: c.current, clock: clock.RealClock{}}
	return errors.Join(
		addWebhookProbe(mgr, trusted, mgr.GetWebhookServer().StartedChecker()),
		node.AddToManager(mgr, node.Options{Operator: serviceAccountUser(o.namespace, o.managerAccount), Taint: taint}),
		nodewright.AddToManager(mgr, nodewright.Options{Rules: validation.Rules{AllowedRegistries: m.AllowedRegistries}}),
		deploymentpolicy.AddToManager(mgr, deploymentpolicy.Options{}),
	)
}

// serviceAccountUser is a service account as the API server names its user.
func serviceAccountUser(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// addWebhookProbe makes the replica not ready while a request to its webhooks
// would fail.
func addWebhookProbe(mgr manager.Manager, t *trust, started healthz.Checker) error {
	check := sayChanges(mgr.GetLogger().WithName("webhooks"), func(req *http.Request) error {
		if err := t.check(req); err != nil {
			return err
		}
		return started(req)
	})
	if err := mgr.AddReadyzCheck("webhooks", check); err != nil {
		return fmt.Errorf("add probe: %w", err)
	}
	return nil
}

// sayChanges logs what a probe says whenever it says something else: the answer
// to the kubelet withholds the reason.
func sayChanges(log logr.Logger, check healthz.Checker) healthz.Checker {
	var mu sync.Mutex
	last := ""
	return func(req *http.Request) error {
		err := check(req)
		now := "ready"
		if err != nil {
			now = err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		if now != last {
			log.Info("readiness of admission changed", "now", now)
			last = now
		}
		return err
	}
}
