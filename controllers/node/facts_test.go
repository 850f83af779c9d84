package node

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// A reboot is over when the node is ready again, a drain begins when it is
// cordoned: both wake it.
func TestNodeFactsWake(t *testing.T) {
	node := func(status corev1.ConditionStatus, unschedulable bool) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		n.Spec.Unschedulable = unschedulable
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		return n
	}
	// What a kubelet reports must not use up the room of the record.
	boots := func(id string) *corev1.Node {
		n := node(corev1.ConditionFalse, false)
		n.Status.NodeInfo.BootID = id
		return n
	}
	tests := map[string]struct {
		after *corev1.Node
		want  plan.Node
		wakes bool
	}{
		"as before":    {node(corev1.ConditionFalse, false), plan.Node{Name: "n1"}, false},
		"ready":        {node(corev1.ConditionTrue, false), plan.Node{Name: "n1", Ready: true}, true},
		"unreachable":  {node(corev1.ConditionUnknown, false), plan.Node{Name: "n1", Unreachable: true}, true},
		"huge boot ID": {boots(strings.Repeat("b", 100_000)), plan.Node{Name: "n1", BootID: strings.Repeat("b", 64)}, true},
		"cordoned":     {node(corev1.ConditionFalse, true), plan.Node{Name: "n1", Unschedulable: true}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := nodeFacts(tc.after); got != tc.want {
				t.Errorf("facts %+v, want %+v", got, tc.want)
			}
			e := event.UpdateEvent{ObjectOld: node(corev1.ConditionFalse, false), ObjectNew: tc.after}
			if wakes := nodeChanged().Update(e); wakes != tc.wakes {
				t.Errorf("wakes %t, want %t", wakes, tc.wakes)
			}
		})
	}
}

// DR-13: nodes that are kept cordoned are counted, also for names that keys
// shorten and for NodeWrights that are gone.
func TestCordonsAreCounted_DR13(t *testing.T) {
	long := "a-name-of-a-nodewright-that-is-longer-than-what-fits-into-a-key-of-a-node"
	node := func(name string, annotations ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"example.com/cordon_x": ""}}}
		for _, nw := range annotations {
			n.Annotations[nodestate.NewKey(nodestate.KindCordon, nw).String()] = nodestate.FormatTime(start)
		}
		return n
	}
	named := func(name string) client.Object {
		return &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	f := newFixture(t, interceptor.Funcs{}, node("n1", "nw", long), node("n2", "nw"), node("n3"), node("n4", "gone"),
		named("nw"), named(long), named("idle"))
	got := map[string]float64{}
	give := func(value float64, labels ...string) { got[labels[0]] = value }
	if err := countCordons(t.Context(), f.client, give); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"nw": 2, long: 1, "idle": 0, "gone": 1}, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}
