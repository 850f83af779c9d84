package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/node/drain"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// ST-26, DR-05: what an eviction came to is known to the next plan, and no
// expected answer is an error.
func TestEvictionsAreRemembered_ST26_DR05(t *testing.T) {
	fault := errors.New("fault")
	tests := map[string]struct {
		outcome drain.Outcome
		refused string
		blocked bool
		wait    time.Duration
	}{
		"started":   {drain.Outcome{Kind: drain.Started}, "", false, 0},
		"gone":      {drain.Outcome{Kind: drain.Gone}, "", false, 0},
		"blocked":   {drain.Outcome{Kind: drain.Blocked, Message: "budget", Err: fault}, "budget", true, 10 * time.Second},
		"throttled": {drain.Outcome{Kind: drain.Throttled, Message: "busy", Err: fault}, "busy", false, 10 * time.Second},
		"throttled for longer": {drain.Outcome{Kind: drain.Throttled, Message: "busy", RetryAfter: 17 * time.Second, Err: fault},
			"busy", false, 17 * time.Second},
		"throttled for very long": {drain.Outcome{Kind: drain.Throttled, Message: "busy", RetryAfter: time.Hour, Err: fault},
			"busy", false, 25 * time.Second},
		"forbidden": {drain.Outcome{Kind: drain.Forbidden, Message: "no right", Err: fault}, "no right", false, 10 * time.Second},
		"failed":    {drain.Outcome{Kind: drain.Failed, Message: "no answer", Err: fault}, "no answer", false, 10 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := &drainer{pods: []drain.Pod{podNamed("a", nil)}, outcomes: map[types.UID]drain.Outcome{"of-a": tc.outcome}}
			f := drainFixture(t, d)
			var last plan.Pod
			f.opts.Compute = func(in plan.Input) plan.Plan {
				if in.Pods != nil {
					last = in.Pods["nw"][0]
				}
				return emptied(in)
			}
			result, err := f.reconcile(t)
			if err != nil || last.Refused != "" || !last.RetryAt.IsZero() {
				t.Fatalf("pod %+v, error %v", last, err)
			}
			if refused := tc.refused != ""; (result.RequeueAfter == soon) != refused {
				t.Errorf("comes again after %s", result.RequeueAfter)
			}
			// It is shown, and not tried again before its time.
			if result, err = f.reconcile(t); err != nil {
				t.Fatal(err)
			}
			tried := 1
			if tc.wait == 0 {
				tried = 2
			} else if !last.RetryAt.Equal(start.Add(tc.wait)) {
				t.Errorf("retry at %s, want after %s", last.RetryAt, tc.wait)
			}
			if last.Refused != tc.refused || last.Blocked != tc.blocked || len(d.evicted) != tried || result.RequeueAfter != 0 {
				t.Errorf("pod %+v after %d tries, comes again after %s", last, len(d.evicted), result.RequeueAfter)
			}
		})
	}
}

// Waits grow up to a bound, what is said again is no news, and the end of the
// refusals, of the pod and of the drain each end the memory.
func TestRefusalsComeAndGo(t *testing.T) {
	blocked := drain.Outcome{Kind: drain.Blocked, Message: "budget"}
	d := &drainer{pods: []drain.Pod{podNamed("a", nil)}, outcomes: map[types.UID]drain.Outcome{"of-a": blocked}}
	f := drainFixture(t, d)
	clock := f.opts.Clock.(*clocktesting.FakeClock)
	f.opts.Compute = emptied
	step := func(wantTries int, wantAgain bool) {
		t.Helper()
		result, err := f.reconcile(t)
		if err != nil || len(d.evicted) != wantTries || (result.RequeueAfter == soon) != wantAgain {
			t.Fatalf("%d tries, want %d; again after %s; error %v", len(d.evicted), wantTries, result.RequeueAfter, err)
		}
	}
	step(1, true)
	for i, wait := range []time.Duration{10, 20, 25, 25} {
		clock.Step(wait*time.Second - 1)
		step(i+1, false)
		clock.Step(1)
		step(i+2, false)
	}
	clock.Step(time.Minute)
	d.outcomes["of-a"] = drain.Outcome{Kind: drain.Blocked, Message: "another budget"}
	step(6, true)
	clock.Step(time.Minute)
	d.outcomes["of-a"] = drain.Outcome{Kind: drain.Started}
	step(7, false)
	if len(f.refusals.byNode["n1"]) != 0 {
		t.Errorf("remembered %v of a pod that ends", f.refusals.byNode)
	}
	d.outcomes["of-a"] = blocked
	step(8, true)
	d.pods = nil
	step(8, false)
	if len(f.refusals.byNode) != 0 {
		t.Errorf("remembered %v of a pod that is gone", f.refusals.byNode)
	}
	d.pods = []drain.Pod{podNamed("a", nil)}
	step(9, true)
	f.opts.Compute = func(plan.Input) plan.Plan { return plan.Plan{} }
	step(9, false)
	if len(f.refusals.byNode) != 0 {
		t.Errorf("remembered %v of a drain that is over", f.refusals.byNode)
	}
}

// A pod that came in the place of a refused one begins anew, as do other
// NodeWrights, whose settings may differ.
func TestRefusalsAreOfOnePodAndOneNodeWright(t *testing.T) {
	s := &refusals{}
	s.note("n1", &plan.Eviction{NodeWright: "nw", UID: "a"}, &drain.Outcome{Kind: drain.Blocked, Message: "budget"}, start)
	for name, got := range map[string]refusal{
		"another pod": s.of("n1", "nw", "b"), "another NodeWright": s.of("n1", "other", "a"), "another node": s.of("n2", "nw", "a"),
	} {
		if got.message != "" {
			t.Errorf("%s has the refusal %+v", name, got)
		}
	}
	if s.of("n1", "nw", "a").message != "budget" {
		t.Error("the refusal itself is not known")
	}
}

// failing is a Writer that cannot write.
type failing struct{ *paper }

func (failing) Apply(context.Context, *apply.View, nodestate.Set, bool) (apply.Outcome, error) {
	return apply.Unchanged, errors.New("no write")
}

// DR-01: no eviction without a cordon that stood before this pass and stands
// after it, nor of a pod that nobody saw.
func TestNoEvictionWithoutCordon_DR01(t *testing.T) {
	tests := map[string]struct {
		before func(*fixture)
		change func(*plan.Plan)
		want   string
	}{
		"cordon is not seen yet":  {func(f *fixture) { f.paper.view.Node.Spec.Unschedulable = false }, nil, "not cordoned"},
		"cordon is not recorded":  {nil, func(p *plan.Plan) { p.Set.Cordons = nil }, "not cordoned"},
		"record fails":            {func(f *fixture) { f.opts.Writer = failing{f.paper} }, nil, "no write"},
		"pod that was not listed": {nil, func(p *plan.Plan) { p.Evict[0].UID = "of-b" }, "not seen"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := &drainer{pods: []drain.Pod{podNamed("a", nil)}}
			f := drainFixture(t, d)
			if tc.before != nil {
				tc.before(f)
			}
			f.opts.Compute = func(in plan.Input) plan.Plan {
				p := emptied(in)
				if tc.change != nil && len(p.Look) == 0 {
					tc.change(&p)
				}
				return p
			}
			_, err := f.reconcile(t)
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(d.evicted) != 0 {
				t.Errorf("error %v, want %q; evicted %v", err, tc.want, d.evicted)
			}
		})
	}
}

func manyPods(n int) (pods []drain.Pod) {
	for i := range n {
		pods = append(pods, podNamed(fmt.Sprintf("p%02d", i), nil))
	}
	return pods
}

// Many pods do not mean as many requests at once.
func TestEvictionsAtOnce(t *testing.T) {
	var mu sync.Mutex
	var now, most int
	full := make(chan struct{})
	fill := sync.OnceFunc(func() { close(full) })
	d := &drainer{pods: manyPods(30), before: func(ctx context.Context) {
		mu.Lock()
		now++
		most = max(most, now)
		if now == maxEvictions {
			fill()
		}
		mu.Unlock()
		// The first wait for each other, so that many do run at once.
		select {
		case <-full:
		case <-ctx.Done():
		}
		mu.Lock()
		now--
		mu.Unlock()
	}}
	f := drainFixture(t, d)
	f.opts.Compute = emptied
	if _, err := f.reconcile(t); err != nil {
		t.Fatal(err)
	}
	slices.Sort(d.evicted)
	if n := len(slices.Compact(d.evicted)); n != 30 || len(d.evicted) != 30 || most != maxEvictions {
		t.Errorf("%d of 30 pods evicted, %d at once, want %d", n, most, maxEvictions)
	}
}

// A pass that takes long leaves the rest to the next one, which comes soon.
func TestEvictionsThatTakeLong(t *testing.T) {
	d := &drainer{pods: manyPods(40)}
	f := drainFixture(t, d)
	clock := f.opts.Clock.(*clocktesting.FakeClock)
	d.before = func(context.Context) { clock.Step(evictionTime) }
	f.opts.Compute = emptied
	result, err := f.reconcile(t)
	if err != nil || result.RequeueAfter != soon {
		t.Errorf("comes again after %s, error %v", result.RequeueAfter, err)
	}
	if n := len(d.evicted); n == 0 || n > 2*maxEvictions {
		t.Errorf("%d pods evicted", n)
	}
}

// What a process that ends broke off says nothing about pods.
func TestEvictionsThatAreBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := &drainer{pods: manyPods(20), before: func(context.Context) { cancel() }}
	f := drainFixture(t, d)
	f.opts.Compute = emptied
	in, found, err := f.gather(ctx, "n1")
	if err != nil || !found {
		t.Fatal(err)
	}
	p, err := f.compute(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	d.outcomes = map[types.UID]drain.Outcome{}
	for i := range d.pods {
		d.outcomes[d.pods[i].UID] = drain.Outcome{Kind: drain.Failed, Message: "broken off", Err: context.Canceled}
	}
	if err := f.evict(ctx, in, p); !errors.Is(err, context.Canceled) || len(f.refusals.byNode) != 0 {
		t.Errorf("error %v, remembered %v", err, f.refusals.byNode)
	}
}
