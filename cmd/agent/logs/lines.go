package logs

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// MaxLine is how much of a line is written at once, in bytes; the rest follows
	// as lines of their own.
	MaxLine    = 8 << 10
	timeFormat = "2006-01-02T15:04:05.000000Z07:00"
)

// Lines writes whole lines, each with a label and the time in front. It is safe
// for concurrent use with others that share its sinks only if those are.
type Lines struct {
	label string
	now   func() time.Time
	sinks []io.Writer

	mu   sync.Mutex
	rest []byte
}

// NewLines writes to all sinks; what a sink answers is not looked at.
func NewLines(label string, now func() time.Time, sinks ...io.Writer) *Lines {
	return &Lines{label: label, now: now, sinks: sinks}
}

// Write never fails.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		switch {
		case end >= 0 && end <= MaxLine:
			l.line(l.rest[:end])
			l.rest = l.rest[end+1:]
		case len(l.rest) > MaxLine:
			l.line(l.rest[:MaxLine])
			l.rest = l.rest[MaxLine:]
		default:
			l.rest = bytes.Clone(l.rest)
			return len(p), nil
		}
	}
}

// Close writes a last line that has no end.
func (l *Lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.line(l.rest)
		l.rest = nil
	}
	return nil
}

func (l *Lines) line(text []byte) {
	out := append([]byte(l.label+l.now().Format(timeFormat)+" "), bytes.ToValidUTF8(bytes.TrimSuffix(text, []byte("\r")), []byte("\uFFFD"))...)
	out = append(out, '\n')
	for _, s := range l.sinks {
		_, _ = s.Write(out)
	}
}
