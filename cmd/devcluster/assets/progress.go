package assets

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// heartbeat is the time between two signs of life. Someone who watches must not take a long build for a hang.
const heartbeat = 30 * time.Second

// progress writes the lines about one component.
type progress struct {
	mu      sync.Mutex
	out     io.Writer
	prefix  string
	started time.Time
	stop    chan struct{}
	beat    time.Duration
}

func newProgress(out io.Writer, c Component, number, total int) *progress {
	return &progress{out: out, prefix: fmt.Sprintf("assets: [%d/%d] %-32s", number, total, c), beat: heartbeat}
}

func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Lost lines about progress are no reason to stop.
	_, _ = fmt.Fprintf(p.out, "%s %s\n", p.prefix, fmt.Sprintf(format, args...))
}

// start begins the work with one source. Every start is followed by failed or done.
func (p *progress) start(source string) {
	p.started, p.stop = time.Now(), make(chan struct{})
	if source == "build" {
		p.line("building from source (all components together: up to 20 minutes with an empty Go cache)")
	}
	go func(started time.Time, stop <-chan struct{}) {
		ticker := time.NewTicker(p.beat)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				p.line("%s still runs after %s", source, round(time.Since(started)))
			}
		}
	}(p.started, p.stop)
}

// failed says in one line why a source did not serve. The whole reason is in the error at the end.
func (p *progress) failed(source string, err error) {
	close(p.stop)
	reason, _, _ := strings.Cut(err.Error(), "\n")
	p.line("%s: not usable after %s: %s", source, round(time.Since(p.started)), reason)
}

// done says where the binary came from, how long that took and how large it is.
func (p *progress) done(source, path string) {
	close(p.stop)
	size := int64(0)
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	p.line("ready in %s, %d MB (%s)", round(time.Since(p.started)), size/1_000_000, source)
}

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
