package plan

import (
	"strings"
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// SE-07: the record says which digest is on the host, and each Job of the run gets
// that one: also while the spec asks for another already, which is another run.
func TestDigestIsRecorded_SE07(t *testing.T) {
	first, second := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	runs := func(want string) {
		t.Helper()
		e := w.entry("nw", "pa")
		if e.ContainerSHA != want {
			t.Errorf("the record says digest %q, want %q", e.ContainerSHA, want)
		}
		set := nodestate.Set{Packages: w.in.Record.Packages}
		encoded, err := set.Encode(nodestate.OwnerNode, 1)
		if err != nil {
			t.Fatal(err)
		}
		value := encoded.Annotations[nodestate.NewPackageKey(nodestate.KindNodeState, "nw", "pa").String()]
		if shown := strings.Contains(value, `"containerSHA":"`+want+`"`); shown != (want != "") {
			t.Errorf("the node shows digest %q: %t, in %s", want, shown, value)
		}
	}
	stages := func(p Plan, want string) {
		t.Helper()
		if len(p.Create) != 1 || p.Create[0].ContainerSHA != want {
			t.Fatalf("Jobs %+v, want one of digest %q", p.Create, want)
		}
		runs(want)
	}
	for step, digest := range []string{"", first, second, ""} {
		if step > 0 {
			w.pkg("nw", "pa").ContainerSHA, w.nw("nw").Revision = digest, "r"+string(rune('1'+step))
			w.pass() // it asks for a slot
			w.grantSlot("nw")
		}
		stages(w.pass(), digest)
		w.succeed("nw", "pa")
		stages(w.pass(), digest)
		w.succeed("nw", "pa")
		w.pass()
		w.want("nw", "pa", "config/complete")
		runs(digest)
	}
}
