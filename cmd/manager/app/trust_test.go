package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodewright/nodewright/cmd/devcluster/webhooks"
	"github.com/nodewright/nodewright/test/poll"
)

const webhookHost = "x-webhook-service.ns.svc"

func newAuthority(t *testing.T) *webhooks.Authority {
	t.Helper()
	a, err := webhooks.NewAuthority(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *webhooks.Authority, host string) *tls.Certificate {
	t.Helper()
	certificate, key, err := a.Issue(time.Now(), 30*time.Minute, host)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// configurations are one webhook of each kind, as some prefix names them.
func configurations(namespace string, bundle []byte) []client.Object {
	to := admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "x-webhook-service"}, CABundle: bundle,
	}
	return []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "x-validating"},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "vnode.nodewright.nvidia.com", ClientConfig: to}},
		},
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "x-mutating"},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "mnode.nodewright.nvidia.com", ClientConfig: to}},
		},
	}
}

// A replica is ready only while the API server will trust what it serves.
func TestTrust_ME09(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	good := issue(t, ours, webhookHost)
	foreign := configurations("elsewhere", nil)
	for _, o := range foreign {
		o.SetName("foreign-" + o.GetName())
	}
	tests := map[string]struct {
		objects []client.Object
		serving *tls.Certificate
		after   time.Duration
		want    error
	}{
		"injected":               {objects: configurations("ns", ours.CABundle()), serving: good},
		"two roots in a bundle":  {objects: configurations("ns", append(others.CABundle(), ours.CABundle()...)), serving: good},
		"others are not ours":    {objects: append(foreign, configurations("ns", ours.CABundle())...), serving: good},
		"CE-03 not injected yet": {objects: configurations("ns", nil), serving: good, want: errNoInjection},
		"bundle is junk":         {objects: configurations("ns", []byte("x")), serving: good, want: errNoInjection},
		"bundle was swapped":     {objects: configurations("ns", others.CABundle()), serving: good, want: errOtherBundle},
		"for another name":       {objects: configurations("ns", ours.CABundle()), serving: issue(t, ours, "webhook-service.ns.svc"), want: errOtherBundle},
		"expired":                {objects: configurations("ns", ours.CABundle()), serving: good, after: 31 * time.Minute, want: errOtherBundle},
		"mutating alone":         {objects: configurations("ns", ours.CABundle())[1:], serving: good, want: errNoConfiguration},
		"validating alone":       {objects: configurations("ns", ours.CABundle())[:1], serving: good, want: errNoConfiguration},
		"CE-03 no certificate":   {objects: configurations("ns", ours.CABundle()), want: errNoCertificate},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &trust{
				reader: fake.NewClientBuilder().WithObjects(tc.objects...).Build(), namespace: "ns",
				serving: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return tc.serving, nil },
				clock:   clocktesting.NewFakePassiveClock(time.Now().Add(tc.after)),
			}
			if err := c.check(httptest.NewRequest("GET", "/readyz", nil)); !errors.Is(err, tc.want) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
		})
	}
}

// counting fails when it is told to.
type counting struct {
	client.Reader
	lists int
	err   error
}

func (c *counting) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.lists++
	if c.err != nil {
		return c.err
	}
	return c.Reader.List(ctx, list, opts...)
}

// The API server is asked every few seconds at most; one that is away does not
// make a replica unready that was well, but a new one is not ready untested.
func TestTrustRemembers(t *testing.T) {
	ours := newAuthority(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	reader := &counting{Reader: fake.NewClientBuilder().WithObjects(configurations("ns", ours.CABundle())...).Build()}
	good := issue(t, ours, webhookHost)
	c := &trust{
		reader: reader, namespace: "ns", clock: clock,
		serving: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return good, nil },
	}
	req := httptest.NewRequest("GET", "/readyz", nil)
	reader.err = errors.New("away")
	if err := c.check(req); !errors.Is(err, reader.err) {
		t.Fatalf("error %v, want %v", err, reader.err)
	}
	reader.err, reader.lists = nil, 0
	for range 3 {
		if err := c.check(req); err != nil {
			t.Fatal(err)
		}
	}
	if reader.lists != 2 {
		t.Errorf("%d lists, want one of each kind", reader.lists)
	}
	clock.SetTime(clock.Now().Add(trustMemory))
	reader.err = errors.New("away")
	if err := c.check(req); err != nil || reader.lists != 3 {
		t.Errorf("error %v after %d lists, want what was last known", err, reader.lists)
	}
}

// Files that are there and cannot be read are not cert-manager's fault. A directory
// stands for what the user of the manager may not read: tests may be root.
func TestCertificateCannotBeRead(t *testing.T) {
	c := &certificate{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(c.dir, "tls.crt"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	poll.Until(t, "the error says that it cannot be read, and what to do", 20*time.Second, func() error {
		_, err := c.current(nil)
		if !errors.Is(err, errNoCertificate) || !strings.Contains(err.Error(), "cannot be read") || !strings.Contains(err.Error(), "fsGroup") {
			return fmt.Errorf("it says: %w", err)
		}
		return nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// CE-03: a certificate that comes later is served without a restart.
func TestCertificateComesLater_CE03(t *testing.T) {
	ours := newAuthority(t)
	c := &certificate{dir: t.TempDir()}
	if _, err := c.current(nil); !errors.Is(err, errNoCertificate) || !strings.Contains(err.Error(), c.dir) {
		t.Fatalf("error %v, want one that names %s", err, c.dir)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	crt, key, err := ours.Issue(time.Now(), time.Hour, webhookHost)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": crt, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(c.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if got, err := c.current(nil); err == nil && len(got.Certificate) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the certificate is not served")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatalf("end: %v", err)
	}
}

// The reason is in the log, once, since the kubelet does not get it.
func TestSayChanges(t *testing.T) {
	var lines []string
	answers := []error{errNoInjection, errNoInjection, nil, nil, errOtherBundle}
	check := sayChanges(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}), func(*http.Request) error {
		err := answers[0]
		answers = answers[1:]
		return err
	})
	for len(answers) > 0 {
		want := answers[0]
		if err := check(nil); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
	if len(lines) != 3 || !strings.Contains(lines[0], errNoInjection.Error()) || !strings.Contains(lines[1], "ready") || !strings.Contains(lines[2], errOtherBundle.Error()) {
		t.Errorf("lines %q", lines)
	}
}
