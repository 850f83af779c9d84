package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/node/drain"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// drainer is a Drainer of the test's own: pods, and what comes of evictions.
type drainer struct {
	mu       sync.Mutex
	pods     []drain.Pod
	err      error
	listed   []drain.Options
	outcomes map[types.UID]drain.Outcome
	evicted  []types.UID
	// before each eviction, if set.
	before func(context.Context)
}

func (d *drainer) List(_ context.Context, node string, o *drain.Options) ([]drain.Pod, error) {
	if node != "n1" {
		return nil, errors.New("another node")
	}
	d.listed = append(d.listed, *o)
	return d.pods, d.err
}

func (d *drainer) Evict(ctx context.Context, pod *drain.Pod, _ *v1alpha1.DrainSettings) drain.Outcome {
	if d.before != nil {
		d.before(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.evicted = append(d.evicted, pod.UID)
	return d.outcomes[pod.UID]
}

func podNamed(name string, change func(*drain.Pod)) drain.Pod {
	p := drain.Pod{Namespace: "shop", Name: name, UID: types.UID("of-" + name), Class: drain.Evict, GraceSeconds: 30}
	if change != nil {
		change(&p)
	}
	return p
}

// drainFixture has a node that is cordoned for nw, and the pods of d.
func drainFixture(t *testing.T, d *drainer, objects ...client.Object) *fixture {
	t.Helper()
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "nw-uid"}}
	f := newFixture(t, interceptor.Funcs{}, append(objects, nw)...)
	f.opts.Drain = d
	f.paper.view.Node.Spec.Unschedulable = true
	return f
}

func (f *fixture) reconcile(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	return f.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n1"}})
}

// emptied is a plan that drains the node for nw: it looks, then evicts what may
// be tried now.
func emptied(in plan.Input) plan.Plan {
	pods, looked := in.Pods["nw"]
	if !looked {
		return plan.Plan{Look: []string{"nw"}}
	}
	p := plan.Plan{Set: nodestate.Set{Cordons: map[string]time.Time{"nw": start}}}
	for i := range pods {
		if !in.Now.Before(pods[i].RetryAt) {
			p.Evict = append(p.Evict, plan.Eviction{NodeWright: "nw", Pod: pods[i].Name, UID: pods[i].UID})
		}
	}
	return p
}

func TestPodsAreReadWhereTheyDecide(t *testing.T) {
	tests := map[string]struct {
		pods []drain.Pod
		want []plan.Pod
	}{
		"none": {nil, []plan.Pod{}},
		"to be evicted": {[]drain.Pod{podNamed("a", nil)},
			[]plan.Pod{{Name: "shop/a", UID: "of-a", GraceSeconds: 30}}},
		"ending": {[]drain.Pod{podNamed("a", func(p *drain.Pod) { p.Terminating, p.GraceSeconds = true, 5 })},
			[]plan.Pod{{Name: "shop/a", UID: "of-a", GraceSeconds: 5, Terminating: true}}},
		"held by the settings": {[]drain.Pod{podNamed("a", func(p *drain.Pod) { p.Class, p.Reason = drain.Holds, "because" })},
			[]plan.Pod{{Name: "shop/a", UID: "of-a", GraceSeconds: 30, Holds: "because"}}},
		"exempt": {[]drain.Pod{podNamed("a", func(p *drain.Pod) { p.Class, p.Reason = drain.Exempt, "because" })}, []plan.Pod{}},
		"exempt, but has to leave first": {[]drain.Pod{podNamed("a", func(p *drain.Pod) {
			p.Class, p.Reason, p.NonInterrupt = drain.Exempt, "because", true
		})}, []plan.Pod{{Name: "shop/a", UID: "of-a", GraceSeconds: 30, NonInterrupt: true, Stays: true}}},
		"has to leave first": {[]drain.Pod{podNamed("a", func(p *drain.Pod) { p.NonInterrupt = true })},
			[]plan.Pod{{Name: "shop/a", UID: "of-a", GraceSeconds: 30, NonInterrupt: true}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := &drainer{pods: tc.pods}
			f := drainFixture(t, d)
			var inputs []plan.Input
			f.opts.Compute = func(in plan.Input) plan.Plan {
				inputs = append(inputs, in)
				if in.Pods == nil {
					// What it says beside Look must not be carried out.
					return plan.Plan{Look: []string{"nw"}, Set: nodestate.Set{Status: map[string]nodestate.StatusWord{"nw": "wrong"}}}
				}
				return plan.Plan{}
			}
			if _, err := f.reconcile(t); err != nil {
				t.Fatal(err)
			}
			if len(inputs) != 2 || inputs[0].Pods != nil || f.paper.set.Status != nil {
				t.Fatalf("%d plans, recorded %v", len(inputs), f.paper.set)
			}
			if diff := cmp.Diff(map[string][]plan.Pod{"nw": tc.want}, inputs[1].Pods); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
		})
	}
}

// A node that nobody could look at is neither recorded nor emptied.
func TestNothingIsDoneWithoutThePods(t *testing.T) {
	for name, tc := range map[string]struct {
		list error
		look string
		want string
	}{
		"list fails":              {errors.New("no answer"), "nw", "pods of node n1 for nodewright nw: no answer"},
		"asked for again":         {nil, "nw", "pods are asked for that were read"},
		"nodewright of elsewhere": {nil, "nw2", "nw2"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &drainer{err: tc.list}
			f := drainFixture(t, d)
			f.opts.Compute = func(plan.Input) plan.Plan {
				return plan.Plan{Look: []string{tc.look}, Set: nodestate.Set{Status: map[string]nodestate.StatusWord{"nw": "wrong"}}}
			}
			_, err := f.reconcile(t)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if f.paper.set.Status != nil || len(d.listed) > 2 {
				t.Errorf("recorded %v after %d lists", f.paper.set, len(d.listed))
			}
		})
	}
}

// Pods are classified by the settings of the NodeWright that the plan names.
func TestPodsAreReadWithTheSettingsOfTheNodeWright(t *testing.T) {
	d := &drainer{}
	f := drainFixture(t, d)
	other := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other-uid"}}
	other.Spec.Drain = &v1alpha1.Drain{DisableEviction: ptr.To(true)}
	other.Spec.PodNonInterruptLabels.MatchLabels = map[string]string{"app": "train"}
	if err := f.client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	// A plan that asks for one after the other gets both, in one pass.
	f.opts.Compute = func(in plan.Input) plan.Plan {
		for _, name := range []string{"nw", "other"} {
			if _, looked := in.Pods[name]; !looked {
				return plan.Plan{Look: []string{name}}
			}
		}
		return plan.Plan{}
	}
	if _, err := f.reconcile(t); err != nil {
		t.Fatal(err)
	}
	want := []drain.Options{
		{Namespace: namespace, Settings: (&v1alpha1.NodeWrightSpec{}).DrainSettings()},
		{Namespace: namespace, Settings: other.Spec.DrainSettings(), NonInterrupt: other.Spec.PodNonInterruptLabels},
	}
	if diff := cmp.Diff(want, d.listed); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
}
