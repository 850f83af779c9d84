package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// ask puts a request on the node, as a user does.
func (w *world) ask(action nodestate.Action, id, nw, pkg string, stage nodestate.Stage) {
	w.t.Helper()
	key := nodestate.NewKey(nodestate.KindRequest, nw)
	if pkg != "" {
		key = nodestate.NewPackageKey(nodestate.KindPackageRequest, nw, pkg)
	}
	value := fmt.Sprintf(`{"action":%q,"id":%q}`, action, id)
	if stage != "" {
		value = fmt.Sprintf(`{"action":%q,"id":%q,"stage":%q}`, action, id, stage)
	}
	r, err := nodestate.DecodeRequest(key, value)
	if err != nil {
		w.t.Fatal(err)
	}
	w.in.Record.Requests = append(w.in.Record.Requests, nodestate.RequestAt{Request: r, Key: key.String(), Value: value})
}

// removeAnswered is what the reconciler does after the record was written.
func (w *world) removeAnswered(p Plan) {
	w.in.Record.Requests = slices.DeleteFunc(w.in.Record.Requests, func(r nodestate.RequestAt) bool {
		return slices.Contains(p.Answered, RequestAnswered{Key: r.Key, Value: r.Value})
	})
}

func (w *world) handled(nw string) []string { return w.in.Record.Handled[nw] }

func TestRerun(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb")))
	w.finishAll()
	run, other := w.entry("nw", "pa").Run, w.entry("nw", "pb")
	w.ask(nodestate.ActionRerun, "1", "nw", "pa", "")
	p := w.pass()
	if len(p.Answered) != 1 || len(p.Create) != 0 {
		t.Fatalf("answers %+v and creates %+v, want the request answered and nothing started", p.Answered, p.Create)
	}
	if diff := cmp.Diff([]string{"1"}, w.handled("nw")); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
	w.want("nw", "pa", "apply/unknown")
	w.wantStatus("nw", nodestate.StatusWaiting, nodestate.SlotReleased, nodestate.SlotRetryWanted)

	// Until the key is gone, the request is neither carried out again nor forgotten.
	w.grantSlot("nw")
	if p := w.pass(); len(p.Answered) != 1 || len(p.Create) != 0 || len(w.handled("nw")) != 1 {
		t.Errorf("answered again: %+v, creates %+v, handled %v", p.Answered, p.Create, w.handled("nw"))
	} else {
		w.removeAnswered(p)
	}
	w.finishAll()
	w.want("nw", "pa", "config/complete")
	if got := w.entry("nw", "pa").Run; got <= run {
		t.Errorf("run %d after run %d", got, run)
	}
	if diff := cmp.Diff(other, w.entry("nw", "pb")); diff != "" {
		t.Errorf("the other package moved (-before +after):\n%s", diff)
	}
	if len(w.handled("nw")) != 0 {
		t.Errorf("handled %v, want nothing once the key is gone", w.handled("nw"))
	}
}

func TestRerunFromStage(t *testing.T) {
	for name, tc := range map[string]struct {
		stage nodestate.Stage
		want  string
		// refused says what the event has to say; empty if it is carried out.
		refused string
	}{
		"config":                    {stage: nodestate.StageConfig, want: "config/in_progress"},
		"apply":                     {stage: nodestate.StageApply, want: "apply/in_progress"},
		"upgrade, but from nothing": {stage: nodestate.StageUpgrade, want: "config/complete", refused: "no version before"},
		"a stage that begins none":  {stage: nodestate.StagePostInterrupt, want: "config/complete", refused: "cannot start with stage post-interrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
			w.finishAll()
			w.ask(nodestate.ActionRerun, "1", "nw", "pa", tc.stage)
			p := w.pass()
			w.removeAnswered(p)
			refused := slices.ContainsFunc(p.Events, func(e Event) bool {
				return e.Warning && e.Reason == ReasonRequestRefused && strings.Contains(e.Message, tc.refused)
			})
			if refused != (tc.refused != "") || len(p.Answered) != 1 {
				t.Errorf("refused: %t, events %+v", refused, p.Events)
			}
			if tc.refused == "" {
				w.grantSlot("nw")
			}
			w.pass()
			w.want("nw", "pa", tc.want)
		})
	}
}

// What runs ends first, and the request waits for that.
func TestRerunEndsWhatRuns(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.ask(nodestate.ActionRerun, "1", "nw", "", "")
	job := *w.running("nw", "pa")
	p := Compute(w.in)
	if len(p.Delete) != 1 || len(p.Answered) != 0 || len(p.Set.Handled) != 0 {
		t.Fatalf("deletes %+v, answers %+v, handled %v; want the Job ended and the request open", p.Delete, p.Answered, p.Set.Handled)
	}
	w.in.Jobs[0].Deleting = true
	if p := Compute(w.in); len(p.Answered) != 0 {
		t.Fatalf("answers %+v while Job %s has not ended", p.Answered, job.Name)
	}
	w.removeJob(job.UID)
	w.removeAnswered(w.pass())
	p = w.pass()
	if len(p.Create) != 1 || p.Create[0].Identity.Run == job.Identity.Run {
		t.Errorf("creates %+v, want a Job of another run than %d", p.Create, job.Identity.Run)
	}
}

// An erroring package starts again, and its failures are forgotten.
func TestRerunOfErroringPackage(t *testing.T) {
	nw := makeNodeWright("nw", makePackage("pa"))
	nw.RetryLimit = 0
	w := newWorld(t, nw)
	w.pass()
	w.fail("nw", "pa", "Error", false)
	w.pass()
	w.want("nw", "pa", "apply/erroring")
	w.ask(nodestate.ActionRerun, "1", "nw", "", "")
	w.removeAnswered(w.pass())
	w.grantSlot("nw")
	w.pass()
	w.want("nw", "pa", "apply/in_progress")
	if e := w.entry("nw", "pa"); e.Failures != 0 || e.Attempt != 1 {
		t.Errorf("after the rerun: %+v", e)
	}
}

// A request that cannot be read is refused once, taken off, and holds nothing up.
func TestUnreadableRequestIsRefused(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.finishAll()
	key := nodestate.NewPackageKey(nodestate.KindPackageRequest, "nw", "pa").String()
	for _, value := range []string{"junk", `{"action":"rerun"}`, strings.Repeat("x", 60_000)} {
		w.in.Record.Malformed = nodestate.Decode(map[string]string{key: value}, nil).Malformed
		p := w.pass()
		if len(p.Events) != 1 || p.Events[0].Reason != ReasonRequestRefused || !strings.Contains(p.Events[0].Message, "taken off") {
			t.Fatalf("events %+v, want one refusal", p.Events)
		}
		want := []RequestAnswered{{Key: key, Value: value}}
		if diff := cmp.Diff(want, p.Answered); diff != "" {
			t.Fatalf("answered (-want +got):\n%s", diff)
		}
		// The removal is not seen yet.
		if p = w.pass(); len(p.Events) != 0 || !cmp.Equal(want, p.Answered) {
			t.Fatalf("the second pass has events %+v and answers %+v", p.Events, p.Answered)
		}
		w.in.Record.Malformed = nil
		if w.pass(); len(w.handled("nw")) != 0 {
			t.Fatalf("%v stays noted", w.handled("nw"))
		}
	}
	w.in.Record.Malformed = nodestate.Decode(map[string]string{key: "junk"}, nil).Malformed
	w.pkg("nw", "pa").ConfigHash, w.nw("nw").Revision = "c2", "r2"
	w.grantSlot("nw")
	w.pass()
	w.want("nw", "pa", "config/in_progress")
}

// A reset forgets the record, also one that cannot be read, and no other.
func TestReset(t *testing.T) {
	key := nodestate.NewPackageKey(nodestate.KindNodeState, "nw", "pa").String()
	for name, tc := range map[string]struct {
		pkg      string
		readable bool
	}{
		"one package":                           {"pa", true},
		"all packages":                          {"", true},
		"a package that cannot be read":         {"pa", false},
		"all packages, one that cannot be read": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, makeNodeWright("nw", makePackage("pa")), makeNodeWright("other", makePackage("pa")))
			w.finishAll()
			w.grantSlot("other")
			w.finishAll()
			kept := w.entry("other", "pa")
			if !tc.readable {
				delete(w.in.Record.Packages, nodestate.PackageRef{NodeWright: "nw", Package: "pa"})
				w.in.Record.Raw = map[string]string{key: "{}"}
				w.in.Record.Malformed = []nodestate.Malformed{{Key: key, Value: "{}", NodeWright: "nw", Package: "pa", Kind: nodestate.KindNodeState}}
			}
			w.ask(nodestate.ActionReset, "1", "nw", tc.pkg, "")
			p := w.pass()
			w.removeAnswered(p)
			w.want("nw", "pa", "absent")
			if value, there := p.Set.Raw[key]; there {
				t.Errorf("the value %q is carried on", value)
			}
			w.in.Record.Malformed = nil
			w.grantSlot("nw")
			w.pass()
			w.want("nw", "pa", "apply/in_progress")
			if diff := cmp.Diff(kept, w.entry("other", "pa")); diff != "" {
				t.Errorf("the package of another NodeWright moved (-before +after):\n%s", diff)
			}
		})
	}
}

// A node that left the rollout can be told to forget, and does not start anything.
func TestResetOfNodeThatIsNotSelected(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.finishAll()
	w.nw("nw").Selected = false
	w.pass()
	w.ask(nodestate.ActionReset, "1", "nw", "", "")
	w.removeAnswered(w.pass())
	w.pass()
	w.want("nw", "pa", "absent")
	if len(w.handled("nw")) != 0 {
		t.Errorf("handled %v", w.handled("nw"))
	}
}

// Requests go with the NodeWright: another of the name is not meant by them.
func TestRequestsGoWithTheNodeWright(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.finishAll()
	w.ask(nodestate.ActionReset, "1", "nw", "pa", "")
	w.nw("nw").Deleting = true
	if p := w.pass(); len(p.Answered) != 1 || len(w.handled("nw")) != 0 {
		t.Errorf("answered %+v, handled %v", p.Answered, w.handled("nw"))
	}
}

// Two requests may have come with one id; both are carried out, once.
func TestRequestsOfOneID(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa"), makePackage("pb")))
	w.finishAll()
	w.ask(nodestate.ActionRerun, "1", "nw", "pa", "")
	w.ask(nodestate.ActionRerun, "1", "nw", "pb", "")
	w.removeAnswered(w.pass())
	w.want("nw", "pa", "apply/unknown")
	w.want("nw", "pb", "apply/unknown")
	if diff := cmp.Diff([]string{"1"}, w.handled("nw")); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
}
