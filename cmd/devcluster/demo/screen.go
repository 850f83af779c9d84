package demo

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// plainInterval is how often plain output speaks when nothing changed.
const plainInterval = 10 * time.Second

// screen shows snapshots: as a table that stays in place on a terminal, else
// as a line per change.
type screen struct {
	out      io.Writer
	terminal bool
	lines    int
	last     string
	lastAt   time.Duration
}

func newScreen(out io.Writer, terminal bool) *screen { return &screen{out: out, terminal: terminal} }

func (s *screen) show(snap *snapshot) {
	if !s.terminal {
		s.plain(snap)
		return
	}
	text := table(snap)
	if s.lines > 0 {
		// Back to the first line of the table, and clear to the end.
		_, _ = fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.lines)
	}
	_, _ = fmt.Fprint(s.out, text)
	s.lines = strings.Count(text, "\n")
}

func (s *screen) plain(snap *snapshot) {
	var parts []string
	for i := range snap.parts {
		p := &snap.parts[i]
		parts = append(parts, fmt.Sprintf("%s: %s%s", p.name, counts(p), waits(p)))
	}
	parts = append(parts, snap.facts.line())
	text := strings.Join(parts, " | ")
	if text == s.last && snap.elapsed-s.lastAt < plainInterval {
		return
	}
	s.last, s.lastAt = text, snap.elapsed
	_, _ = fmt.Fprintf(s.out, "%6.1fs  %s\n", snap.elapsed.Seconds(), text)
}

// counts are the nodes by status word, those that have any.
func counts(p *part) string {
	var out []string
	for _, word := range nodestate.StatusWords() {
		if n := p.status[word]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, word))
		}
	}
	return strings.Join(out, ", ")
}

// waits are the nodes that say what they wait for, by that.
func waits(p *part) string {
	if len(p.waits) == 0 {
		return ""
	}
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(p.waits)) {
		out = append(out, fmt.Sprintf("%d %s", p.waits[reason], reason))
	}
	return " (" + strings.Join(out, ", ") + ")"
}

// table has a block per NodeWright: nodes by status, packages by stage.
func table(snap *snapshot) string {
	var b bytes.Buffer
	for i := range snap.parts {
		p := &snap.parts[i]
		_, _ = fmt.Fprintf(&b, "%s  %d nodes: %s%s\n", p.name, p.nodes, counts(p), waits(p))
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(t, "  PACKAGE\tNODES BY STAGE\tFAILED ATTEMPTS")
		for _, pkg := range p.packages() {
			var places []string
			for _, place := range slices.Sorted(maps.Keys(p.stages[pkg])) {
				places = append(places, fmt.Sprintf("%s %d", place, p.stages[pkg][place]))
			}
			_, _ = fmt.Fprintf(t, "  %s\t%s\t%d\n", pkg, strings.Join(places, ", "), p.retries[pkg])
		}
		_ = t.Flush()
		for _, line := range p.trouble {
			_, _ = fmt.Fprintf(&b, "  ! %s\n", line)
		}
	}
	_, _ = fmt.Fprintf(&b, "%s\n%.1fs\n", snap.facts.line(), snap.elapsed.Seconds())
	return b.String()
}
