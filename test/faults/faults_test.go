package faults

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestClassify(t *testing.T) {
	cases := map[string]struct {
		method, path, contentType string
		want                      Request
	}{
		"apply to a node": {
			http.MethodPatch, "/api/v1/nodes/n1", "application/apply-patch+yaml",
			Request{Verb: "apply", Resource: "nodes"},
		},
		"status of a node": {
			http.MethodPatch, "/api/v1/nodes/n1/status", "application/merge-patch+json",
			Request{Verb: "patch", Resource: "nodes", Subresource: "status"},
		},
		"create a Job": {
			http.MethodPost, "/apis/batch/v1/namespaces/sys/jobs", "application/json",
			Request{Verb: "create", Resource: "jobs.batch"},
		},
		"delete Jobs": {
			http.MethodDelete, "/apis/batch/v1/namespaces/sys/jobs", "",
			Request{Verb: "deletecollection", Resource: "jobs.batch"},
		},
		"delete a Job": {
			http.MethodDelete, "/apis/batch/v1/namespaces/sys/jobs/j", "",
			Request{Verb: "delete", Resource: "jobs.batch"},
		},
		"evict": {
			http.MethodPost, "/api/v1/namespaces/sys/pods/p/eviction", "",
			Request{Verb: "create", Resource: "pods", Subresource: "eviction"},
		},
		"finalize a namespace": {
			http.MethodPut, "/api/v1/namespaces/sys/finalize", "",
			Request{Verb: "update", Resource: "namespaces", Subresource: "finalize"},
		},
		"renew a lease": {
			http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/sys/leases/l", "",
			Request{Verb: "update", Resource: "leases.coordination.k8s.io"},
		},
		"watch":   {http.MethodGet, "/api/v1/nodes", "", Request{Verb: "get", Resource: "nodes"}},
		"version": {http.MethodGet, "/version", "", Request{Verb: "get", Resource: "/version"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest(tc.method, tc.path, nil)
			req.Header.Set("Content-Type", tc.contentType)
			if diff := cmp.Diff(tc.want, Classify(req)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// server answers each request with ok after it took note of it.
func server(t *testing.T) (url string, effects *int) {
	t.Helper()
	effects = new(int)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*effects++
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(s.Close)
	return s.URL, effects
}

func TestInjector(t *testing.T) {
	cases := map[string]struct {
		fault       Fault
		wantCode    int
		wantErr     error
		wantEffects int
	}{
		"none":      {None, http.StatusOK, nil, 1},
		"cut":       {Cut, 0, ErrCut, 1},
		"refuse":    {Refuse, 0, ErrCut, 0},
		"fail":      {Fail, http.StatusInternalServerError, nil, 0},
		"throttle":  {Throttle, http.StatusTooManyRequests, nil, 0},
		"fail late": {FailLate, http.StatusGatewayTimeout, nil, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			url, effects := server(t)
			var injector Injector
			var counter Counter
			client := http.Client{Transport: counter.Wrap(injector.Wrap(http.DefaultTransport))}
			injector.Next(1, tc.fault, IsWrite("nodes"))
			req, err := http.NewRequest(http.MethodPut, url+"/api/v1/nodes/n", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if !errors.Is(err, tc.wantErr) {
				t.Fatalf("error %v, want %v", err, tc.wantErr)
			}
			var code int
			if err == nil {
				code = resp.StatusCode
				_ = resp.Body.Close()
			}
			if code != tc.wantCode || *effects != tc.wantEffects {
				t.Errorf("code %d and %d effects, want %d and %d", code, *effects, tc.wantCode, tc.wantEffects)
			}
			want := Counts{{Verb: "update", Resource: "nodes", Code: tc.wantCode}: 1}
			if diff := cmp.Diff(want, counter.Snapshot()); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			// The next one passes.
			resp, err = client.Post(url+"/api/v1/nodes", "", nil)
			if err != nil {
				t.Fatalf("request after the fault: %v", err)
			}
			_ = resp.Body.Close()
		})
	}
}

// A late request reaches the server with its body after its caller was told that
// the connection broke.
func TestLate(t *testing.T) {
	got := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusForbidden)
		got <- string(body)
	}))
	t.Cleanup(s.Close)
	injector := Injector{Delay: func() time.Duration { return 50 * time.Millisecond }}
	injector.Next(1, Late, IsWrite("nodes"))
	client := http.Client{Transport: injector.Wrap(http.DefaultTransport)}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.URL+"/api/v1/nodes/n", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, ErrCut) {
		t.Errorf("error %v, want %v", err, ErrCut)
	}
	cancel()
	want := Counts{{Verb: "update", Resource: "nodes", Code: http.StatusForbidden}: 1}
	if diff := cmp.Diff(want, injector.Delivered()); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
	if body := <-got; body != "body" {
		t.Errorf("body %q", body)
	}
}

func TestCounts(t *testing.T) {
	counts := Counts{
		{Verb: "apply", Resource: "nodes", Code: 200}:                             3,
		{Verb: "patch", Resource: "nodes", Subresource: "status", Code: 409}:      1,
		{Verb: "get", Resource: "nodes", Code: 200}:                               7,
		{Verb: "update", Resource: "leases.coordination.k8s.io", Code: 409}:       5,
		{Verb: "create", Resource: "events.events.k8s.io", Code: 201}:             2,
		{Verb: "patch", Resource: "events.events.k8s.io", Code: http.StatusOK}:    1,
		{Verb: "get", Resource: "jobs.batch", Code: http.StatusConflict}:          1,
		{Verb: "delete", Resource: "jobs.batch", Subresource: "", Code: 200}:      1,
		{Verb: "create", Resource: "pods", Subresource: "eviction", Code: 429}:    1,
		{Verb: "create", Resource: "pods", Subresource: "eviction", Code: 201}:    1,
		{Verb: "create", Resource: "configmaps", Subresource: "", Code: 0}:        1,
		{Verb: "deletecollection", Resource: "configmaps", Code: http.StatusOK}:   1,
		{Verb: "update", Resource: "nodewrights.nodewright.nvidia.com", Code: 20}: 1,
	}
	if got := counts.Writes(); got != 13 {
		t.Errorf("%d writes, want 13", got)
	}
	if got := counts.Conflicts(); got != 1 {
		t.Errorf("%d conflicts, want 1", got)
	}
	want := map[string]int{
		"nodes": 3, "nodes/status": 1, "events.events.k8s.io": 3, "jobs.batch": 1, "pods/eviction": 2,
		"configmaps": 2, "nodewrights.nodewright.nvidia.com": 1,
	}
	if diff := cmp.Diff(want, counts.PerResource()); diff != "" {
		t.Errorf("writes per resource (-want +got):\n%s", diff)
	}
}

func TestEvery(t *testing.T) {
	plan := Every(2, func(r *http.Request) bool { return r.Method == http.MethodPut }, Cut, Fail)
	var got []Fault
	for _, method := range []string{"PUT", "GET", "PUT", "PUT", "PUT", "PUT", "PUT"} {
		got = append(got, plan(httptest.NewRequest(method, "/", nil)))
	}
	want := []Fault{None, None, Cut, None, Fail, None, Cut}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestLag(t *testing.T) {
	lines := make(chan string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		for line := range lines {
			_, _ = io.WriteString(w, line)
			w.(http.Flusher).Flush()
		}
	}))
	defer s.Close()
	lag := Lag{Resource: "nodes"}
	client := http.Client{Transport: lag.Wrap(http.DefaultTransport)}
	resp, err := client.Get(s.URL + "/api/v1/nodes?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got := make(chan string)
	go func() {
		buffer := make([]byte, 100)
		for {
			n, err := resp.Body.Read(buffer)
			if err != nil {
				close(got)
				return
			}
			got <- string(buffer[:n])
		}
	}()

	lines <- "now"
	if line := <-got; line != "now" {
		t.Errorf("got %q without delay", line)
	}
	lag.Set(Hold)
	lines <- "later"
	select {
	case line := <-got:
		t.Errorf("got %q while it was held", line)
	case <-time.After(50 * time.Millisecond):
	}
	lag.Set(0)
	if line := <-got; line != "later" {
		t.Errorf("got %q after the hold", line)
	}
	lag.Set(100 * time.Millisecond)
	began := time.Now()
	lines <- "delayed"
	if line := <-got; line != "delayed" || time.Since(began) < 90*time.Millisecond {
		t.Errorf("got %q after %s, want it after 100ms", line, time.Since(began))
	}
	close(lines)
	if line, open := <-got; open {
		t.Errorf("got %q after the end", line)
	}
}
