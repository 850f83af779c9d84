package envtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/test/faults"
)

// counters of the writer, by name and the label that is not the manager.
func counters(t *testing.T, manager nodestate.Owner) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name, ours := f.GetName(), false
			for _, l := range m.GetLabel() {
				switch {
				case l.GetName() == "manager" && l.GetValue() == string(manager):
					ours = true
				case l.GetName() == "outcome" || l.GetName() == "reason":
					name += " " + l.GetValue()
				}
			}
			if ours {
				out[name] = m.GetCounter().GetValue()
			}
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	p := startProcess(t, processOptions{})
	owner := nodestate.OwnerMigration // no other test counts for it
	w := p.writer(owner)
	blob := func(value string) nodestate.Set {
		return nodestate.Set{Blobs: map[string]string{testNodeWright: value}}
	}
	node := createNode(t, nil)
	patch(t, node.Name, "old-operator", `{"metadata":{"annotations":{"nodewright.nvidia.com/nodeState_tuning":"{}"}}}`)
	p.awaitCache(t, liveNode(t, node.Name))
	bring(t, w, node.Name, blob("{}"), apply.Written)
	bring(t, w, node.Name, blob("{}"), apply.Unchanged)
	bring(t, w, node.Name, nodestate.Set{}, apply.Written) // taken back from the old operator
	p.injector.Next(1, faults.Fail, faults.IsWrite("nodes"))
	if _, err := w.Apply(t.Context(), read(t, w, node.Name), blob("{}"), false); err == nil {
		t.Fatal("no error")
	}
	bring(t, w, node.Name, blob("{}"), apply.Written)
	view := read(t, w, node.Name)
	deleteNode(t, node.Name)
	if outcome, err := w.Apply(t.Context(), view, blob("{ }"), false); err != nil || outcome != apply.NodeGone {
		t.Fatalf("apply: %s, %v", outcome, err)
	}
	want := map[string]float64{
		"nodewright_node_applies_total written":   3,
		"nodewright_node_applies_total unchanged": 1,
		"nodewright_node_applies_total unknown":   1,
		"nodewright_node_applies_total gone":      1,
		"nodewright_node_reclaims_total":          1,
		"nodewright_node_live_reads_total doubt":  1,
		"nodewright_node_live_reads_total verify": 1,
	}
	if diff := cmp.Diff(want, counters(t, owner)); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}
