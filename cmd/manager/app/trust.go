package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// webhookSuffix ends the names of this operator's webhooks. Their
	// configurations have a prefix that the user chooses, the webhooks do not.
	webhookSuffix = ".nodewright.nvidia.com"

	// trustMemory is how long what the API server trusts is taken for known: probes
	// come more often than that.
	trustMemory = 5 * time.Second
	// trustTimeout bounds one question to the API server.
	trustTimeout = 3 * time.Second
)

// What is wrong with the trust of the API server.
var (
	errNoConfiguration = errors.New("webhook configuration is missing")
	errNoInjection     = errors.New("injection is missing")
	errOtherBundle     = errors.New("certificate is not for this bundle")
)

// trust tells whether the API server will trust the certificate that admission
// is served with. Without a look at both sides the manager seems well while
// every request that it should be asked about is refused.
type trust struct {
	reader    client.Reader
	namespace string
	serving   func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	clock     clock.PassiveClock

	mu    sync.Mutex
	read  time.Time
	known []trusted
}

// trusted is what the API server goes by for one webhook.
type trusted struct {
	// webhook names it for people: kind, name of the configuration, name.
	webhook string
	host    string
	bundle  []byte
}

// check is a probe.
func (t *trust) check(req *http.Request) error {
	certificate, err := t.serving(nil)
	if err != nil {
		return err
	}
	leaf, others, err := parseChain(certificate)
	if err != nil {
		return err
	}
	webhooks, err := t.webhooks(req.Context())
	if err != nil {
		return err
	}
	var errs []error
	for _, w := range webhooks {
		if err := w.verify(leaf, others, t.clock.Now()); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w.webhook, err))
		}
	}
	return errors.Join(errs...)
}

// webhooks are those that lead to this namespace. If the API server does not
// answer, what was last known counts: it could not ask the webhooks either.
func (t *trust) webhooks(ctx context.Context) ([]trusted, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known != nil && t.clock.Since(t.read) < trustMemory {
		return t.known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, trustTimeout)
	defer cancel()
	known, err := listTrusted(ctx, t.reader, t.namespace)
	if err != nil {
		if t.known != nil {
			return t.known, nil
		}
		return nil, err
	}
	t.known, t.read = known, t.clock.Now()
	return known, nil
}

// listTrusted reads the webhooks of this operator that lead to the namespace.
// There must be some of both kinds.
func listTrusted(ctx context.Context, reader client.Reader, namespace string) ([]trusted, error) {
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := reader.List(ctx, &validating); err != nil {
		return nil, fmt.Errorf("list validating webhook configurations: %w", err)
	}
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	if err := reader.List(ctx, &mutating); err != nil {
		return nil, fmt.Errorf("list mutating webhook configurations: %w", err)
	}
	var known []trusted
	add := func(kind, configuration, name string, c *admissionregistrationv1.WebhookClientConfig) {
		if strings.HasSuffix(name, webhookSuffix) && c.Service != nil && c.Service.Namespace == namespace {
			known = append(known, trusted{
				webhook: kind + " " + configuration + ", webhook " + name,
				host:    c.Service.Name + "." + c.Service.Namespace + ".svc", bundle: c.CABundle,
			})
		}
	}
	for i := range validating.Items {
		c := &validating.Items[i]
		for j := range c.Webhooks {
			add("ValidatingWebhookConfiguration", c.Name, c.Webhooks[j].Name, &c.Webhooks[j].ClientConfig)
		}
	}
	if len(known) == 0 {
		return nil, missing("ValidatingWebhookConfiguration", namespace)
	}
	validatingCount := len(known)
	for i := range mutating.Items {
		c := &mutating.Items[i]
		for j := range c.Webhooks {
			add("MutatingWebhookConfiguration", c.Name, c.Webhooks[j].Name, &c.Webhooks[j].ClientConfig)
		}
	}
	if len(known) == validatingCount {
		return nil, missing("MutatingWebhookConfiguration", namespace)
	}
	slices.SortFunc(known, func(a, b trusted) int { return strings.Compare(a.webhook, b.webhook) })
	return known, nil
}

func missing(kind, namespace string) error {
	return fmt.Errorf("%w: no %s leads to namespace %s: apply config/default again, or set webhook.enabled to false", errNoConfiguration, kind, namespace)
}

// verify does what the API server does when it connects.
func (w *trusted) verify(leaf *x509.Certificate, others *x509.CertPool, now time.Time) error {
	if len(w.bundle) == 0 {
		return fmt.Errorf("%w: caBundle is empty: cert-manager's cainjector fills it from the annotation cert-manager.io/inject-ca-from", errNoInjection)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(w.bundle) {
		return fmt.Errorf("%w: caBundle holds no certificate", errNoInjection)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		DNSName: w.host, Roots: roots, Intermediates: others, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("%w: as %s it does not verify: %w", errOtherBundle, w.host, err)
	}
	return nil
}

// parseChain gives the certificate of the server and what it sends along.
func parseChain(c *tls.Certificate) (*x509.Certificate, *x509.CertPool, error) {
	if c == nil || len(c.Certificate) == 0 {
		return nil, nil, errNoCertificate
	}
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		return nil, nil, fmt.Errorf("read certificate: %w", err)
	}
	others := x509.NewCertPool()
	for _, der := range c.Certificate[1:] {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, nil, fmt.Errorf("read chain of certificate: %w", err)
		}
		others.AddCert(certificate)
	}
	return leaf, others, nil
}
