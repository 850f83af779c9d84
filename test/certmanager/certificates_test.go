package certmanager

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The life of the certificates, step by step: each begins where the last one
// ended, and the manager is started once.
func TestCertificates(t *testing.T) {
	steps := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"CE-03 applied before cert-manager runs", applied},
		{"CE-02 a root signs the serving certificate", issued},
		{"the manager says why it is not ready", notReady},
		{"CE-03 ready without a restart once the CA is injected", injected},
		{"CE-07 injection comes to rest", atRest},
		{"CE-06 applied again", appliedAgain},
		{"CE-01 the serving certificate is renewed", servingRenewed},
		{"CE-01 the Secret of the serving certificate is deleted", servingDeleted},
		{"CE-02 the root is renewed", rootRenewed},
		{"CE-01 the root's key is replaced", rootReplaced},
		{"the manager was started once", startedOnce},
	}
	for _, step := range steps {
		if !t.Run(step.name, step.run) {
			for _, program := range []string{"cert-manager-controller", "cert-manager-cainjector", "manager"} {
				t.Logf("end of the log of %s:\n%s", program, bed.logTail(program))
			}
			t.Fatalf("the steps behind %q need it", step.name)
		}
	}
}

// applied: objects in any order, with nobody there to act on them. What needs the
// webhooks is refused, not taken unchecked.
func applied(t *testing.T) {
	if err := bed.apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "writes are refused while there is no manager", func() error {
		if err := bed.write(t.Context()); !apierrors.IsInternalError(err) {
			return fmt.Errorf("the answer is: %w", err)
		}
		return nil
	})
}

func issued(t *testing.T) {
	if err := bed.startCertManager("controller"); err != nil {
		t.Fatal(err)
	}
	root, serving := bed.secret(t, rootSecret, nil), bed.secret(t, servingSecret, nil)
	checkChain(t, root, serving)
	if lives := parse(t, root.Data[corev1.TLSCertKey]); lives.NotAfter.Sub(lives.NotBefore) < 9*365*24*time.Hour {
		t.Errorf("the root lives from %s to %s", lives.NotBefore, lives.NotAfter)
	}
}

// checkChain: the root signs the serving certificate, for the name of the
// Service.
func checkChain(t *testing.T, root, serving *corev1.Secret) {
	t.Helper()
	if !bytes.Equal(serving.Data["ca.crt"], root.Data[corev1.TLSCertKey]) {
		t.Error("the serving certificate comes with another root")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root.Data[corev1.TLSCertKey])
	leaf := parse(t, serving.Data[corev1.TLSCertKey])
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: bed.host}); err != nil {
		t.Error(err)
	}
	if leaf.IsCA || bytes.Equal(leaf.RawIssuer, leaf.RawSubject) {
		t.Error("the serving certificate is a root of its own: each renewal would break trust")
	}
	if !parse(t, root.Data[corev1.TLSCertKey]).IsCA {
		t.Error("the root is no certificate authority")
	}
}

func notReady(t *testing.T) {
	eventually(t, "the Secret is mounted", func() error {
		if bed.kubelet.mounted.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if err := bed.startManager(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the manager says what is missing", func() error {
		if bed.ready() == nil {
			return errors.New("it is ready, though the API server cannot know its CA")
		}
		// The answer to a probe withholds the reason.
		log, err := os.ReadFile(bed.manager.LogFile())
		if err == nil && !strings.Contains(string(log), "injection is missing: caBundle is empty") {
			err = fmt.Errorf("it says %s", log)
		}
		return err
	})
}

func injected(t *testing.T) {
	if err := bed.startCertManager("cainjector"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the manager is ready", bed.ready)
	root := bed.secret(t, rootSecret, nil).Data[corev1.TLSCertKey]
	bundles := bed.bundles(t)
	if len(bundles) != 5 {
		t.Errorf("%d webhooks, want 5", len(bundles))
	}
	for name, bundle := range bundles {
		if !bytes.Contains(bundle, bytes.TrimSpace(root)) {
			t.Errorf("%s does not trust the root", name)
		}
	}
	eventually(t, "writes are taken", func() error { return bed.write(t.Context()) })
}

func atRest(t *testing.T) {
	before := versions(t)
	time.Sleep(5 * time.Second)
	if diff := cmp.Diff(before, versions(t)); diff != "" {
		t.Errorf("configurations change by themselves (-before +after):\n%s", diff)
	}
}

func versions(t *testing.T) map[string]string {
	t.Helper()
	api := bed.admin.AdmissionregistrationV1()
	v, err := api.ValidatingWebhookConfigurations().Get(t.Context(), configuration, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := api.MutatingWebhookConfigurations().Get(t.Context(), mutating, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{configuration: v.ResourceVersion, mutating: m.ResourceVersion}
}

// appliedAgain takes nothing away, and what is served is what the Secret holds.
func appliedAgain(t *testing.T) {
	before, secret := versions(t), bed.secret(t, servingSecret, nil)
	if err := bed.apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, versions(t)); diff != "" {
		t.Errorf("configurations changed (-before +after):\n%s", diff)
	}
	after := bed.secret(t, servingSecret, nil)
	if after.ResourceVersion != secret.ResourceVersion {
		t.Error("the Secret changed")
	}
	if got := served(t); !bytes.Equal(got, parse(t, after.Data[corev1.TLSCertKey]).Raw) {
		t.Error("another certificate is served than the one in the Secret")
	}
}

// served is the certificate that the manager shows, whoever asks.
func served(t *testing.T) []byte {
	t.Helper()
	conn, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(bed.webhookPort)), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].Raw
}

func servingRenewed(t *testing.T) {
	old := bed.secret(t, servingSecret, nil)
	failures := underLoad(t, func() {
		bed.renew(t, servingCert)
		checkChain(t, bed.secret(t, rootSecret, nil), awaitServed(t, old))
	})
	for _, err := range failures {
		t.Errorf("a write failed, though the root is the same: %v", err)
	}
}

func servingDeleted(t *testing.T) {
	old := bed.secret(t, servingSecret, nil)
	failures := underLoad(t, func() {
		if err := bed.admin.CoreV1().Secrets(namespace).Delete(t.Context(), servingSecret, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		checkChain(t, bed.secret(t, rootSecret, nil), awaitServed(t, old))
	})
	for _, err := range failures {
		t.Errorf("a write failed, though the root is the same: %v", err)
	}
}

// rootRenewed: the renewed root has the key of the old one, so what either signed
// is good under both, in whatever order the parts arrive.
func rootRenewed(t *testing.T) {
	oldRoot, old := bed.secret(t, rootSecret, nil), bed.secret(t, servingSecret, nil)
	failures := underLoad(t, func() {
		bed.renew(t, rootCert)
		root := bed.secret(t, rootSecret, oldRoot.Data[corev1.TLSCertKey])
		if !bytes.Equal(root.Data[corev1.TLSPrivateKeyKey], oldRoot.Data[corev1.TLSPrivateKeyKey]) {
			t.Error("the renewed root has another key")
		}
		bed.renew(t, servingCert)
		checkChain(t, root, awaitServed(t, old))
		awaitInjected(t, root)
	})
	for _, err := range failures {
		t.Errorf("a write failed, though the root's key is the same: %v", err)
	}
}

// rootReplaced is the one change that trust could break at, until the new serving
// certificate is mounted. Not even that: cert-manager keeps the former root in the
// bundle.
func rootReplaced(t *testing.T) {
	oldRoot, old := bed.secret(t, rootSecret, nil), bed.secret(t, servingSecret, nil)
	failures := underLoad(t, func() {
		if err := bed.admin.CoreV1().Secrets(namespace).Delete(t.Context(), rootSecret, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		root := bed.secret(t, rootSecret, oldRoot.Data[corev1.TLSCertKey])
		if bytes.Equal(root.Data[corev1.TLSPrivateKeyKey], oldRoot.Data[corev1.TLSPrivateKeyKey]) {
			t.Error("the new root has the old key")
		}
		bed.renew(t, servingCert)
		checkChain(t, root, awaitServed(t, old))
		awaitInjected(t, root)
		eventually(t, "writes are taken again", func() error { return bed.write(t.Context()) })
		eventually(t, "the manager is ready again", bed.ready)
	})
	for _, err := range failures {
		t.Errorf("a write failed, though the former root is still trusted: %v", err)
	}
}

func startedOnce(t *testing.T) {
	select {
	case <-bed.manager.Done():
		t.Errorf("the manager ended: %s", bed.manager.State())
	default:
	}
	if err := bed.ready(); err != nil {
		t.Error(err)
	}
}

// awaitServed waits until another certificate is in the Secret and is served, and
// gives the Secret.
func awaitServed(t *testing.T, old *corev1.Secret) *corev1.Secret {
	t.Helper()
	fresh := bed.secret(t, servingSecret, old.Data[corev1.TLSCertKey])
	want := parse(t, fresh.Data[corev1.TLSCertKey]).Raw
	eventually(t, "the new certificate is served", func() error {
		if !bytes.Equal(served(t), want) {
			return errors.New("the old one is served")
		}
		return nil
	})
	return fresh
}

// awaitInjected waits until all webhooks trust the root. Former roots that have
// not ended stay in the bundle.
func awaitInjected(t *testing.T, root *corev1.Secret) {
	t.Helper()
	eventually(t, "the new root is injected", func() error {
		for name, bundle := range bed.bundles(t) {
			if !bytes.Contains(bundle, bytes.TrimSpace(root.Data[corev1.TLSCertKey])) {
				return fmt.Errorf("%s does not trust it", name)
			}
		}
		return nil
	})
}

// underLoad makes a write every 100 ms while act runs, and gives what failed.
func underLoad(t *testing.T, act func()) []error {
	t.Helper()
	const pause = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	var failures []error
	var writer sync.WaitGroup
	writer.Go(func() {
		for ctx.Err() == nil {
			if err := bed.write(context.Background()); err != nil {
				failures = append(failures, err)
			}
			time.Sleep(pause)
		}
	})
	act()
	cancel()
	writer.Wait()
	return failures
}
