package faults

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Hold is a delay that holds events back until Set is called again.
const Hold = time.Duration(1<<63 - 1)

// Lag holds back what watches deliver, so that caches are behind the API
// server. The zero value delays nothing.
type Lag struct {
	// Resource limits it to one resource (nodes, jobs.batch); all if empty.
	Resource string

	mu      sync.Mutex
	delay   time.Duration
	changed chan struct{}
}

// Set changes the delay, of what is held back already as well.
func (l *Lag) Set(delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// state is the delay, and a channel that is closed when it changes.
func (l *Lag) state() (time.Duration, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.delay, l.changed
}

// Wrap is for rest.Config.Wrap.
func (l *Lag) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err != nil || req.URL.Query().Get("watch") == "" ||
			l.Resource != "" && Classify(req).Resource != l.Resource {
			return resp, err
		}
		b := &laggingBody{lag: l, body: resp.Body, chunks: make(chan chunk, chunksAhead), closed: make(chan struct{})}
		go b.receive()
		resp.Body = b
		return resp, nil
	})
}

// chunksAhead bounds what is held back per watch; then the server's side waits.
const chunksAhead = 1 << 16

type chunk struct {
	data []byte
	at   time.Time
	err  error
}

// laggingBody is the body of a watch whose bytes come later.
type laggingBody struct {
	lag    *Lag
	body   io.ReadCloser
	chunks chan chunk
	rest   chunk

	once   sync.Once
	closed chan struct{}
}

func (b *laggingBody) receive() {
	for {
		buffer := make([]byte, 32<<10)
		n, err := b.body.Read(buffer)
		select {
		case b.chunks <- chunk{data: buffer[:n], at: time.Now(), err: err}:
		case <-b.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader. It is not called by two goroutines at once.
func (b *laggingBody) Read(p []byte) (int, error) {
	if len(b.rest.data) == 0 && b.rest.err == nil {
		select {
		case b.rest = <-b.chunks:
		case <-b.closed:
			return 0, io.ErrClosedPipe
		}
		if err := b.await(b.rest.at); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.rest.data)
	b.rest.data = b.rest.data[n:]
	if len(b.rest.data) == 0 && b.rest.err != nil {
		return n, b.rest.err
	}
	return n, nil
}

// await returns when what came at the given time is due.
func (b *laggingBody) await(at time.Time) error {
	for {
		delay, changed := b.lag.state()
		left := delay
		if delay != Hold {
			if left = time.Until(at.Add(delay)); left <= 0 {
				return nil
			}
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
			timer.Stop()
		case <-b.closed:
			timer.Stop()
			return io.ErrClosedPipe
		}
	}
}

// Close implements io.Closer.
func (b *laggingBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.body.Close()
}
