package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
)

// The status is looked at after every single step of a rollout of two
// revisions: it never says complete before all nodes are at the present one.
func TestNeverCompleteTooEarly(t *testing.T) {
	t.Run("RO-17", func(t *testing.T) {
		w := newWorld(t, nodeWright(count(2)), names(5)...)
		isComplete := func() bool {
			p := w.pass()
			ready := condition(t, &p, v1alpha1.ConditionReady).Status == metav1.ConditionTrue
			if ready != (p.Status.Status == nodestate.StatusComplete) {
				t.Fatalf("Ready is %t with status %s", ready, p.Status.Status)
			}
			return ready
		}
		for range 2 {
			done := map[string]bool{}
			for len(done) < 5 {
				if isComplete() {
					t.Fatalf("complete after %d of 5 nodes", len(done))
				}
				for name, n := range w.nodes {
					if !w.holds(n) {
						continue
					}
					w.work(name)
					if isComplete() {
						t.Fatalf("complete while %s works", name)
					}
					w.complete(name)
					done[name] = true
					break
				}
			}
			if !isComplete() {
				t.Fatal("not complete at the end")
			}
			w.change(version("2.0.0"))
		}
	})
}

// The generation and Ready of one status are of the same spec.
func TestGenerationAndReadyGoTogether(t *testing.T) {
	t.Run("RO-18", func(t *testing.T) {
		w := newWorld(t, nodeWright(), names(2)...)
		w.pass()
		w.complete("n01", "n02")
		if p := w.pass(); condition(t, &p, v1alpha1.ConditionReady).Status != metav1.ConditionTrue {
			t.Fatal("not ready after the first rollout")
		}
		w.change(version("2.0.0"))
		// No node has seen the new spec: all words are about the old one.
		p := w.pass()
		ready := condition(t, &p, v1alpha1.ConditionReady)
		if p.Status.ObservedGeneration != w.nw.Generation || ready.ObservedGeneration != w.nw.Generation {
			t.Errorf("observed generations %d and %d, want %d", p.Status.ObservedGeneration, ready.ObservedGeneration, w.nw.Generation)
		}
		if ready.Status != metav1.ConditionFalse || p.Status.CompleteNodes != "0/2" {
			t.Errorf("Ready is %s with %s complete nodes for the new spec", ready.Status, p.Status.CompleteNodes)
		}
	})
	t.Run("RO-18/change that starts nothing again", func(t *testing.T) {
		w := newWorld(t, nodeWright(), "n01")
		w.pass()
		w.complete("n01")
		w.change(func(nw *v1alpha1.NodeWright) { nw.Spec.Serial, nw.Generation = true, 2 })
		p := w.pass()
		if c := condition(t, &p, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue || c.ObservedGeneration != 2 {
			t.Errorf("Ready is %s for generation %d, want True for 2", c.Status, c.ObservedGeneration)
		}
	})
	t.Run("RO-18/selector takes in another node", func(t *testing.T) {
		w := newWorld(t, nodeWright(), names(2)...)
		w.nodes["n02"].Selected = false
		w.pass()
		w.complete("n01")
		w.nodes["n02"].Selected = true
		if p := w.pass(); p.AllComplete || condition(t, &p, v1alpha1.ConditionReady).Status != metav1.ConditionFalse {
			t.Error("ready though a node is selected that nothing was done on")
		}
	})
}

func TestHeldNodeWright(t *testing.T) {
	hold := func(nw *v1alpha1.NodeWright) { nw.Spec.DeploymentPolicy = "slow" }
	w := newWorld(t, nodeWright(hold), names(2)...)
	p := w.pass()
	c := condition(t, &p, v1alpha1.ConditionBlocked)
	if len(p.Grants) > 0 || p.Status.Status != nodestate.StatusBlocked || c.Status != metav1.ConditionTrue ||
		c.Reason != v1alpha1.ReasonNotSupported || !strings.Contains(c.Message, "spec.deploymentPolicy") {
		t.Errorf("granted %v, status %s, condition %+v", granted(&p), p.Status.Status, c)
	}
	if len(p.Events) != 1 || !p.Events[0].Warning || p.Events[0].Message != c.Message {
		t.Errorf("events %+v, want one warning", p.Events)
	}
	if p := w.pass(); len(p.Events) > 0 {
		t.Errorf("told again: %+v", p.Events)
	}
	w.change(func(nw *v1alpha1.NodeWright) { nw.Spec.DeploymentPolicy = "" })
	p = w.pass()
	wantGranted(t, p, "n01", "n02")
	if c := condition(t, &p, v1alpha1.ConditionBlocked); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonResolved {
		t.Errorf("condition %+v after the field is gone", c)
	}
	t.Run("while a node works", func(t *testing.T) {
		w.work("n01")
		w.complete("n02")
		w.change(hold)
		w.change(version("2.0.0"))
		p := w.pass()
		if c := condition(t, &p, v1alpha1.ConditionProgressing); len(p.Grants) > 0 || c.Status != metav1.ConditionTrue ||
			!strings.Contains(c.Message, "1 node holds a slot") {
			t.Errorf("granted %v, condition %+v", granted(&p), c)
		}
	})
	t.Run("complete is not ready", func(t *testing.T) {
		w := newWorld(t, nodeWright(), "n01")
		w.pass()
		w.complete("n01")
		w.change(hold)
		if p := w.pass(); p.AllComplete || condition(t, &p, v1alpha1.ConditionReady).Status != metav1.ConditionFalse {
			t.Error("ready though the spec asks for what is not supported")
		}
	})
}

func TestPauseAndDisable(t *testing.T) {
	for key, want := range map[string]nodestate.StatusWord{
		v1alpha1.AnnotationPause:         nodestate.StatusPaused,
		v1alpha1.LegacyAnnotationPause:   nodestate.StatusPaused,
		v1alpha1.AnnotationDisable:       nodestate.StatusDisabled,
		v1alpha1.LegacyAnnotationDisable: nodestate.StatusDisabled,
	} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t, nodeWright(count(1)), names(2)...)
			w.pass()
			w.work("n01")
			w.change(annotated(key))
			p := w.pass()
			c := condition(t, &p, v1alpha1.ConditionProgressing)
			if p.Status.Status != want || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "a stage that runs there is suspended") {
				t.Errorf("status %s, want %s, condition %+v", p.Status.Status, want, c)
			}
			w.complete("n01")
			p = w.pass()
			wantGranted(t, p)
			if c := condition(t, &p, v1alpha1.ConditionProgressing); c.Status != metav1.ConditionFalse {
				t.Errorf("progressing without a slot in use: %+v", c)
			}
			w.change(func(nw *v1alpha1.NodeWright) { nw.Annotations = nil })
			wantGranted(t, w.pass(), "n02")
			w.complete("n02")
			w.change(annotated(key))
			p = w.pass()
			if c := condition(t, &p, v1alpha1.ConditionReady); p.Status.Status != want || c.Status != metav1.ConditionTrue {
				t.Errorf("status %s with all complete, Ready %+v", p.Status.Status, c)
			}
		})
	}
}

func TestStanding(t *testing.T) {
	tests := map[string]struct {
		nw         *v1alpha1.NodeWright
		nodes      int
		change     func(w *world)
		invalid    string
		wantWord   nodestate.StatusWord
		wantReady  metav1.ConditionStatus
		wantReason string
	}{
		"no node": {nw: nodeWright(), wantWord: nodestate.StatusComplete, wantReady: metav1.ConditionTrue, wantReason: v1alpha1.ReasonNoNodes},
		"first node": {
			nw: nodeWright(), nodes: 1,
			wantWord: nodestate.StatusInProgress, wantReady: metav1.ConditionFalse, wantReason: v1alpha1.ReasonRollingOut,
		},
		"budget of 0": {
			nw: nodeWright(count(0)), nodes: 2,
			wantWord: nodestate.StatusBlocked, wantReady: metav1.ConditionFalse, wantReason: v1alpha1.ReasonBudgetUsedUp,
		},
		"spec that cannot be read": {
			nw: nodeWright(), nodes: 1, invalid: "spec.nodeSelectors: no",
			wantWord: nodestate.StatusBlocked, wantReady: metav1.ConditionFalse, wantReason: v1alpha1.ReasonInvalidSpec,
		},
		"all blocked": {
			nw: nodeWright(), nodes: 2,
			change: func(w *world) {
				for _, n := range w.nodes {
					n.Word, n.Detail = nodestate.StatusBlocked, Detail{Reason: v1alpha1.ReasonWaiting, Message: "another comes first"}
				}
			},
			wantWord: nodestate.StatusBlocked, wantReady: metav1.ConditionFalse, wantReason: v1alpha1.ReasonWaiting,
		},
		"record that cannot be read": {
			nw: nodeWright(), nodes: 1,
			change: func(w *world) {
				w.pass()
				w.work("n01")
				w.end(nodestate.StatusUnknown, "n01")
				w.nodes["n01"].Unreadable = []string{"nodewright.nvidia.com/nodeState_gpu_driver"}
			},
			wantWord: nodestate.StatusUnknown, wantReady: metav1.ConditionFalse, wantReason: v1alpha1.ReasonRollingOut,
		},
		"erroring for good": {
			nw: nodeWright(), nodes: 1,
			change: func(w *world) {
				w.pass()
				w.work("n01")
				w.end(nodestate.StatusErroring, "n01")
			},
			wantWord: nodestate.StatusErroring, wantReady: metav1.ConditionFalse, wantReason: v1alpha1.ReasonNodesErroring,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.nw, names(tc.nodes)...)
			if tc.change != nil {
				tc.change(w)
			}
			in := w.input()
			in.Invalid = tc.invalid
			p := Compute(in)
			c := condition(t, &p, v1alpha1.ConditionReady)
			if p.Status.Status != tc.wantWord || c.Status != tc.wantReady || c.Reason != tc.wantReason {
				t.Errorf("status %s, Ready %s for %s (%s); want %s, %s for %s",
					p.Status.Status, c.Status, c.Reason, c.Message, tc.wantWord, tc.wantReady, tc.wantReason)
			}
		})
	}
}

func TestProblemsAreNamed(t *testing.T) {
	w := newWorld(t, nodeWright(), names(15)...)
	w.pass()
	w.work(names(15)...)
	w.end(nodestate.StatusErroring, names(12)...)
	w.nodes["n03"].Detail = Detail{Package: "driver", Reason: "ExitCode", Message: "step failed"}
	w.nodes["n14"].Unreadable = []string{"nodewright.nvidia.com/nodeState_gpu_driver"}
	p := w.pass()
	problem := p.Status.Problems[0]
	if problem.Type != v1alpha1.ConditionErroring || problem.Count != 12 || len(problem.Nodes) != v1alpha1.MaxProblemNodes {
		t.Errorf("problem %s has %d nodes and names %d", problem.Type, problem.Count, len(problem.Nodes))
	}
	want := v1alpha1.ProblemNode{Name: "n03", Package: "driver", Reason: "ExitCode", Message: "step failed"}
	if diff := cmp.Diff(want, problem.Nodes[2]); diff != "" {
		t.Errorf("third node (-want +got):\n%s", diff)
	}
	c := condition(t, &p, v1alpha1.ConditionErroring)
	for _, text := range []string{"12 nodes are erroring", "n03 (driver: ExitCode)", "and 2 more"} {
		if !strings.Contains(c.Message, text) {
			t.Errorf("message %q does not say %q", c.Message, text)
		}
	}
	if c := condition(t, &p, v1alpha1.ConditionNodeStateMalformed); !strings.Contains(c.Message, "n14") ||
		!strings.Contains(c.Message, "nodeState_gpu_driver") {
		t.Errorf("message %q does not name node and key", c.Message)
	}
}

func TestConditionTimes(t *testing.T) {
	w := newWorld(t, nodeWright(count(1)), names(2)...)
	w.pass()
	w.complete("n01")
	w.now = start.Add(time.Hour)
	p := w.pass()
	if c := condition(t, &p, v1alpha1.ConditionReady); !c.LastTransitionTime.Time.Equal(start) {
		t.Errorf("transition at %s though Ready stayed False since %s", c.LastTransitionTime, start)
	}
	w.complete("n02")
	p = w.pass()
	if c := condition(t, &p, v1alpha1.ConditionReady); !c.LastTransitionTime.Time.Equal(w.now) {
		t.Errorf("transition at %s, want %s", c.LastTransitionTime, w.now)
	}
}

func TestCompletionIsToldOnce(t *testing.T) {
	w := newWorld(t, nodeWright(), names(2)...)
	w.pass()
	w.complete("n01", "n02")
	if p := w.pass(); len(p.Events) != 1 || p.Events[0].Reason != v1alpha1.ReasonComplete || p.Events[0].Warning {
		t.Errorf("events %+v, want one", p.Events)
	}
	w.change(annotated(v1alpha1.AnnotationPause))
	if p := w.pass(); len(p.Events) > 0 {
		t.Errorf("told again with the pause: %+v", p.Events)
	}
	w.change(func(nw *v1alpha1.NodeWright) { nw.Annotations = nil })
	if p := w.pass(); len(p.Events) > 0 {
		t.Errorf("told again after the pause: %+v", p.Events)
	}
}

// The status does not grow with the fleet, whatever is wrong with it and
// however long the names are.
func TestStatusIsBounded(t *testing.T) {
	nw := nodeWright(func(nw *v1alpha1.NodeWright) {
		nw.Spec.Packages = map[string]v1alpha1.Package{}
		for i := range v1alpha1.MaxPackages {
			nw.Spec.Packages[fmt.Sprintf("%s%03dx", strings.Repeat("p", 39), i)] = v1alpha1.Package{Version: "1.0.0", Image: "i"}
		}
	})
	in := Input{Now: start, NodeWright: nw}
	words := []nodestate.StatusWord{nodestate.StatusErroring, nodestate.StatusBlocked, nodestate.StatusUnknown, nodestate.StatusComplete}
	for i := range 1000 {
		in.Nodes = append(in.Nodes, Node{
			Name: fmt.Sprintf("%04d%s", i, strings.Repeat("n", 249)), UID: fmt.Sprint(i), Selected: true, Ready: corev1.ConditionTrue,
			Ignored: i%5 == 0, Word: words[i%len(words)],
			Batch:      &nodestate.Batch{ID: "1", Rollout: revision.Of(nw), UID: string(nw.UID), Order: int32(i)},
			Slot:       &nodestate.Slot{ID: "1", State: nodestate.SlotReleased, Reason: nodestate.SlotComplete},
			Detail:     Detail{Package: strings.Repeat("p", 43), Reason: strings.Repeat("R", 200), Message: strings.Repeat("é", 256)},
			Unreadable: []string{"nodewright.nvidia.com/" + strings.Repeat("k", 63)},
		})
	}
	p := Compute(in)
	raw, err := json.Marshal(p.Status)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("status of 1000 nodes, names of 253 bytes, 100 packages: %d bytes", len(raw))
	if len(raw) >= 20_000 {
		t.Errorf("status has %d bytes, want less than 20000", len(raw))
	}
	if len(p.Status.Problems) != 4 {
		t.Errorf("status has %d problems, want 4", len(p.Status.Problems))
	}
}
