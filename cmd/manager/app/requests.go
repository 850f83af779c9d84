package app

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// requests counts what the operator asks of the API server, so that its write
// budget can be watched in production too. Series are bounded by the resources
// that the operator uses.
var requests = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "nodewright_api_requests_total",
	Help: "Requests to the API server by verb, resource and answer. Code 0 is a request without an answer.",
}, []string{"verb", "resource", "code"})

func init() { metrics.Registry.MustRegister(requests) }

// countRequests wraps the transport of all clients of the manager.
func countRequests(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		code := 0
		if resp != nil {
			code = resp.StatusCode
		}
		requests.WithLabelValues(verb(req), resource(req.URL.Path), strconv.Itoa(code)).Inc()
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// verb names the request as the API server's audit log does, as far as a
// method tells.
func verb(req *http.Request) string {
	switch req.Method {
	case http.MethodGet:
		if req.URL.Query().Get("watch") != "" {
			return "watch"
		}
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	default:
		return strings.ToLower(req.Method)
	}
}

// resource is the plural, with the subresource, of an API path; "other" for a
// path of another kind.
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "other"
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	switch {
	case len(parts) == 0:
		return "other"
	case len(parts) > 2:
		return parts[0] + "/" + parts[2]
	default:
		return parts[0]
	}
}
