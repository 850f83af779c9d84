package admission

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// manyRecords are so many records of packages, as the operator writes them.
func manyRecords(t *testing.T, count int, seq int64) change {
	t.Helper()
	out := change{annotations: map[string]string{}}
	// One set of this size would not fit into the share of its owner.
	for begin := 0; begin < count; begin += 100 {
		set := nodestate.Set{Packages: map[nodestate.PackageRef]nodestate.PackageStatus{}}
		for i := begin; i < min(begin+100, count); i++ {
			ref := nodestate.PackageRef{NodeWright: nodeWright, Package: fmt.Sprintf("package-%dx", i)}
			set.Packages[ref] = nodestate.PackageStatus{
				Version: "1.0.0", Image: "i", Stage: nodestate.StageApply, State: nodestate.StateComplete, Run: 1, Attempt: 1,
			}
		}
		encoded, err := set.Encode(nodestate.OwnerNode, seq)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(out.annotations, encoded.Annotations)
	}
	return out
}

// A node with more than the expressions may look at is asked about at every
// write, and lives on: nothing fails for its size.
func TestLadenNodes(t *testing.T) {
	cases := map[string]struct{ keys, managers int }{
		"300 keys and 11 managers":  {300, 0},
		"600 keys":                  {600, 0},
		"600 managers":              {1, 600},
		"600 keys and 600 managers": {600, 600},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			large := tc.keys > 400 || tc.managers > 50
			allowed := passes
			if large {
				allowed = admitted
			}
			node := newNode(t)
			steps := []struct {
				name string
				request
				want decision
			}{
				{"the operator writes records", request{who: operator, manager: string(nodestate.OwnerNode), verb: force,
					change: manyRecords(t, tc.keys, 1)}, map[bool]decision{true: admitted, false: passes}[tc.keys > 400]},
				{"many managers come", request{who: alice, manager: "kubectl", verb: put, change: change{edit: func(n *corev1.Node) {
					for i := range tc.managers {
						n.ManagedFields = append(n.ManagedFields, holding("example.com/note", fmt.Sprintf("manager-%d", i)))
					}
				}}}, allowed},
				{"the kubelet reports", request{who: kubelet(node), manager: "kubelet", verb: strategic, status: true,
					change: change{raw: `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`}}, allowed},
				{"a cordon", request{who: alice, manager: "kubectl-cordon", verb: merge, change: change{spec: `{"unschedulable":true}`}}, allowed},
				{"a foreign annotation", request{who: alice, manager: "kubectl", verb: merge, change: annotate("example.com/other", "x")}, allowed},
				{"the operator writes on", request{who: operator, manager: string(nodestate.OwnerNode), verb: force,
					change: manyRecords(t, tc.keys, 2)}, allowed},
				{"a stranger", request{who: alice, manager: "kubectl", verb: merge, change: annotate(stateKey, forged(stateKey))}, refused},
				{"a late write", request{who: operator, manager: string(nodestate.OwnerNode), verb: force, change: manyRecords(t, tc.keys, 1)}, refused},
			}
			for _, step := range steps {
				a := bed.send(t, node, step.request)
				if got := a.decision(); got != step.want {
					t.Errorf("%s %s, want that it %s: %v", step.name, got, step.want, a.err)
				}
			}
			if got := len(bed.live(t, node).ManagedFields); got < tc.managers {
				t.Errorf("%d managers, want %d", got, tc.managers)
			}
		})
	}
}
