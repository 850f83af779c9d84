package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/cmd/devcluster/webhooks"
)

// The paths that the webhooks are asked at.
const (
	pathValidateNode   = "/validate-v1-node"
	pathMutateNode     = "/mutate-v1-node"
	pathValidateNW     = "/validate-nodewright-nvidia-com-v1alpha1-nodewright"
	pathMutateNW       = "/mutate-nodewright-nvidia-com-v1alpha1-nodewright"
	pathValidatePolicy = "/validate-nodewright-nvidia-com-v1alpha1-deploymentpolicy"
)

// call is one request of the API server to a webhook.
type call struct {
	path        string
	name        string
	subresource string
	operation   admissionv1.Operation
}

// server runs the webhooks, and notes what the API server asks them.
type server struct {
	config *rest.Config
	port   int
	cert   tls.Certificate

	mu    sync.Mutex
	noted []call

	cancel context.CancelFunc
	ended  chan error
}

func newServer(config *rest.Config, port int, authority *webhooks.Authority, hosts []string) (*server, error) {
	certificate, key, err := authority.Issue(time.Now(), time.Hour, hosts...)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read serving certificate: %w", err)
	}
	// The rights that ship have to be enough.
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: operator.user, Groups: operator.groups}
	return &server{config: config, port: port, cert: pair}, nil
}

// start starts a manager with all webhooks and nothing else.
func (s *server) start() error {
	hooks := &noting{server: s, Server: webhook.NewServer(webhook.Options{
		Host: "127.0.0.1", Port: s.port,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.cert, nil }
		}},
	})}
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known)); err != nil {
		return fmt.Errorf("make scheme: %w", err)
	}
	mgr, err := ctrl.NewManager(s.config, ctrl.Options{
		Scheme: known, WebhookServer: hooks,
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return fmt.Errorf("make manager: %w", err)
	}
	if err := addWebhooks(mgr); err != nil {
		return err
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	s.ended = make(chan error, 1)
	go func() { s.ended <- mgr.Start(ctx) }()
	return nil
}

// stop ends the webhooks; they may be started again.
func (s *server) stop() error {
	s.cancel()
	return <-s.ended
}

// calls are what was asked about the object of a name since forget.
func (s *server) calls(name string) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []call
	for _, c := range s.noted {
		if c.name == name {
			out = append(out, c)
		}
	}
	return out
}

// forget forgets what was asked about an object.
func (s *server) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []call
	for _, c := range s.noted {
		if c.name != name {
			kept = append(kept, c)
		}
	}
	s.noted = kept
}

// noting is a webhook server that notes each request before it is answered.
type noting struct {
	webhook.Server
	server *server
}

func (n *noting) Register(path string, hook http.Handler) {
	n.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
			http.Error(w, fmt.Sprintf("read review: %v", err), http.StatusBadRequest)
			return
		}
		n.server.mu.Lock()
		n.server.noted = append(n.server.noted, call{
			path: path, name: review.Request.Name, subresource: review.Request.SubResource, operation: review.Request.Operation,
		})
		n.server.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		hook.ServeHTTP(w, r)
	}))
}
