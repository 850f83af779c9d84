package faults

import (
	"maps"
	"net/http"
	"strings"
	"sync"
)

// Request names a kind of request as the API server's audit log does.
type Request struct {
	// Verb is create, update, patch, apply, delete or deletecollection for
	// writes, and get for every read. The audit log calls an apply a patch too.
	Verb string
	// Resource in the plural, with its group (jobs.batch).
	Resource    string
	Subresource string
	// Code is the HTTP status of the answer, 0 if there was none.
	Code int
}

// Counts are numbers of requests.
type Counts map[Request]int

// Sum of the requests that match.
func (c Counts) Sum(match func(Request) bool) int {
	var n int
	for r, count := range c {
		if match(r) {
			n += count
		}
	}
	return n
}

// Writes are all requests that write, whatever came of them, leases apart.
func (c Counts) Writes() int { return c.Sum(Request.Writes) }

// Conflicts are writes that were answered 409.
func (c Counts) Conflicts() int {
	return c.Sum(func(r Request) bool { return r.Writes() && r.Code == http.StatusConflict })
}

// PerResource sums the writes by resource and subresource (nodes,
// nodewrights.nodewright.nvidia.com/status), leases apart.
func (c Counts) PerResource() map[string]int {
	out := make(map[string]int)
	for r, n := range c {
		if r.Writes() {
			out[r.Name()] += n
		}
	}
	return out
}

// Writes tells whether the request writes something other than a lease.
func (r Request) Writes() bool { return r.Verb != "get" && r.Resource != "leases.coordination.k8s.io" }

// Name is resource and subresource.
func (r Request) Name() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

// Counter counts requests. The zero value is ready.
type Counter struct {
	mu     sync.Mutex
	counts Counts
}

// Wrap is for rest.Config.Wrap.
func (c *Counter) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		r := Classify(req)
		if err == nil {
			r.Code = resp.StatusCode
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.counts == nil {
			c.counts = make(Counts)
		}
		c.counts[r]++
		return resp, err
	})
}

// Snapshot is what was counted until now.
func (c *Counter) Snapshot() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// Reset begins anew, and gives what was counted before.
func (c *Counter) Reset() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.counts
	c.counts = nil
	return old
}

// Classify tells what a request is about. Paths that are no resource of the API
// server have their path as Resource.
func Classify(req *http.Request) Request {
	r := Request{Resource: req.URL.Path}
	named := false
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	var group string
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = "."+parts[1], parts[3:]
	default:
		parts = nil
	}
	// A namespace in front of a resource, but not the namespace itself, nor its
	// subresources.
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		parts = parts[2:]
	}
	if len(parts) > 0 {
		r.Resource = parts[0] + group
		named = len(parts) > 1
	}
	if len(parts) > 2 {
		r.Subresource = parts[2]
	}
	r.Verb = verb(req, named)
	return r
}

func verb(req *http.Request, named bool) string {
	switch req.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		if strings.HasPrefix(req.Header.Get("Content-Type"), "application/apply-patch") {
			return "apply"
		}
		return "patch"
	case http.MethodDelete:
		if !named {
			return "deletecollection"
		}
		return "delete"
	default:
		return "get"
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
