package envtest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/test/faults"
)

// impatient is for reads of a cache that never catches up.
const impatient = 300 * time.Millisecond

// A cache that is behind never makes a writer drop the key that it just wrote.
func TestStaleCacheNeverDropsAKey(t *testing.T) {
	for name, opts := range map[string]processOptions{
		"read-your-writes": {}, "plain reads": {plainReads: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, opts)
			w := p.writer(nodestate.OwnerNode, apply.WithRequestTimeout(impatient))
			name := createNode(t, nil).Name
			p.awaitCache(t, liveNode(t, name))
			p.lag.Set(faults.Hold)
			// Each pass adds one package to what it finds.
			for i, pkg := range []string{"pa", "pb", "pc"} {
				view := read(t, w, name)
				set := packages(nodestate.StageApply, pkg)
				for ref, s := range view.Record.Packages {
					set.Packages[ref] = s
				}
				if view.NextSeq != int64(i+1) {
					t.Errorf("number %d in pass %d", view.NextSeq, i+1)
				}
				if outcome, err := w.Apply(t.Context(), view, set, false); err != nil || outcome != apply.Written {
					t.Fatalf("apply %s: %s, %v", pkg, outcome, err)
				}
			}
			wantKeys(t, name, stateKey("pa"), stateKey("pb"), stateKey("pc"), statusKey, nodestate.OwnerNode.SeqKey())
			var cached corev1.Node
			if err := p.cache.Get(t.Context(), client.ObjectKey{Name: name}, &cached); err != nil {
				t.Fatal(err)
			}
			if _, ok := cached.Annotations[stateKey("pa")]; ok {
				t.Error("the cache was not behind: this proved nothing")
			}
		})
	}
}

// A cache that is a little behind is waited for, and costs no read from the API
// server.
func TestLaggingCacheIsWaitedFor(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	p.awaitCache(t, liveNode(t, name))
	const lag = 500 * time.Millisecond
	p.lag.Set(lag)
	bring(t, w, name, packages(nodestate.StageApply, "pa"), apply.Written)
	p.counter.Reset()
	began := time.Now()
	view := read(t, w, name)
	if len(view.Record.Packages) != 1 || time.Since(began) < lag/2 {
		t.Errorf("%d packages after %s, want the one that was written, after the lag", len(view.Record.Packages), time.Since(began))
	}
	if n := p.counter.Snapshot()[faults.Request{Verb: "get", Resource: "nodes", Code: 200}]; n != 0 {
		t.Errorf("%d reads from the API server", n)
	}
}

// After a write whose outcome is not known, the next view is what stands, and
// the write after it carries the number that follows what stands.
func TestUnknownOutcome(t *testing.T) {
	cases := map[string]struct {
		fault  faults.Fault
		effect bool
	}{
		"connection cut after the effect":  {faults.Cut, true},
		"connection cut before the effect": {faults.Refuse, false},
		"500 without effect":               {faults.Fail, false},
		"504 after the effect":             {faults.FailLate, true},
		"no answer in time":                {faults.Hang, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, processOptions{})
			w := p.writer(nodestate.OwnerNode, apply.WithRequestTimeout(2*time.Second))
			name := createNode(t, nil).Name
			bring(t, w, name, packages(nodestate.StageApply, "pa"), apply.Written)
			p.awaitCache(t, liveNode(t, name))
			// The cache tells nothing of what follows.
			p.lag.Set(faults.Hold)
			p.injector.Next(1, tc.fault, faults.IsWrite("nodes"))
			outcome, err := w.Apply(t.Context(), read(t, w, name), packages(nodestate.StageApply, "pa", "pb"), false)
			if err == nil {
				t.Fatalf("no error, outcome %s", outcome)
			}
			view := read(t, w, name)
			_, there := view.Record.Packages[nodestate.PackageRef{NodeWright: testNodeWright, Package: "pb"}]
			if there != tc.effect {
				t.Errorf("view has pb: %t, want %t", there, tc.effect)
			}
			// Reading again is no way back to what the cache has.
			if again := read(t, w, name); len(again.Record.Packages) != len(view.Record.Packages) {
				t.Errorf("second view has %d packages, the first has %d", len(again.Record.Packages), len(view.Record.Packages))
			}
			next := int64(2)
			if tc.effect {
				next = 3
			}
			if view.NextSeq != next {
				t.Errorf("next number %d, want %d", view.NextSeq, next)
			}
			set := packages(nodestate.StageApply, "pc")
			for ref, s := range view.Record.Packages {
				set.Packages[ref] = s
			}
			if outcome, err := w.Apply(t.Context(), view, set, false); err != nil || outcome != apply.Written {
				t.Fatalf("apply after the fault: %s, %v", outcome, err)
			}
			want := []string{stateKey("pa"), stateKey("pc"), statusKey, nodestate.OwnerNode.SeqKey()}
			if tc.effect {
				want = append(want, stateKey("pb"))
			}
			wantKeys(t, name, want...)
		})
	}
}

// The caller's own cancellation is an unknown outcome too.
func TestCancelledApply(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	p.awaitCache(t, liveNode(t, name))
	p.lag.Set(faults.Hold)
	ctx, cancel := context.WithCancel(t.Context())
	p.injector.Plan(func(req *http.Request) faults.Fault {
		if !faults.IsWrite("nodes")(req) {
			return faults.None
		}
		time.AfterFunc(200*time.Millisecond, cancel)
		return faults.Hang
	})
	_, err := w.Apply(ctx, read(t, w, name), packages(nodestate.StageApply, "pa"), false)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	p.injector.Plan(nil)
	if view := read(t, w, name); len(view.Record.Packages) != 1 || view.NextSeq != 2 {
		t.Errorf("view with %d packages and number %d, want what took effect", len(view.Record.Packages), view.NextSeq)
	}
}

// If the live read fails as well, nothing is decided; the one after it is live.
func TestUnknownOutcomeThenReadFails(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	p.awaitCache(t, liveNode(t, name))
	p.lag.Set(faults.Hold)
	p.injector.Plan(func(req *http.Request) faults.Fault {
		switch r := faults.Classify(req); {
		case r.Resource != "nodes" || req.URL.Query().Get("watch") != "":
			return faults.None
		case r.Verb == "apply":
			return faults.Cut
		default:
			return faults.Fail
		}
	})
	view := read(t, w, name) // from the cache
	if _, err := w.Apply(t.Context(), view, packages(nodestate.StageApply, "pa"), false); err == nil {
		t.Fatal("the cut apply had no error")
	}
	if _, _, err := w.Read(t.Context(), name, nil); err == nil {
		t.Error("a view was given though the outcome is not known")
	}
	if _, err := w.Apply(t.Context(), view, packages(nodestate.StageApply, "pb"), false); !errors.Is(err, apply.ErrStaleView) {
		t.Errorf("second apply of one view: %v, want ErrStaleView", err)
	}
	p.injector.Plan(nil)
	if view := read(t, w, name); len(view.Record.Packages) != 1 {
		t.Errorf("view with %d packages, want the one that took effect", len(view.Record.Packages))
	}
}

// A view serves one write.
func TestViewServesOneWrite(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	p.awaitCache(t, liveNode(t, name))
	first, second := read(t, w, name), read(t, w, name)
	if outcome, err := w.Apply(t.Context(), first, packages(nodestate.StageApply, "pa"), false); err != nil || outcome != apply.Written {
		t.Fatalf("apply: %s, %v", outcome, err)
	}
	for _, view := range []*apply.View{first, second} {
		if _, err := w.Apply(t.Context(), view, packages(nodestate.StageApply, "pb"), false); !errors.Is(err, apply.ErrStaleView) {
			t.Errorf("apply of an old view: %v, want ErrStaleView", err)
		}
	}
	wantKeys(t, name, stateKey("pa"), statusKey, nodestate.OwnerNode.SeqKey())
}

// Numbers grow with every apply, across leaders too, and the view foretells
// them.
func TestNumbersGrowAcrossLeaders(t *testing.T) {
	name := createNode(t, nil).Name
	var last int64
	for leader := range 3 {
		p := startProcess(t, processOptions{})
		w := p.writer(nodestate.OwnerNode)
		for range 3 {
			view := read(t, w, name)
			stage := nodestate.Stages()[last%3]
			if outcome, err := w.Apply(t.Context(), view, packages(stage, "pa"), false); err != nil || outcome != apply.Written {
				t.Fatalf("leader %d: %s, %v", leader, outcome, err)
			}
			seq, err := strconv.ParseInt(liveNode(t, name).Annotations[nodestate.OwnerNode.SeqKey()], 10, 64)
			if err != nil || seq <= last || seq != view.NextSeq {
				t.Errorf("leader %d: number %d after %d, foretold %d (%v)", leader, seq, last, view.NextSeq, err)
			}
			last = seq
		}
	}
}

// A new leader does not read before its informers have seen what the former one
// wrote.
func TestChangeOfLeader(t *testing.T) {
	former, next := startProcess(t, processOptions{}), startProcess(t, processOptions{})
	name := createNode(t, nil).Name
	other := createNode(t, nil)
	next.awaitCache(t, liveNode(t, name))
	next.awaitCache(t, other)
	next.lag.Set(faults.Hold)
	bring(t, former.writer(nodestate.OwnerNode), name, packages(nodestate.StageApply, "pa"), apply.Written)
	deleteNode(t, other.Name)

	// Without the barrier, the new leader would take the node for an empty one.
	if view := read(t, next.writer(nodestate.OwnerNode), name); len(view.Record.Packages) != 0 {
		t.Fatal("the cache was not behind: this proves nothing")
	}
	barrier := apply.NewLeaderBarrier(next.live, next.cache, apply.BarrierKind{
		GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Node"},
	})
	if !barrier.NeedLeaderElection() {
		t.Error("the barrier would run before leadership")
	}
	w := next.writer(nodestate.OwnerNode, apply.WithGate(barrier))
	started := make(chan error, 1)
	go func() { started <- barrier.Start(t.Context()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := w.Read(ctx, name, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read before the barrier was passed: error %v", err)
	}
	if barrier.Ready() {
		t.Error("the barrier was passed by an informer that is behind")
	}
	next.lag.Set(0)
	view := read(t, w, name)
	if len(view.Record.Packages) != 1 || view.NextSeq != 2 {
		t.Errorf("view with %d packages and number %d, want what the former leader wrote", len(view.Record.Packages), view.NextSeq)
	}
	if err := <-started; err != nil || !barrier.Ready() {
		t.Errorf("barrier: %v, ready: %t", err, barrier.Ready())
	}
	if _, found, err := w.Read(t.Context(), other.Name, nil); err != nil || found {
		t.Errorf("deleted node: found %t, error %v", found, err)
	}
}

// Failures of the API server hold the barrier up and do not end it.
func TestBarrierSurvivesFailures(t *testing.T) {
	p := startProcess(t, processOptions{})
	// A Job of a package, and one that is not in the cache.
	createJob(t, "package", map[string]string{packagejob.LabelName: "tuning", packagejob.LabelPackage: "pa-1.0.0"})
	createJob(t, "theirs", nil)
	p.injector.Next(2, faults.Fail, func(req *http.Request) bool {
		return faults.Classify(req).Resource == "nodes" && req.URL.Query().Get("limit") != ""
	})
	barrier := apply.NewLeaderBarrier(p.live, p.cache,
		apply.BarrierKind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Node"}},
		apply.BarrierKind{
			GroupVersionKind: schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"},
			Scope: []client.ListOption{
				client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: packagejob.Selector()},
			},
		})
	if err := barrier.Start(t.Context()); err != nil || !barrier.Ready() {
		t.Errorf("barrier: %v, ready: %t", err, barrier.Ready())
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := barrier.Wait(stopped); err != nil {
		t.Errorf("wait after the barrier was passed: %v", err)
	}
	never := apply.NewLeaderBarrier(p.live, p.cache, apply.BarrierKind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Node"}})
	if err := never.Start(stopped); err != nil || never.Ready() {
		t.Errorf("barrier of a manager that stops: %v, ready: %t", err, never.Ready())
	}
}

func createJob(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	job.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}
	if err := admin(t).Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin(t).Delete(context.Background(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Error(err)
		}
	})
}

// A node that was deleted while its watch was interrupted is found to be gone,
// although no event of it comes.
func TestDeletedNodeIsForgotten(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode, apply.WithRequestTimeout(impatient))
	name := createNode(t, nil).Name
	p.awaitCache(t, liveNode(t, name))
	p.lag.Set(faults.Hold)
	bring(t, w, name, packages(nodestate.StageApply, "pa"), apply.Written)
	deleteNode(t, name)
	if _, found, err := w.Read(t.Context(), name, nil); err != nil || found {
		t.Errorf("found %t, error %v, want not found", found, err)
	}
}

// That the cache lacks a node which was written is not believed either.
func TestLostNodeIsFound(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	old := createNode(t, nil)
	bring(t, w, old.Name, packages(nodestate.StageApply, "pa"), apply.Written)
	deleteNode(t, old.Name)
	eventually(t, "the cache lost the node", func() bool {
		return apierrors.IsNotFound(p.cache.Get(t.Context(), client.ObjectKeyFromObject(old), &corev1.Node{}))
	})
	p.lag.Set(faults.Hold)
	node := createNode(t, func(n *corev1.Node) { n.Name = old.Name })
	view, found, err := w.Read(t.Context(), old.Name, nil)
	if err != nil || !found || view.Node.UID != node.UID || view.NextSeq != 1 {
		t.Errorf("found %t, error %v, want the new node", found, err)
	}
}

// A user removes a value that nobody can read. A cache that still has it must
// not make the writer, who carries such values, bring it back.
func TestRemovedValueIsNotCarriedBack(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, func(n *corev1.Node) {
		n.Annotations[stateKey("garbled")] = "{"
	}).Name
	p.awaitCache(t, liveNode(t, name))
	carrying := func(view *apply.View) nodestate.Set {
		set := packages(nodestate.StageApply, "pa")
		set.Raw = view.Carried(nodestate.OwnerNode)
		return set
	}
	view := read(t, w, name)
	if len(view.Carried(nodestate.OwnerNode)) != 1 {
		t.Fatalf("the view carries %v, want the value that cannot be read", view.Carried(nodestate.OwnerNode))
	}
	if outcome, err := w.Apply(t.Context(), view, carrying(view), false); err != nil || outcome != apply.Written {
		t.Fatalf("apply: %s, %v", outcome, err)
	}
	wantKeys(t, name, stateKey("garbled"), stateKey("pa"), statusKey, nodestate.OwnerNode.SeqKey())
	p.awaitCache(t, liveNode(t, name))
	p.lag.Set(faults.Hold)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+stateKey("garbled")+`":null}}}`))
	if err := admin(t).Patch(t.Context(), liveNode(t, name), patch); err != nil {
		t.Fatal(err)
	}
	view = read(t, w, name)
	set := carrying(view)
	for ref, s := range packages(nodestate.StageConfig, "pa").Packages {
		set.Packages[ref] = s
	}
	if outcome, err := w.Apply(t.Context(), view, set, false); err != nil || outcome != apply.Written {
		t.Fatalf("apply after the removal: %s, %v", outcome, err)
	}
	wantKeys(t, name, stateKey("pa"), statusKey, nodestate.OwnerNode.SeqKey())
}
