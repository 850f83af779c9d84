package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"
)

// ErrCut is the error of a request whose connection was cut.
var ErrCut = errors.New("faults: connection cut")

// Fault is what happens to a request.
type Fault int

// The faults.
const (
	// None lets the request pass.
	None Fault = iota
	// Cut lets the request take effect and then loses the answer.
	Cut
	// Refuse loses the request before it reaches the server.
	Refuse
	// Fail answers 500 without the request reaching the server.
	Fail
	// Throttle answers 429 without the request reaching the server, as priority and
	// fairness does.
	Throttle
	// FailLate lets the request take effect and then answers 504.
	FailLate
	// Hang lets the request take effect and never answers: the request ends with
	// its context.
	Hang
	// Late loses the connection at once, and delivers the request later, when the
	// caller has gone on: see Injector.Delay.
	Late
)

// Injector lets requests fail. The zero value lets all pass.
type Injector struct {
	// Delay is how long a Late request takes to be delivered; nil is a second. It
	// must not be changed while requests are made.
	Delay func() time.Duration

	mu   sync.Mutex
	plan func(*http.Request) Fault
	// late is what is under way, delivered what was, with its answers.
	late      sync.WaitGroup
	delivered Counts
}

// Plan sets the function that is asked for each request, one at a time; nil
// lets all pass.
func (i *Injector) Plan(plan func(*http.Request) Fault) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.plan = plan
}

// Next lets the next n requests fail that match, and all others pass.
func (i *Injector) Next(n int, fault Fault, match func(*http.Request) bool) {
	i.Plan(func(req *http.Request) Fault {
		if n == 0 || !match(req) {
			return None
		}
		n--
		return fault
	})
}

func (i *Injector) fault(req *http.Request) Fault {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.plan == nil {
		return None
	}
	return i.plan(req)
}

// Wrap is for rest.Config.Wrap.
func (i *Injector) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		fault := i.fault(req)
		switch fault {
		case None:
			return next.RoundTrip(req)
		case Refuse:
			return nil, fmt.Errorf("before the request: %w", ErrCut)
		case Fail:
			return answer(req, http.StatusInternalServerError), nil
		case Throttle:
			return answer(req, http.StatusTooManyRequests), nil
		case Late:
			if err := i.deliverLate(req, next); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("before the late request: %w", ErrCut)
		}
		// The effect must not depend on the caller's patience.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), grace)
		defer cancel()
		resp, err := next.RoundTrip(req.Clone(ctx))
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return nil, err
		}
		if err := resp.Body.Close(); err != nil {
			return nil, err
		}
		switch fault {
		case FailLate:
			return answer(req, http.StatusGatewayTimeout), nil
		case Hang:
			<-req.Context().Done()
			return nil, req.Context().Err()
		default:
			return nil, fmt.Errorf("after the request: %w", ErrCut)
		}
	})
}

// deliverLate sends a copy of the request after the delay, whatever became of
// the caller.
func (i *Injector) deliverLate(req *http.Request, next http.RoundTripper) error {
	late := req.Clone(context.WithoutCancel(req.Context()))
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return fmt.Errorf("read late request: %w", err)
		}
		if err := req.Body.Close(); err != nil {
			return fmt.Errorf("read late request: %w", err)
		}
		late.Body = io.NopCloser(bytes.NewReader(body))
	}
	delay := time.Second
	if i.Delay != nil {
		delay = i.Delay()
	}
	i.late.Go(func() {
		time.Sleep(delay)
		r := Classify(late)
		if resp, err := next.RoundTrip(late); err == nil {
			r.Code = resp.StatusCode
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.delivered == nil {
			i.delivered = Counts{}
		}
		i.delivered[r]++
	})
	return nil
}

// Delivered waits until all late requests are delivered, and counts them.
func (i *Injector) Delivered() Counts {
	i.late.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.delivered)
}

// answer is a response that did not come from the API server.
func answer(req *http.Request, code int) *http.Response {
	body := fmt.Appendf(nil, "faults: %d", code)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"text/plain"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}
}

// IsWrite tells whether a request writes the named resource (Request.Name).
func IsWrite(name string) func(*http.Request) bool {
	return func(req *http.Request) bool {
		r := Classify(req)
		return r.Writes() && r.Name() == name
	}
}

// Every is a plan that gives each fault to every n-th request that matches, in
// turn.
func Every(n int, match func(*http.Request) bool, faults ...Fault) func(*http.Request) Fault {
	seen, turn := 0, 0
	return func(req *http.Request) Fault {
		if !match(req) {
			return None
		}
		if seen++; seen%n != 0 {
			return None
		}
		turn++
		return faults[(turn-1)%len(faults)]
	}
}

// grace ends a detached request that the server does not answer.
const grace = 30 * time.Second
