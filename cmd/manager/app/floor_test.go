package app

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// oldServer answers like an API server of a version that drops what drop does.
func oldServer(t *testing.T, version string, drop func(*batchv1.JobSpec)) kubernetes.Interface {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = map[string]string{"gitVersion": version}
		if r.Method == http.MethodPost {
			if r.URL.Query().Get("dryRun") != "All" {
				t.Errorf("the trial would be stored: %s", r.URL)
			}
			var job batchv1.Job
			if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
				t.Errorf("read job: %v", err)
			}
			drop(&job.Spec)
			job.APIVersion, job.Kind = "batch/v1", "Job"
			answer = job
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Errorf("answer: %v", err)
		}
	}))
	t.Cleanup(srv.Close)
	cs, err := kubernetes.NewForConfig(&rest.Config{Host: srv.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// A server that is away for a moment is asked again; one that is too old is not.
func TestWaitForFloor(t *testing.T) {
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"gitVersion":"v1.20.0"}`))
	}))
	defer srv.Close()
	cs, err := kubernetes.NewForConfig(&rest.Config{Host: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := waitForFloor(t.Context(), cs, "ns"); !errors.Is(err, errBelowFloor) {
		t.Fatalf("error %v, want %v", err, errBelowFloor)
	}
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
}

func TestCheckFloor(t *testing.T) {
	nothing := func(*batchv1.JobSpec) {}
	tests := map[string]struct {
		version string
		drop    func(*batchv1.JobSpec)
		want    []string
	}{
		"new enough":     {"v1.37.2", nothing, nil},
		"the oldest":     {"v1.30.0", nothing, nil},
		"of a provider":  {"v1.31.4-gke.100", nothing, nil},
		"too old":        {"v1.29.9", nothing, []string{"v1.29.9", "1.30"}},
		"not a version":  {"unknown", nothing, []string{"version"}},
		"failure policy": {"v1.37.2", func(s *batchv1.JobSpec) { s.PodFailurePolicy = nil }, []string{"spec.podFailurePolicy", "1.26"}},
		"replacement":    {"v1.37.2", func(s *batchv1.JobSpec) { s.PodReplacementPolicy = nil }, []string{"spec.podReplacementPolicy", "1.29"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkFloor(t.Context(), oldServer(t, tc.version, tc.drop), "nodewright-system")
			if (err != nil) != (len(tc.want) > 0) {
				t.Fatalf("error %v, want one: %t", err, len(tc.want) > 0)
			}
			for _, word := range tc.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("error %q does not name %s", err, word)
				}
			}
		})
	}
}
