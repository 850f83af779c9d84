package webhooks

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func object(kind, namespace, name string, more map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range more {
		o.Object[key] = value
	}
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func webhook(namespace, name string) map[string]any {
	return map[string]any{"name": "v", "clientConfig": map[string]any{
		"service": map[string]any{"namespace": namespace, "name": name, "path": "/p", "port": int64(443)}}}
}

func TestRedirect(t *testing.T) {
	configuration := object("ValidatingWebhookConfiguration", "", "c", map[string]any{"webhooks": []any{webhook("ns", "hooks"), webhook("ns", "hooks")}})
	service := object("Service", "ns", "hooks", map[string]any{"spec": map[string]any{"ports": []any{}}})
	other := object("Service", "ns", "metrics", map[string]any{"spec": map[string]any{"ports": []any{}}})
	objects := []*unstructured.Unstructured{configuration, service, other}
	hosts, err := Redirect(objects, 12345)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"hooks.ns.svc"}, hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if err := Inject(objects, []byte("pem")); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"caBundle": "cGVt",
		"service":  map[string]any{"namespace": "ns", "name": "hooks", "path": "/p", "port": int64(12345)},
	}
	for _, w := range configuration.Object["webhooks"].([]any) {
		if diff := cmp.Diff(want, w.(map[string]any)["clientConfig"]); diff != "" {
			t.Errorf("client configuration (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(map[string]any{"type": "ExternalName", "externalName": "localhost"}, service.Object["spec"]); diff != "" {
		t.Errorf("service (-want +got):\n%s", diff)
	}
	if _, changed := other.Object["spec"].(map[string]any)["externalName"]; changed {
		t.Error("a service of something else was led elsewhere")
	}
}

// Half a redirection would let requests fail for reasons that nobody sees.
func TestRedirectRefuses(t *testing.T) {
	noService := map[string]any{"name": "v", "clientConfig": map[string]any{"url": "https://x"}}
	for name, objects := range map[string][]*unstructured.Unstructured{
		"the service is not there": {object("ValidatingWebhookConfiguration", "", "c", map[string]any{"webhooks": []any{webhook("ns", "hooks")}})},
		"a webhook with a URL":     {object("MutatingWebhookConfiguration", "", "c", map[string]any{"webhooks": []any{noService}})},
		"no client configuration":  {object("MutatingWebhookConfiguration", "", "c", map[string]any{"webhooks": []any{map[string]any{"name": "v"}}})},
	} {
		if _, err := Redirect(objects, 1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestIssue(t *testing.T) {
	now := time.Now()
	authority, err := NewAuthority(now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := authority.Issue(now, time.Minute, "hooks.ns.svc")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthority(now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		authority *Authority
		host      string
		at        time.Time
		want      bool
	}{
		"as issued":         {authority, "hooks.ns.svc", now, true},
		"another host":      {authority, "hooks.other.svc", now, false},
		"too late":          {authority, "hooks.ns.svc", now.Add(2 * time.Minute), false},
		"another authority": {other, "hooks.ns.svc", now, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(tc.authority.CABundle())
			_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: tc.host, CurrentTime: tc.at})
			if (err == nil) != tc.want {
				t.Errorf("verifies: %v, want %t", err, tc.want)
			}
		})
	}
}
