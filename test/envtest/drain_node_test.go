package envtest

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/node"
	"github.com/nodewright/nodewright/controllers/node/plan"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
	"github.com/nodewright/nodewright/test/faults"
)

// drainPlanner is a planner that drains every node for the NodeWright that
// selects it, and does nothing else: what is under test is what the controller
// makes of such plans.
type drainPlanner struct {
	mu sync.Mutex
	// passes that knew the pods, with what the last of them was given.
	passes int
	last   plan.Input
	// between is called once between the look at the pods and their eviction, which
	// then is the only one.
	between func()
	over    bool
}

func (p *drainPlanner) compute(in plan.Input) plan.Plan {
	out := plan.Plan{NextCheck: in.Now.Add(50 * time.Millisecond)}
	if len(in.NodeWrights) == 0 {
		return out
	}
	name := in.NodeWrights[0].Name
	out.Set.Cordons = maps.Clone(in.Record.Cordons)
	if _, ours := in.Record.Cordons[name]; !ours || !in.Node.Unschedulable {
		out.Set.Cordons = map[string]time.Time{name: in.Now.UTC().Truncate(time.Second)}
		return out
	}
	pods, looked := in.Pods[name]
	if !looked {
		return plan.Plan{Look: []string{name}}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passes++
	p.last = in
	slot := nodestate.Slot{ID: "1", NodeWright: name, State: nodestate.SlotWorking, Reason: nodestate.SlotDraining}
	for i := range pods {
		if pods[i].Refused != "" {
			slot.Reason, slot.Message = nodestate.SlotDrainBlocked, pods[i].Refused
		}
		if !p.over && !pods[i].Terminating && !in.Now.Before(pods[i].RetryAt) {
			out.Evict = append(out.Evict, plan.Eviction{NodeWright: name, Pod: pods[i].Name, UID: pods[i].UID})
		}
	}
	if p.between != nil && !p.over {
		p.between()
		p.over = true
	}
	out.Set.Slots = map[string]nodestate.Slot{name: slot}
	return out
}

// seen is what the last pass was given, and how many passes there were.
func (p *drainPlanner) seen() (plan.Input, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.passes
}

// nodeDrain runs the controller of nodes with that planner, on one node.
type nodeDrain struct {
	*bed
	planner    *drainPlanner
	clock      *clocktesting.FakeClock
	pods       *drainBed
	nodeWright string
}

func newNodeDrain(t *testing.T) *nodeDrain {
	t.Helper()
	d := &nodeDrain{planner: &drainPlanner{}, clock: clocktesting.NewFakeClock(time.Now()), pods: newDrainBed(t)}
	d.bed = newBed(t, func(b *bed) {
		err := node.AddToManager(b.mgr, node.Options{
			Writer: b.writer(nodestate.OwnerNode), Recorder: b.recorder, Clock: d.clock, Compute: d.planner.compute,
			Jobs: stagejob.Settings{Namespace: b.namespace}, Replicas: map[string]string{"app": "operator"},
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	d.pods.node = d.createNode(t)
	return d
}

// begin lets the drain begin.
func (d *nodeDrain) begin(t *testing.T) {
	t.Helper()
	d.nodeWright = d.createNodeWright(t, "", nil).Name
}

// await waits until passes that began after now have done something.
func (d *nodeDrain) await(t *testing.T, what string, done func(in *plan.Input) bool) {
	t.Helper()
	_, before := d.planner.seen()
	eventually(t, what, func() bool {
		in, passes := d.planner.seen()
		return passes > before+1 && done(&in)
	})
}

func (d *nodeDrain) evictions() int {
	return d.counter.Snapshot().Sum(func(r faults.Request) bool { return r.Name() == "pods/eviction" })
}

func (d *nodeDrain) letGo(t *testing.T, name string) {
	t.Helper()
	var pdb policyv1.PodDisruptionBudget
	if err := d.admin.Get(t.Context(), types.NamespacedName{Namespace: d.pods.namespace, Name: name}, &pdb); err != nil {
		t.Fatal(err)
	}
	pdb.Status.DisruptionsAllowed = 1
	if err := d.admin.Status().Update(t.Context(), &pdb); err != nil {
		t.Fatal(err)
	}
}

// DR-05, DR-01, DR-06, ST-26: an eviction that was refused is shown on the node,
// tried again in its time and not before, and comes through once nothing is in
// its way.
func TestRefusedEvictionIsShownAndRetried_DR05(t *testing.T) {
	full := &policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, DesiredHealthy: 1, CurrentHealthy: 1}
	tests := map[string]struct {
		block, free func(*testing.T, *nodeDrain)
		want        string
		blocked     bool
	}{
		"one budget": {
			func(t *testing.T, d *nodeDrain) { d.pods.budget(t, "web", full) },
			func(t *testing.T, d *nodeDrain) { d.letGo(t, "web") },
			"web-0 waits for PodDisruptionBudget web", true,
		},
		"two budgets": {
			func(t *testing.T, d *nodeDrain) { d.pods.budget(t, "web", full); d.pods.budget(t, "all", full) },
			func(t *testing.T, d *nodeDrain) {
				pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: d.pods.namespace, Name: "all"}}
				if err := d.admin.Delete(t.Context(), pdb); err != nil {
					t.Fatal(err)
				}
				d.letGo(t, "web")
			},
			"web-0 is in PodDisruptionBudgets all, web", true,
		},
		"throttled": {
			func(_ *testing.T, d *nodeDrain) {
				d.injector.Plan(func(req *http.Request) faults.Fault {
					if faults.IsWrite("pods/eviction")(req) {
						return faults.Throttle
					}
					return faults.None
				})
			},
			func(_ *testing.T, d *nodeDrain) { d.injector.Plan(nil) },
			"web-0 is not evicted yet: the API server has too many requests", false,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newNodeDrain(t)
			pod := d.pods.run(t, "web-0", nil)
			tc.block(t, d)
			d.begin(t)
			d.await(t, "the refusal is known", func(in *plan.Input) bool {
				pods := in.Pods[d.nodeWright]
				return len(pods) == 1 && strings.Contains(pods[0].Refused, tc.want) && pods[0].Blocked == tc.blocked
			})
			record := recordOn(t, pod.Spec.NodeName, d.nodeWright)
			if slot := record.Slots[d.nodeWright]; slot.Reason != nodestate.SlotDrainBlocked || !strings.Contains(slot.Message, tc.want) {
				t.Errorf("the node shows %+v", slot)
			}
			d.await(t, "more passes", func(*plan.Input) bool { return true })
			tries := d.evictions()
			d.await(t, "more passes", func(*plan.Input) bool { return true })
			if again := d.evictions(); again != tries || d.pods.ending(t, pod) {
				t.Fatalf("%d evictions before their time, %d more", tries, again-tries)
			}
			d.clock.Step(30 * time.Second)
			eventually(t, "it is tried again", func() bool { return d.evictions() > tries })
			// The request is counted before its answer is noted: the clock must not move in
			// between, or the next try is put off to a time that never comes.
			d.await(t, "the answer is noted", func(*plan.Input) bool { return true })
			tc.free(t, d)
			d.clock.Step(30 * time.Second)
			eventually(t, "the pod ends", func() bool { return d.pods.ending(t, pod) })
			d.await(t, "the refusal is forgotten", func(in *plan.Input) bool {
				pods := in.Pods[d.nodeWright]
				return len(pods) == 1 && pods[0].Terminating && pods[0].Refused == ""
			})
			// DR-06: a pod that ends is not evicted again.
			tries = d.evictions()
			d.clock.Step(time.Minute)
			d.await(t, "more passes", func(*plan.Input) bool { return true })
			if d.evictions() != tries {
				t.Error("a pod that ends was evicted again")
			}
			if err := d.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
			d.await(t, "the node is empty", func(in *plan.Input) bool { return len(in.Pods[d.nodeWright]) == 0 })
		})
	}
}

// A pod that comes in the place of one that is to be evicted stays until it was
// looked at.
func TestPodInThePlaceOfAnotherIsNotEvicted(t *testing.T) {
	t.Parallel()
	d := newNodeDrain(t)
	first := d.pods.run(t, "web-0", nil)
	var second *corev1.Pod
	d.planner.between = func() {
		if err := d.admin.Delete(t.Context(), first, client.GracePeriodSeconds(0)); err != nil {
			t.Error(err)
		}
		second = d.pods.run(t, "web-0", nil)
	}
	d.begin(t)
	d.await(t, "the second pod is seen", func(in *plan.Input) bool {
		pods := in.Pods[d.nodeWright]
		return len(pods) == 1 && pods[0].UID != string(first.UID) && pods[0].Refused == ""
	})
	answers := d.counter.Snapshot()
	if conflicts := answers[faults.Request{Verb: "create", Resource: "pods", Subresource: "eviction", Code: http.StatusConflict}]; conflicts != 1 {
		t.Errorf("answers %v, want one conflict", answers)
	}
	if d.pods.ending(t, second) {
		t.Error("the pod that came in its place is ending")
	}
}

// WH-03: a drain knows whether the operator would be left without a replica that
// is ready.
func TestLastReplicaIsKnown_WH03(t *testing.T) {
	t.Parallel()
	d := newNodeDrain(t)
	elsewhere := d.createNode(t)
	replica := func(name, node string, ready corev1.ConditionStatus) *corev1.Pod {
		return d.pods.run(t, name, func(p *corev1.Pod) {
			p.Namespace, p.Labels["app"], p.Spec.NodeName = d.namespace, "operator", node
			p.Status.Conditions[0].Status = ready
			// It stays: the planner of this test would evict it.
			p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
		})
	}
	replica("here", d.pods.node.Name, corev1.ConditionTrue)
	there := replica("there", elsewhere.Name, corev1.ConditionFalse)
	d.begin(t)
	of := func(in *plan.Input) bool { return in.Node.Name == d.pods.node.Name }
	d.await(t, "the replica is the last one", func(in *plan.Input) bool { return of(in) && in.LastReplica })
	there.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := d.admin.Status().Update(t.Context(), there); err != nil {
		t.Fatal(err)
	}
	d.await(t, "there is another one", func(in *plan.Input) bool { return of(in) && !in.LastReplica })
}
