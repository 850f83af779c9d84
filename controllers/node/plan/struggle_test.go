package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// A node that tries a stage again says so with its slot, in the same applies.
func TestBackOffIsShown(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	w.fail("nw", "pa", "Error", false)
	seq := w.seq
	w.pass()
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, nodestate.SlotBackOff)
	if e := w.entry("nw", "pa"); !strings.HasPrefix(e.Message, "next attempt at 2026-01-01T12:00:10Z: attempt 1 of stage apply ended with") {
		t.Errorf("the record says %q", e.Message)
	}
	w.in.Now = w.in.Now.Add(10 * time.Second)
	w.pass()
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, "")
	if writes := w.seq - seq; writes != 2 {
		t.Errorf("a failed attempt and the next one took %d applies, want 2", writes)
	}
}

// So does a node whose pod does not start, until it does or is erroring.
func TestPodThatDoesNotStartIsShown(t *testing.T) {
	w := newWorld(t, makeNodeWright("nw", makePackage("pa")))
	w.pass()
	ref := nodestate.PackageRef{NodeWright: "nw", Package: "pa"}
	w.in.Record.PodReports = map[nodestate.PackageRef]nodestate.PodReport{ref: {
		Job: w.running("nw", "pa").Name, Name: "pa", NodeWright: "nw", Pod: "p", Reason: "ImagePullBackOff",
		WaitingSince: nodestate.FormatTime(w.in.Now),
	}}
	w.pass()
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, nodestate.SlotPodNotStarting)
	w.in.Now = w.in.Now.Add(2 * time.Minute)
	w.pass()
	w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotWorking, "")
	w.in.Record.PodReports = nil
	w.pass()
	w.wantStatus("nw", nodestate.StatusInProgress, nodestate.SlotWorking, "")
}

func TestErroringSaysWhatToDo(t *testing.T) {
	for limit, want := range map[int32]string{0: "failed once and", 1: "failed 2 times and"} {
		nw := makeNodeWright("nw", makePackage("pa"))
		nw.RetryLimit = limit
		w := newWorld(t, nw)
		for range limit + 1 {
			w.pass()
			w.fail("nw", "pa", "Error", false)
			w.pass()
			w.in.Now = w.in.Now.Add(time.Hour)
		}
		w.want("nw", "pa", "apply/erroring")
		if e := w.entry("nw", "pa"); !strings.Contains(e.Message, want) || !strings.Contains(e.Message, "changes") {
			t.Errorf("limit %d: the record says %q, want %q", limit, e.Message, want)
		}
	}
}
