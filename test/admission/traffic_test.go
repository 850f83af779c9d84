package admission

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// What goes on in a cluster all the time asks nothing of the webhooks: not a
// single call.
func TestTrafficOfOthersMakesNoCall(t *testing.T) {
	const nodes, rounds = 20, 50
	clouds, _ := bed.client(t, alice)
	names := make([]string, nodes)
	for i := range names {
		names[i] = recorded(t)
		bed.server.forget(names[i])
	}
	patch := func(ctx context.Context, node, manager, body string) error {
		return clouds.Patch(types.MergePatchType).Resource("nodes").Name(node).Param("fieldManager", manager).Body([]byte(body)).Do(ctx).Error()
	}
	var workers sync.WaitGroup
	for _, node := range names {
		reports, _ := bed.client(t, kubelet(node))
		workers.Go(func() {
			for round := range rounds {
				for what, err := range map[string]error{
					"heartbeat":  heartbeat(t.Context(), reports, node, round),
					"cordon":     patch(t.Context(), node, "kubectl-cordon", fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, round%2 == 0)),
					"annotation": patch(t.Context(), node, "autoscaler", fmt.Sprintf(`{"metadata":{"annotations":{"example.com/round":"%d"}}}`, round)),
				} {
					if err != nil {
						t.Errorf("%s of %s: %v", what, node, err)
						return
					}
				}
			}
		})
	}
	workers.Wait()
	var calls int
	for _, node := range names {
		calls += len(bed.server.calls(node))
	}
	t.Logf("%d heartbeats, cordons and annotations each: %d calls", nodes*rounds, calls)
	if calls != 0 {
		t.Errorf("%d calls to webhooks, want none", calls)
	}
}

// The API server keeps ten managers that update, and folds older ones into one of
// another name. No value changes and nobody new holds anything.
func TestFoldedManagersMakeNoCall(t *testing.T) {
	node := sharedWith(t, "manager", merge)
	for i := range 15 {
		a := bed.send(t, node, request{who: alice, manager: fmt.Sprintf("tool-%d", i), verb: merge,
			change: annotate(fmt.Sprintf("example.com/tool-%d", i), "x")})
		if got := a.decision(); got != passes {
			t.Fatalf("write %d %s: %v", i, got, a.err)
		}
	}
	folded := false
	for _, entry := range bed.live(t, node).ManagedFields {
		folded = folded || entry.Manager == "ancient-changes" && holds(entry, stateKey)
	}
	if !folded {
		t.Errorf("no manager was folded: %v", bed.live(t, node).ManagedFields)
	}
}
