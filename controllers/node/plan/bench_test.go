package plan

import (
	"fmt"
	"testing"
)

// BenchmarkCompute plans a node with 4 NodeWrights of 10 packages each, at
// rest and at work.
func BenchmarkCompute(b *testing.B) {
	var nws []NodeWright
	for i := range 4 {
		var pkgs []Package
		for j := range 10 {
			pkgs = append(pkgs, makePackage(fmt.Sprintf("package-%c", 'a'+j)))
		}
		nws = append(nws, makeNodeWright(fmt.Sprintf("nodewright-%d", i), pkgs...))
	}
	for _, bc := range []struct {
		name   string
		passes int
	}{{"start", 0}, {"running", 1}} {
		b.Run(bc.name, func(b *testing.B) {
			w := newWorld(&testing.T{}, nws...)
			for range bc.passes {
				w.pass()
			}
			w.in.NextSeq = w.seq + 1
			b.ReportAllocs()
			for b.Loop() {
				Compute(w.in)
			}
		})
	}
}
