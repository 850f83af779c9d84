package system

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/nodewright/nodewright/test/faults"
)

// proxy stands between the operator and the API server, speaks to it as the
// operator's user, and lets requests fail as the injector says.
type proxy struct {
	injector faults.Injector
	counter  faults.Counter
	address  string
	target   http.Handler
}

// startProxy listens at once, so that the address is known before the user
// exists; serve says whom to speak for.
func startProxy(t *testing.T) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	p := &proxy{address: "http://" + listener.Addr().String()}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.target.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return p
}

func (p *proxy) serve(config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.Wrap(p.injector.Wrap)
	config.Wrap(p.counter.Wrap)
	transport, err := rest.TransportFor(config)
	if err != nil {
		return fmt.Errorf("make transport of the proxy: %w", err)
	}
	host, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("read address of the API server: %w", err)
	}
	p.target = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(host) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			// The client must see a connection that broke, not an answer.
			if errors.Is(err, faults.ErrCut) || !errors.Is(err, context.Canceled) {
				panic(http.ErrAbortHandler)
			}
		},
	}
	return nil
}
