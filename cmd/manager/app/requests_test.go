package app

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestResource(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/nodes":                                               "nodes",
		"/api/v1/nodes/n1":                                            "nodes",
		"/api/v1/nodes/n1/status":                                     "nodes/status",
		"/apis/batch/v1/namespaces/nodewright/jobs":                   "jobs",
		"/apis/batch/v1/namespaces/nodewright/jobs/j":                 "jobs",
		"/apis/nodewright.nvidia.com/v1alpha1/nodewrights/a/status":   "nodewrights/status",
		"/apis/coordination.k8s.io/v1/namespaces/nodewright/leases/l": "leases",
		"/api/v1/namespaces/nodewright/pods/p/log":                    "pods/log",
		"/api/v1/namespaces/nodewright":                               "namespaces",
		"/version":                                                    "other",
		"/api":                                                        "other",
		"/":                                                           "other",
	} {
		if got := resource(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func TestCountRequests(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
	}))
	defer srv.Close()
	client := &http.Client{Transport: countRequests(http.DefaultTransport)}
	counter := requests.WithLabelValues("patch", "nodes", "409")
	before := testutil.ToFloat64(counter)
	req, err := http.NewRequest(http.MethodPatch, srv.URL+"/api/v1/nodes/n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := testutil.ToFloat64(counter) - before; got != 1 {
		t.Fatalf("counted %v requests, want 1", got)
	}
}
