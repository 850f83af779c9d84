package node

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/node/drain"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

func replica(name, node string, change func(*corev1.Pod)) client.Object {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: namespace, Labels: map[string]string{"app": "operator", "extra": "x"},
	}}
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if change != nil {
		change(pod)
	}
	return pod
}

// WH-03: the node that runs the last ready replica is known as such.
func TestLastReplica_WH03(t *testing.T) {
	notReady := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	tests := map[string]struct {
		pods []client.Object
		none bool
		want bool
	}{
		"one, here":                    {[]client.Object{replica("a", "n1", nil)}, false, true},
		"one, elsewhere":               {[]client.Object{replica("a", "n2", nil)}, false, false},
		"one here, one elsewhere":      {[]client.Object{replica("a", "n1", nil), replica("b", "n2", nil)}, false, false},
		"both here":                    {[]client.Object{replica("a", "n1", nil), replica("b", "n1", nil)}, false, true},
		"here, the other is not ready": {[]client.Object{replica("a", "n1", nil), replica("b", "n2", notReady)}, false, true},
		"here, not ready":              {[]client.Object{replica("a", "n1", notReady)}, false, false},
		"here, the other is ending": {[]client.Object{replica("a", "n1", nil), replica("b", "n2", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: start}, []string{"example.com/x"}
		})}, false, true},
		"here, the other has failed": {[]client.Object{replica("a", "n1", nil), replica("b", "n2", func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
		})}, false, true},
		"here, the other has no node": {[]client.Object{replica("a", "n1", nil), replica("b", "", notReady)}, false, true},
		"here, others in other namespaces": {[]client.Object{replica("a", "n1", nil), replica("b", "n2", func(p *corev1.Pod) {
			p.Namespace = "elsewhere"
		})}, false, true},
		"here, others of other labels": {[]client.Object{replica("a", "n1", nil), replica("b", "n2", func(p *corev1.Pod) {
			p.Labels = map[string]string{"extra": "x"}
		})}, false, true},
		"outside of the cluster": {[]client.Object{replica("a", "n1", nil)}, true, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := drainFixture(t, &drainer{}, tc.pods...)
			if !tc.none {
				f.opts.Replicas = map[string]string{"app": "operator"}
			}
			var got []bool
			f.opts.Compute = func(in plan.Input) plan.Plan {
				got = append(got, in.LastReplica)
				return emptied(in)
			}
			if _, err := f.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, []bool{false, tc.want}) {
				t.Errorf("last replica %v, want %t once pods are known", got, tc.want)
			}
		})
	}
}

// DR-11: a cordon that was taken off a moment ago, and pods that came since,
// keep the node from being interrupted.
func TestInterruptOnlyOfAnEmptyNode_DR11(t *testing.T) {
	tests := map[string]struct {
		pods    []drain.Pod
		change  func(*corev1.Node)
		created bool
	}{
		"cordoned and empty": {nil, func(*corev1.Node) {}, true},
		"cordoned, with a pod that stays": {[]drain.Pod{podNamed("a", func(p *drain.Pod) { p.Class = drain.Exempt })},
			func(*corev1.Node) {}, true},
		"with a pod":               {[]drain.Pod{podNamed("a", nil)}, func(*corev1.Node) {}, false},
		"cordon taken off":         {nil, func(n *corev1.Node) { n.Spec.Unschedulable = false }, false},
		"another node of the name": {nil, func(n *corev1.Node) { n.UID = "other" }, false},
		"node is gone":             {nil, nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if tc.change != nil {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}
				node.Spec.Unschedulable = true
				tc.change(node)
				objects = append(objects, node)
			}
			f := drainFixture(t, &drainer{pods: tc.pods}, objects...)
			nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "nw-uid"}}
			nw.Spec.Packages = map[string]v1alpha1.Package{"pa": {Version: "1.0.0", Image: "reg/pa"}}
			in := &gathered{view: f.paper.view, specs: map[string]*v1alpha1.NodeWright{"nw": nw}}
			in.Node = nodeFacts(in.view.Node)
			id := identity()
			id.Stage = nodestate.StageInterrupt
			err := f.createJob(t.Context(), in, &plan.JobCreate{Identity: id, Interrupt: &nodestate.Interrupt{Type: nodestate.InterruptReboot}})
			if err != nil {
				t.Fatal(err)
			}
			var jobs batchv1.JobList
			if err := f.client.List(t.Context(), &jobs); err != nil {
				t.Fatal(err)
			}
			if created := len(jobs.Items) == 1; created != tc.created || in.again == tc.created {
				t.Errorf("created %t, want %t; planned again %t", created, tc.created, in.again)
			}
		})
	}
}
