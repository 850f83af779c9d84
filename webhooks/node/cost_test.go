package node

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// laden is a node with so many packages, each with its record, a report and the
// message that such have, and the managers of an ordinary cluster.
func laden(packages int) node {
	n := recorded()
	var states, reports []string
	for i := range packages {
		name := fmt.Sprintf("package%sx", string([]byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/676)}))
		state := nodestate.NewPackageKey(nodestate.KindNodeState, "tuning", name).String()
		report := nodestate.NewPackageKey(nodestate.KindJobState, "tuning", name).String()
		n = n.with(
			state, fmt.Sprintf(`{"attempt":1,"image":"registry.example/team/%[1]s","message":"%0200[2]d","name":%[1]q,"nodewright":"tuning","run":1,"stage":"apply","state":"in_progress","version":"1.2.3"}`, name, i),
			report, fmt.Sprintf(`{"attempt":1,"job":"j","logTail":"%0200[2]d","name":%[1]q,"nodewright":"tuning","reason":"Error","run":1,"stage":"apply","version":"1.2.3"}`, name, i))
		states, reports = append(states, state), append(reports, report)
	}
	n = n.held(owner(ownerNode, append(states, stateKey, statusKey, seqNode)...)).held(owner(string(nodestate.OwnerJob), reports...))
	for i := range 8 {
		n = n.held(holder{name: fmt.Sprintf("controller-%d", i), operation: updated, annotations: []string{fmt.Sprintf("example.com/a-%d", i)}})
	}
	return n
}

// completed is a write of the operator that completes every package.
func completed(n node) node {
	out := n.with(seqNode, "6")
	for key, value := range n.annotations {
		if k, ok := nodestate.ParseKey(key); ok && k.Kind == nodestate.KindNodeState {
			out.annotations[key] = value + " "
		}
	}
	return out
}

// asks are the requests whose cost counts: a good write of the operator, one that
// is late, and a stranger who changes one record.
func asks(tb testing.TB, packages int) map[string]admission.Request {
	at := laden(packages)
	return map[string]admission.Request{
		"ours":           request(tb, &at, completed(at), operatorUser, ownerNode),
		"ours, and late": request(tb, &at, completed(at).with(seqNode, "4"), operatorUser, ownerNode),
		"a stranger":     request(tb, &at, at.with(stateKey, stateForged), "alice", "kubectl"),
	}
}

// Limits of a decision on a node with 100 packages. A benchmark that is over one
// fails.
const (
	maxMedian = 4 * time.Millisecond
	maxP99    = 10 * time.Millisecond
)

// quietest gives the percentile of the part in which it is least, of so many parts
// one after the other: what else the machine did for a moment does not count.
func quietest(took []time.Duration, parts, percent int) time.Duration {
	least := time.Duration(math.MaxInt64)
	for part := range slices.Chunk(took, max(len(took)/parts, 1)) {
		if part = slices.Sorted(slices.Values(part)); len(part) >= len(took)/parts {
			least = min(least, part[len(part)*percent/100])
		}
	}
	return least
}

func BenchmarkDecision(b *testing.B) {
	v := &validator{operator: operatorUser, reviewer: &reviews{}}
	for name, req := range asks(b, 100) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				v.Handle(context.Background(), req)
				took = append(took, time.Since(start))
			}
			p99 := quietest(took, 5, 99)
			median := quietest(took, 1, 50)
			b.ReportMetric(float64(median.Microseconds()), "µs-median")
			b.ReportMetric(float64(p99.Microseconds()), "µs-p99")
			if median > maxMedian || p99 > maxP99 {
				b.Errorf("a decision takes %s at the median and %s at p99, at most %s and %s are good", median, p99, maxMedian, maxP99)
			}
			b.ReportMetric(float64(len(req.Object.Raw)), "object-bytes")
		})
	}
}

// What a decision costs grows with the keys on the node, not faster.
func TestCostIsLinear(t *testing.T) {
	v := &validator{operator: operatorUser, reviewer: &reviews{}}
	allocs := func(req admission.Request) float64 {
		return testing.AllocsPerRun(5, func() { v.Handle(context.Background(), req) })
	}
	small, large := asks(t, 50), asks(t, 500)
	for name := range small {
		t.Run(name, func(t *testing.T) {
			few, many := allocs(small[name]), allocs(large[name])
			if many > 11*few {
				t.Errorf("50 packages cost %.0f allocations, 500 cost %.0f", few, many)
			}
			t.Logf("50 packages cost %.0f allocations, 500 cost %.0f", few, many)
		})
	}
}

// vnode reads no NodeWright: it has nothing to read one with. mnode reads them
// once for a node that may get the taint, and for no other.
func TestCostWithNodeWrights(t *testing.T) {
	cases := map[string]struct {
		node node
		want int
	}{
		"a new node":         {node{labels: pairs("pool", "gpu")}, 1},
		"a node to ignore":   {node{labels: pairs(nodestate.Prefix+"ignore", "true")}, 0},
		"a node of old keys": {recorded(), 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			read := &shelf{}
			m := &mutator{operator: operatorUser, reviewer: &reviews{}, reader: read, taint: &taint, obstacle: none}
			m.Handle(context.Background(), request(t, nil, tc.node, "alice", "kubelet"))
			if read.asked != tc.want {
				t.Errorf("%d reads of NodeWrights, want %d", read.asked, tc.want)
			}
		})
	}
}
