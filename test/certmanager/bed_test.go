package certmanager

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
	"github.com/nodewright/nodewright/cmd/devcluster/webhooks"
	"github.com/nodewright/nodewright/test/manifests"
	"github.com/nodewright/nodewright/test/poll"
)

const (
	namespace     = "nodewright-system"
	user          = "system:serviceaccount:" + namespace + ":nodewright-manager"
	servingSecret = "webhook-server-cert"
	rootSecret    = "webhook-ca-cert"
	servingCert   = "nodewright-serving-cert"
	rootCert      = "nodewright-ca-cert"
	configuration = "nodewright-validating-webhook-configuration"
	mutating      = "nodewright-mutating-webhook-configuration"

	// patience is how long a step of cert-manager may take.
	patience = 30 * time.Second
	// mountEvery is how late the kubelet is. Real ones take up to 90 s.
	mountEvery = 2 * time.Second
)

// installation is the operator on a control plane, with cert-manager.
type installation struct {
	cluster *controlplane.ControlPlane
	admin   kubernetes.Interface
	client  client.Client
	objects manifests.Objects

	webhookPort, healthPort int
	certDir                 string
	host                    string
	binary                  string

	kubelet *kubelet
	manager *controlplane.Process
	stop    context.CancelFunc
	ended   chan error
}

// prepare builds the manager and applies what ships. Nothing runs yet.
func prepare(ctx context.Context, cluster *controlplane.ControlPlane) (*installation, error) {
	b := &installation{
		cluster: cluster, certDir: filepath.Join(cluster.Dir(), "serving-certs"), binary: filepath.Join(cluster.Dir(), "manager"),
	}
	var err error
	if b.admin, err = kubernetes.NewForConfig(cluster.Config()); err != nil {
		return nil, err
	}
	if b.client, err = client.New(cluster.Config(), client.Options{}); err != nil {
		return nil, err
	}
	for _, port := range []*int{&b.webhookPort, &b.healthPort} {
		if *port, err = controlplane.FreePort(); err != nil {
			return nil, err
		}
	}
	root, err := manifests.Root()
	if err != nil {
		return nil, err
	}
	if err := operator.Build(ctx, root, b.binary); err != nil {
		return nil, err
	}
	if b.objects, err = manifests.Render(ctx, manifests.Default); err != nil {
		return nil, err
	}
	hosts, err := webhooks.Redirect(b.objects, b.webhookPort)
	if err != nil {
		return nil, err
	}
	b.host = hosts[0]
	b.kubelet = &kubelet{client: b.admin, secret: servingSecret, dir: b.certDir, every: mountEvery}
	ctx, b.stop = context.WithCancel(context.Background())
	b.ended = make(chan error, 1)
	go func() { b.ended <- b.kubelet.run(ctx) }()
	return b, nil
}

func (b *installation) close() error {
	b.stop()
	return <-b.ended
}

// apply does what a user does.
func (b *installation) apply(ctx context.Context) error {
	_, err := operator.Apply(ctx, b.cluster, b.objects)
	return err
}

// startCertManager starts one of cert-manager's programs.
func (b *installation) startCertManager(name string) error {
	_, err := b.cluster.Run(controlplane.Command{
		Name: "cert-manager-" + name, Path: filepath.Join(b.cluster.AssetsDir(), "cert-manager-"+name),
		Args: []string{"--kubeconfig", b.cluster.KubeconfigFile()},
	})
	return err
}

// startManager starts the manager as a kubelet does: once the Secret is mounted.
func (b *installation) startManager() error {
	u, err := b.cluster.AddUser(user, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	if err != nil {
		return err
	}
	config := filepath.Join(b.cluster.Dir(), "manager.yaml")
	text := fmt.Sprintf(`apiVersion: config.nodewright.nvidia.com/v1alpha1
kind: ManagerConfiguration
agentImage: registry.example/agent:1
metrics: {bindAddress: "0"}
health: {bindAddress: "127.0.0.1:%d"}
webhook: {host: 127.0.0.1, port: %d, certDir: %s}
`, b.healthPort, b.webhookPort, b.certDir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	b.manager, err = b.cluster.Run(controlplane.Command{Name: "manager", Path: b.binary, Args: []string{
		"--config", config, "--kubeconfig", u.KubeconfigFile, "--namespace", namespace,
	}})
	return err
}

// ready asks the manager; the error is what it says.
func (b *installation) ready() error {
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz?verbose", b.healthPort))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(string(body))
	}
	return nil
}

// logTail is the end of the log of a program.
func (b *installation) logTail(program string) string {
	return controlplane.LogTail(filepath.Join(b.cluster.LogDir(), program+".log"))
}

// write is a write that needs the webhooks: a policy on trial.
func (b *installation) write(ctx context.Context) error {
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "nodewright.nvidia.com/v1alpha1", "kind": "DeploymentPolicy",
		"metadata": map[string]any{"name": "rotation"},
		"spec": map[string]any{"default": map[string]any{
			"budget":   map[string]any{"count": int64(1)},
			"strategy": map[string]any{"fixed": map[string]any{"initialBatch": int64(1)}},
		}},
	}}
	return b.client.Create(ctx, policy, client.DryRunAll)
}

// certificate reads one of cert-manager's objects.
func (b *installation) certificate(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	out.SetAPIVersion("cert-manager.io/v1")
	out.SetKind("Certificate")
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// secret waits for a Secret with a certificate other than the one given.
func (b *installation) secret(t *testing.T, name string, other []byte) *corev1.Secret {
	t.Helper()
	var out *corev1.Secret
	eventually(t, "there is a new Secret "+name, func() error {
		var err error
		out, err = b.admin.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && (len(out.Data[corev1.TLSCertKey]) == 0 || bytes.Equal(out.Data[corev1.TLSCertKey], other)) {
			err = errors.New("it has no new certificate")
		}
		return err
	})
	return out
}

// renew asks cert-manager for a new certificate now, as cmctl renew does.
func (b *installation) renew(t *testing.T, name string) {
	t.Helper()
	c := b.certificate(t, name)
	conditions, _, err := unstructured.NestedSlice(c.Object, "status", "conditions")
	if err != nil {
		t.Fatal(err)
	}
	conditions = append(conditions, map[string]any{
		"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "renewed by hand",
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": c.GetGeneration(),
	})
	if err := unstructured.SetNestedSlice(c.Object, conditions, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// bundles are the CAs that the API server trusts, by webhook.
func (b *installation) bundles(t *testing.T) map[string][]byte {
	t.Helper()
	api := b.admin.AdmissionregistrationV1()
	v, err := api.ValidatingWebhookConfigurations().Get(t.Context(), configuration, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := api.MutatingWebhookConfigurations().Get(t.Context(), mutating, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for i := range v.Webhooks {
		out[v.Webhooks[i].Name] = v.Webhooks[i].ClientConfig.CABundle
	}
	for i := range m.Webhooks {
		out[m.Webhooks[i].Name] = m.Webhooks[i].ClientConfig.CABundle
	}
	return out
}

func parse(t *testing.T, certificate []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(certificate)
	if block == nil {
		t.Fatalf("no certificate in %q", certificate)
	}
	out, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	poll.Until(t, what, patience, check)
}
