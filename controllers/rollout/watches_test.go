package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func TestConcerned(t *testing.T) {
	list := []v1alpha1.NodeWright{
		*nodeWright("gpu", selecting("gpu")), *nodeWright("cpu", selecting("cpu")), *nodeWright(longName, selecting("gpu")),
	}
	word := func(name string, w nodestate.StatusWord) map[string]string {
		return annotations(map[nodestate.Owner]nodestate.Set{
			nodestate.OwnerNode: {Status: map[string]nodestate.StatusWord{name: w}},
		})
	}
	grant := func(name string) map[string]string {
		return annotations(map[nodestate.Owner]nodestate.Set{
			nodestate.OwnerRollout: {Batches: map[string]nodestate.Batch{name: {ID: "1"}}},
		})
	}
	labelled := node("n", word("gpu", nodestate.StatusComplete), "gpu")
	labelled.Labels[nodestate.NewKey(nodestate.KindStatus, "gpu").String()] = "complete"
	silent := node("n", nil, "gpu")
	silent.Status.Conditions[0].Status = corev1.ConditionUnknown
	record := node("n", annotations(map[nodestate.Owner]nodestate.Set{nodestate.OwnerNode: {
		Packages: map[nodestate.PackageRef]nodestate.PackageStatus{
			{NodeWright: "gpu", Package: "driver"}: entry("gpu", "driver", nodestate.StateComplete),
		},
	}}), "gpu")
	heartbeat := node("n", nil, "gpu")
	heartbeat.Status.Conditions[0].Message = "still here"
	again := node("n", nil, "gpu")
	again.UID = "another"
	tests := map[string]struct {
		before, after *corev1.Node
		want          []string
	}{
		"new node":                         {nil, node("n", nil, "gpu"), []string{"gpu", longName}},
		"node is gone":                     {node("n", nil, "cpu"), nil, []string{"cpu"}},
		"node that nobody selects":         {nil, node("n", nil), nil},
		"heartbeat":                        {node("n", nil, "gpu"), heartbeat, nil},
		"word":                             {node("n", nil, "gpu"), labelled, []string{"gpu"}},
		"word of a long name":              {node("n", nil, "gpu"), node("n", word(longName, nodestate.StatusComplete), "gpu"), []string{longName}},
		"grant":                            {node("n", nil, "gpu"), node("n", grant("gpu"), "gpu"), []string{"gpu"}},
		"record":                           {node("n", nil, "gpu"), record, nil},
		"kubelet is silent":                {node("n", nil, "gpu"), silent, []string{"gpu", longName}},
		"label comes":                      {node("n", nil, "gpu"), node("n", nil, "gpu", "cpu"), []string{"cpu", "gpu", longName}},
		"label goes":                       {node("n", nil, "gpu"), node("n", nil), []string{"gpu", longName}},
		"created anew":                     {node("n", nil, "gpu"), again, []string{"gpu", longName}},
		"grant where it does not select":   {nil, node("n", grant("cpu"), "gpu"), []string{"cpu", "gpu", longName}},
		"grant of one that is gone":        {nil, node("n", grant("gone")), []string{"gone"}},
		"late grant of one that is gone":   {node("n", nil), node("n", grant("gone")), []string{"gone"}},
		"grant of a long one that is gone": {nil, node("n", grant(longName+"x")), []string{longName + "x"}},
		"room grows":                       {node("n", map[string]string{"example.com/a": strings.Repeat("x", 200_000)}, "gpu"), node("n", nil, "gpu"), []string{"gpu", longName}},
		"room shrinks":                     {node("n", nil, "gpu"), node("n", map[string]string{"example.com/a": strings.Repeat("x", 200_000)}, "gpu"), nil},
		"small annotation goes":            {node("n", map[string]string{"example.com/a": "b"}, "gpu"), node("n", nil, "gpu"), nil},
		"annotation of somebody":           {node("n", nil, "gpu"), node("n", map[string]string{"example.com/a": "b"}, "gpu"), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			if tc.before == nil || tc.after == nil || nodeChanged(tc.before, tc.after) {
				got = concerned(tc.before, tc.after, list)
			}
			sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
			if diff := cmp.Diff(tc.want, got, sorted, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("NodeWrights (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("record goes while it is being deleted", func(t *testing.T) {
		list := []v1alpha1.NodeWright{*nodeWright("gpu", selecting("gpu"), deleting)}
		if got := concerned(record, node("n", nil, "gpu"), list); len(got) != 1 {
			t.Errorf("NodeWrights %v, want the one that is being deleted", got)
		}
	})
}

func TestNodeWrightChanged(t *testing.T) {
	tests := map[string]struct {
		change func(*v1alpha1.NodeWright)
		want   bool
	}{
		"status":    {func(nw *v1alpha1.NodeWright) { nw.Status.CompleteNodes = "1/1" }, false},
		"labels":    {func(nw *v1alpha1.NodeWright) { nw.Labels = map[string]string{"a": "b"} }, false},
		"spec":      {func(nw *v1alpha1.NodeWright) { nw.Generation++ }, true},
		"pause":     {func(nw *v1alpha1.NodeWright) { nw.Annotations = map[string]string{v1alpha1.AnnotationPause: "true"} }, true},
		"deletion":  {deleting, true},
		"finalizer": {func(nw *v1alpha1.NodeWright) { nw.Finalizers = []string{"a"} }, true},
		"other UID": {func(nw *v1alpha1.NodeWright) { nw.UID = "other" }, true},
		"nothing":   {func(*v1alpha1.NodeWright) {}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			after := nodeWright("gpu")
			tc.change(after)
			if got := nodeWrightChanged().Update(event.UpdateEvent{ObjectOld: nodeWright("gpu"), ObjectNew: after}); got != tc.want {
				t.Errorf("let through: %t, want %t", got, tc.want)
			}
		})
	}
}

// The first event gets its pass at once, those of the next 200 ms share one.
func TestPace(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	p := newPace(clock)
	if got := p.delay("gpu"); got != 0 {
		t.Errorf("first event waits %s", got)
	}
	p.began("gpu")
	clock.Step(50 * time.Millisecond)
	if got := p.delay("gpu"); got != 150*time.Millisecond {
		t.Errorf("event 50 ms after a pass waits %s, want 150ms", got)
	}
	if got := p.delay("other"); got != 0 {
		t.Errorf("event of another NodeWright waits %s", got)
	}
	clock.Step(time.Second)
	if got := p.delay("gpu"); got != 0 {
		t.Errorf("event a second after a pass waits %s", got)
	}
}
