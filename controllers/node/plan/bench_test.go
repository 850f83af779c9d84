package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// maxPass is how long a pass may take on the node that crowded makes, at the
// median. A benchmark that is over it fails.
const maxPass = 100 * time.Microsecond

// crowded are nodes with 4 NodeWrights of 10 packages each, from the first pass to
// the last, and the allocations that a pass may take there: a fifth more than it
// takes.
func crowded(t testing.TB) map[string]struct {
	in     Input
	allocs float64
} {
	t.Helper()
	type node = struct {
		in     Input
		allocs float64
	}
	at := func(allocs float64, arrange func(w *world)) node {
		var nws []NodeWright
		for i := range 4 {
			var pkgs []Package
			for j := range 10 {
				pkgs = append(pkgs, makePackage(fmt.Sprintf("package-%c", 'a'+j)))
			}
			nws = append(nws, makeNodeWright(fmt.Sprintf("nodewright-%d", i), pkgs...))
		}
		w := newWorld(&testing.T{}, nws...)
		arrange(w)
		w.in.NextSeq = w.seq + 1
		return node{w.in, allocs}
	}
	return map[string]node{
		"start":   at(100, func(*world) {}),
		"running": at(85, func(w *world) { w.pass() }),
		"complete": at(156, func(w *world) {
			for range w.in.NodeWrights {
				w.finishAll()
				for i := range w.in.NodeWrights {
					w.grantSlot(w.in.NodeWrights[i].Name)
				}
			}
			w.finishAll()
			for _, nw := range w.in.NodeWrights {
				if got := w.in.Record.Status[nw.Name]; got != nodestate.StatusComplete {
					t.Fatalf("%s is %s, want complete", nw.Name, got)
				}
			}
		}),
	}
}

func TestAllocationsOfAPass(t *testing.T) {
	for name, node := range crowded(t) {
		t.Run(name, func(t *testing.T) {
			if got := testing.AllocsPerRun(20, func() { Compute(node.in) }); got > node.allocs {
				t.Errorf("a pass takes %.0f allocations, at most %.0f are good", got, node.allocs)
			}
		})
	}
}

func BenchmarkCompute(b *testing.B) {
	for name, node := range crowded(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				Compute(node.in)
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			median := took[len(took)/2]
			b.ReportMetric(float64(median.Nanoseconds())/1e3, "µs-median")
			if median > maxPass {
				b.Errorf("a pass takes %s at the median, at most %s are good", median, maxPass)
			}
		})
	}
}
