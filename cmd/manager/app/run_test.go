package app

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The API server compresses for whoever takes it, which costs both sides
// processor time for each watch.
func TestRequestsAskForNoCompression(t *testing.T) {
	var encodings []string
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		encodings = append(encodings, req.Header.Get("Accept-Encoding"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"major":"1","minor":"37"}`))
	}))
	defer srv.Close()
	// With TLS: without, client-go takes Go's default transport, whatever is configured.
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"server": {Server: srv.URL, InsecureSkipTLSVerify: true}},
		Contexts:       map[string]*clientcmdapi.Context{"server": {Cluster: "server"}},
		CurrentContext: "server",
	}, file); err != nil {
		t.Fatal(err)
	}
	rc, err := (&options{kubeconfig: file}).restConfig()
	if err != nil {
		t.Fatal(err)
	}
	set, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Discovery().ServerVersion(); err != nil {
		t.Fatal(err)
	}
	if len(encodings) != 1 || encodings[0] != "" {
		t.Fatalf("requests accept the encodings %q, want one that accepts none", encodings)
	}
}
