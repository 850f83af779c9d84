package plan

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// script runs a world and writes down what each pass decides.
type script struct {
	*world
	out strings.Builder
}

func (s *script) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// round is one pass, followed by all nodes with a slot doing their work: those
// that fail end erroring.
func (s *script) round(failing ...string) {
	p := s.pass()
	for _, g := range p.Grants {
		kind := "grant"
		if g.Renewal {
			kind = "renew"
		}
		s.say("  %s %s order %d", kind, g.Node, g.Batch.Order)
	}
	for _, e := range p.Events {
		s.say("  event %s: %s", e.Reason, e.Message)
	}
	s.say("  status %s, %d in progress, %s complete, next order %d", p.Status.Status, p.Status.NodesInProgress, p.Status.CompleteNodes, p.NextOrder)
	for _, c := range p.Status.Conditions {
		s.say("  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		s.work(name)
		if slices.Contains(failing, name) {
			s.end(nodestate.StatusErroring, name)
		} else {
			s.end(nodestate.StatusComplete, name)
		}
	}
	s.now = s.now.Add(time.Minute)
}

func TestGoldenRollout(t *testing.T) {
	s := &script{world: newWorld(t, nodeWright(count(2)), names(5)...)}
	s.nodes["n04"].Ready = corev1.ConditionUnknown

	s.say("5 nodes, interruptionBudget 2; n01 and n03 will fail, n04 is unreachable")
	s.round("n01", "n03")
	s.say("n02 is complete, n01 uses half of the budget")
	s.round("n01", "n03")
	s.say("n03 fails as well")
	s.round("n01", "n03")
	s.say("a new version repairs the package")
	s.change(version("1.0.1"))
	s.round()
	s.say("n06 joins, n02 leaves")
	s.join("n06")
	s.leave("n02")
	s.round()
	s.say("n04 is back")
	s.nodes["n04"].Ready = corev1.ConditionTrue
	s.round()
	s.say("all are done")
	s.round()
	s.say("paused, with another version")
	s.change(version("1.1.0"))
	s.change(annotated(v1alpha1.AnnotationPause))
	s.round()
	s.say("n05 is ignored, and the pause is over")
	s.nodes["n05"].Ignored = true
	s.change(func(nw *v1alpha1.NodeWright) { nw.Annotations = nil })
	s.round()
	s.round()
	s.round()

	path := filepath.Join("testdata", "rollout.txt")
	if *update {
		if err := os.WriteFile(path, []byte(s.out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), s.out.String()); diff != "" {
		t.Errorf("rollout (-want +got), write it anew with -update:\n%s", diff)
	}
}
