package drain

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// server answers every request alike, and keeps what was asked.
type server struct {
	code    int
	header  http.Header
	body    any
	asked   []string
	content []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	s.asked, s.content = append(s.asked, req.Method+" "+req.URL.Path), append(s.content, string(body))
	for key, values := range s.header {
		w.Header()[key] = values
	}
	if text, plain := s.body.(string); plain {
		w.WriteHeader(s.code)
		_, _ = io.WriteString(w, text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(s.code)
	_ = json.NewEncoder(w).Encode(s.body)
}

// budgets stands in for reads.
type budgets struct {
	client.Reader
	items []policyv1.PodDisruptionBudget
	err   error
}

func (b budgets) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*policyv1.PodDisruptionBudgetList).Items = b.items
	return b.err
}

func budget(name string, change func(*policyv1.PodDisruptionBudget)) policyv1.PodDisruptionBudget {
	b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	b.Status.ExpectedPods, b.Status.CurrentHealthy, b.Status.DesiredHealthy = 2, 2, 2
	if change != nil {
		change(&b)
	}
	return b
}

func evict(t *testing.T, s *server, reads client.Reader, settings v1alpha1.DrainSettings) Outcome {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	c, err := NewClient(&rest.Config{Host: srv.URL}, srv.Client(), reads)
	if err != nil {
		t.Fatal(err)
	}
	out := c.Evict(t.Context(), &Pod{Namespace: "shop", Name: "web-0", UID: "u1", labels: map[string]string{"app": "web"}}, &settings)
	if len(s.asked) != 1 {
		t.Errorf("%d requests, want one: %v", len(s.asked), s.asked)
	}
	return out
}

var success = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}

func failure(code int32, reason metav1.StatusReason, cause *metav1.StatusCause, retryAfter int32) metav1.Status {
	s := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: "the server's words",
		Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfter},
	}
	if cause != nil {
		s.Details.Causes = []metav1.StatusCause{*cause}
	}
	return s
}

func TestOutcomes(t *testing.T) {
	needs := &metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget a needs 2 healthy pods and has 2 currently"}
	waits := "pod shop/web-0 waits for PodDisruptionBudget a: " + needs.Message
	one := budgets{items: []policyv1.PodDisruptionBudget{budget("a", nil), budget("other", func(b *policyv1.PodDisruptionBudget) {
		b.Spec.Selector.MatchLabels["app"] = "db"
	})}}
	sick := func(policy *policyv1.UnhealthyPodEvictionPolicyType) budgets {
		return budgets{items: []policyv1.PodDisruptionBudget{budget("a", func(b *policyv1.PodDisruptionBudget) {
			b.Status.CurrentHealthy, b.Spec.UnhealthyPodEvictionPolicy = 0, policy
		})}}
	}
	many := budgets{}
	for _, name := range []string{"f", "e", "d", "c", "b", "a"} {
		many.items = append(many.items, budget(name, nil))
	}
	severalIn := failure(500, "", nil, 0)
	tests := map[string]struct {
		answer server
		reads  client.Reader
		want   Outcome
	}{
		"started": {server{code: 201, body: success}, nil, Outcome{Kind: Started}},
		"gone":    {server{code: 404, body: failure(404, metav1.StatusReasonNotFound, nil, 0)}, nil, Outcome{Kind: Gone}},
		"DR-05 budget": {
			server{code: 429, body: failure(429, metav1.StatusReasonTooManyRequests, needs, 0)}, one,
			Outcome{Kind: Blocked, Message: waits},
		},
		"DR-05 budget that is being processed": {
			server{code: 429, header: http.Header{"Retry-After": {"10"}}, body: failure(429, metav1.StatusReasonTooManyRequests, needs, 10)}, one,
			Outcome{Kind: Blocked, Message: waits, RetryAfter: 10 * time.Second},
		},
		"DR-05 budget that allows less than nothing": {
			server{code: 403, body: failure(403, metav1.StatusReasonForbidden, needs, 0)}, one,
			Outcome{Kind: Blocked, Message: waits},
		},
		"DR-05 throttled by status": {
			server{code: 429, header: http.Header{"Retry-After": {"3"}}, body: failure(429, metav1.StatusReasonTooManyRequests, nil, 3)}, one,
			Outcome{Kind: Throttled, Message: "pod shop/web-0 is not evicted yet: the API server has too many requests", RetryAfter: 3 * time.Second},
		},
		"DR-05 throttled by priority and fairness": {
			server{code: 429, header: http.Header{"Retry-After": {"1"}}, body: "Too many requests, please try again later."}, one,
			Outcome{Kind: Throttled, Message: "pod shop/web-0 is not evicted yet: the API server has too many requests", RetryAfter: time.Second},
		},
		"DR-05 several budgets": {
			server{code: 201, body: severalIn}, many,
			Outcome{Kind: Blocked, Message: "pod shop/web-0 is in PodDisruptionBudgets a, b, c, d and 2 more: the API server evicts no pod that is in more than one, leave one of them"},
		},
		"DR-05 internal error, one budget": {
			server{code: 500, body: severalIn}, one,
			Outcome{Kind: Failed, Message: "the eviction of pod shop/web-0 failed: the server's words"},
		},
		"DR-26 pods that are not healthy": {
			server{code: 429, body: failure(429, metav1.StatusReasonTooManyRequests, needs, 0)}, sick(nil),
			Outcome{Kind: Blocked, Message: waits + "; 2 of its 2 pods are not healthy, which unhealthyPodEvictionPolicy: AlwaysAllow would let go"},
		},
		"DR-26 pods that are not healthy, AlwaysAllow": {
			server{code: 429, body: failure(429, metav1.StatusReasonTooManyRequests, needs, 0)}, sick(ptr.To(policyv1.AlwaysAllow)),
			Outcome{Kind: Blocked, Message: waits + "; 2 of its 2 pods are not healthy"},
		},
		"budgets that cannot be read": {
			server{code: 429, body: failure(429, metav1.StatusReasonTooManyRequests, needs, 0)}, budgets{err: errors.New("no right")},
			Outcome{Kind: Blocked, Message: "pod shop/web-0 waits for a PodDisruptionBudget: " + needs.Message +
				" (its budgets cannot be read: list PodDisruptionBudgets of namespace shop: no right)"},
		},
		"budget that went meanwhile": {
			server{code: 429, body: failure(429, metav1.StatusReasonTooManyRequests, needs, 0)}, budgets{},
			Outcome{Kind: Blocked, Message: "pod shop/web-0 waits for a PodDisruptionBudget: " + needs.Message},
		},
		"no right": {
			server{code: 403, body: failure(403, metav1.StatusReasonForbidden, nil, 0)}, nil,
			Outcome{Kind: Forbidden, Message: "pod shop/web-0 must not be evicted: the server's words"},
		},
		"namespace is being deleted": {
			server{code: 403, body: failure(403, metav1.StatusReasonForbidden, &metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}, 0)}, nil,
			Outcome{Kind: Started},
		},
		"timeout": {
			server{code: 504, header: http.Header{"Retry-After": {"5"}}, body: failure(504, metav1.StatusReasonTimeout, nil, 5)}, nil,
			Outcome{Kind: Failed, Message: "the eviction of pod shop/web-0 failed: the server's words", RetryAfter: 5 * time.Second},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := evict(t, &tc.answer, tc.reads, v1alpha1.DrainSettings{})
			if fine := got.Kind == Started || got.Kind == Gone; fine != (got.Err == nil) {
				t.Errorf("%s with error %v", got.Kind, got.Err)
			}
			got.Err = nil
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Fatalf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// What is asked of the API server: the end of this very pod, with the grace
// period of the settings.
func TestRequests(t *testing.T) {
	const eviction = `{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"web-0","namespace":"shop"},"deleteOptions":{`
	const deletion = `{"kind":"DeleteOptions","apiVersion":"v1",`
	const precondition = `"preconditions":{"uid":"u1"}}`
	tests := map[string]struct {
		settings      v1alpha1.DrainSettings
		asked, wanted string
	}{
		"eviction":                 {v1alpha1.DrainSettings{}, "POST /api/v1/namespaces/shop/pods/web-0/eviction", eviction + precondition + "}"},
		"eviction, grace period":   {v1alpha1.DrainSettings{GracePeriodSeconds: ptr.To[int64](7)}, "POST /api/v1/namespaces/shop/pods/web-0/eviction", eviction + `"gracePeriodSeconds":7,` + precondition + "}"},
		"eviction, killed at once": {v1alpha1.DrainSettings{GracePeriodSeconds: ptr.To[int64](0)}, "POST /api/v1/namespaces/shop/pods/web-0/eviction", eviction + `"gracePeriodSeconds":1,` + precondition + "}"},
		"disableEviction":          {v1alpha1.DrainSettings{DisableEviction: true}, "DELETE /api/v1/namespaces/shop/pods/web-0", deletion + precondition},
		"disableEviction, grace":   {v1alpha1.DrainSettings{DisableEviction: true, GracePeriodSeconds: ptr.To[int64](7)}, "DELETE /api/v1/namespaces/shop/pods/web-0", deletion + `"gracePeriodSeconds":7,` + precondition},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &server{code: 201, body: success}
			if out := evict(t, s, nil, tc.settings); out.Kind != Started {
				t.Fatalf("outcome %+v", out)
			}
			if s.asked[0] != tc.asked || strings.TrimSpace(s.content[0]) != tc.wanted {
				t.Fatalf("asked %s with %s, want %s with %s", s.asked[0], s.content[0], tc.asked, tc.wanted)
			}
		})
	}
}
