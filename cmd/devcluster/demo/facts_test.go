package demo

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// world is a node of the pool and one beside it, with a workload of 10 pods, two
// of them on the node of the pool.
type world struct {
	nodes  []corev1.Node
	parts  []part
	ledger *ledger
}

func newWorld() *world {
	w := &world{ledger: newLedger()}
	for _, name := range []string{"in", "out"} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": name}}}
		n.Status.NodeInfo.BootID = name + "-1"
		w.nodes = append(w.nodes, n)
		w.ledger.node(&n)
	}
	w.parts = []part{{
		selector:   labels.SelectorFromSet(labels.Set{"pool": "in"}),
		interrupts: map[v1alpha1.InterruptType]int{v1alpha1.InterruptReboot: 1},
	}}
	for i := range 10 {
		w.ledger.pod(workloadPod(i, "in"))
	}
	w.ledger.expect(&workload{replicas: 10, placed: map[string]int{"in": 2}, spare: "out"})
	return w
}

// workloadPod is ready.
func workloadPod(number int, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-" + string(rune('a'+number))}}
	p.UID, p.Spec.NodeName = types.UID(p.Name), node
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// evict is what the watch tells of an eviction, and of a pod that takes its place.
func (w *world) evict(number int, node string) {
	p := workloadPod(number, node)
	p.Status.Conditions = append(p.Status.Conditions,
		corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
	w.ledger.pod(p)
	p = workloadPod(number, node)
	p.DeletionTimestamp = &metav1.Time{}
	w.ledger.pod(p)
	_, pods := w.ledger.handlers()
	pods.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: p})
	w.ledger.pod(workloadPod(number+10, "out"))
}

func (w *world) reboot(node int, id string) {
	n := w.nodes[node]
	n.Status.NodeInfo.BootID = id
	w.ledger.node(&n)
}

// asItHasTo is the rollout with nothing to find fault with.
func (w *world) asItHasTo() {
	w.evict(0, "in")
	w.evict(1, "in")
	w.reboot(0, "in-2")
	w.reboot(0, "in-2")
}

func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(*world)
		want    []string
	}{
		"as it has to": {(*world).asItHasTo, nil},
		"left cordoned": {
			func(w *world) { w.asItHasTo(); w.nodes[1].Spec.Unschedulable = true },
			[]string{"node out is left cordoned"},
		},
		"rebooted twice": {
			func(w *world) { w.asItHasTo(); w.reboot(0, "in-3") },
			[]string{"node in was rebooted 2 times, want once"},
		},
		"not rebooted": {
			func(w *world) { w.evict(0, "in"); w.evict(1, "in") },
			[]string{"node in was rebooted 0 times, want once"},
		},
		"not rebooted for two packages": {
			func(w *world) {
				w.parts[0].interrupts[v1alpha1.InterruptReboot] = 2
				w.evict(0, "in")
				w.evict(1, "in")
			},
			[]string{"node in was not rebooted"},
		},
		"another node rebooted": {
			func(w *world) { w.asItHasTo(); w.reboot(1, "out-2") },
			[]string{"node out was rebooted 1 times, and no package asks for it"},
		},
		"no drain": {
			func(w *world) { w.evict(0, "in"); w.reboot(0, "in-2") },
			[]string{"1 pods were evicted from node in, want the 2 that were there"},
		},
		"evicted for nothing": {
			func(w *world) { w.asItHasTo(); w.evict(2, "out") },
			[]string{"1 pods were evicted from node out, which needs no drain"},
		},
		"deleted": {
			func(w *world) { w.asItHasTo(); w.ledger.gone(workloadPod(3, "in")) },
			[]string{"pods were deleted, not evicted: web-d"},
		},
		"budget broken in between": {
			func(w *world) {
				w.asItHasTo()
				for i := range 3 {
					p := workloadPod(i+2, "in")
					p.Status.Conditions = nil
					w.ledger.pod(p)
				}
				for i := range 3 {
					w.ledger.pod(workloadPod(i+2, "in"))
				}
			},
			[]string{"only 7 pods of web were ready at a time, its PodDisruptionBudget wants 8"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			tc.happens(w)
			f := newFacts(w.nodes, w.parts)
			w.ledger.fill(f)
			if got := f.problems(); !slices.Equal(got, tc.want) {
				t.Errorf("problems %q, want %q", got, tc.want)
			}
		})
	}
}

// The budget of the demo lets pods go, and never all of them.
func TestMayBeAway(t *testing.T) {
	for nodes := 1; nodes <= workloadNodes; nodes++ {
		l := workload{replicas: nodes * podsPerNode}
		if n := l.mayBeAway(); n < 1 || n >= l.replicas {
			t.Errorf("%d of %d pods may be away", n, l.replicas)
		}
	}
}
