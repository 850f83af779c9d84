package envtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/test/faults"
)

var (
	ourTaint     = corev1.Taint{Key: "nodewright.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}
	kubeletTaint = corev1.Taint{Key: "skyhook.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}
	userTaint    = corev1.Taint{Key: "x", Value: "y", Effect: corev1.TaintEffectNoSchedule}
)

func hasTaint(node *corev1.Node, taint corev1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) && t.Value == taint.Value })
}

// toggler puts a taint on and takes it off again, as others do who read, change
// and update. It fails where the taint is not as it left it.
func toggler(ctx context.Context, c client.Client, node string, taint corev1.Taint, rounds int) error {
	has := false
	for range rounds {
		for done := false; !done; {
			var n corev1.Node
			if err := c.Get(ctx, types.NamespacedName{Name: node}, &n); err != nil {
				return fmt.Errorf("get node: %w", err)
			}
			if hasTaint(&n, taint) != has {
				return fmt.Errorf("taint %s: there is %t, and was left %t", taint.ToString(), !has, has)
			}
			if has {
				n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
			} else {
				n.Spec.Taints = append(n.Spec.Taints, taint)
			}
			err := c.Update(ctx, &n)
			if err != nil && !apierrors.IsConflict(err) {
				return fmt.Errorf("update node: %w", err)
			}
			done = err == nil
		}
		has = !has
	}
	return nil
}

// DR-17: others change taints all the time; none of theirs is lost or comes back,
// and each change of ours takes effect.
func TestTaintsOfOthersAreNeverLost_DR17(t *testing.T) {
	const rounds = 250
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	steady := corev1.Taint{Key: "example.com/steady", Effect: corev1.TaintEffectPreferNoSchedule}
	node := createNode(t, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{steady} })
	p.awaitCache(t, node)
	name := node.Name
	lifecycle := corev1.Taint{Key: "example.com/not-ready", Effect: corev1.TaintEffectNoExecute}
	var wg sync.WaitGroup
	var failures [3]error
	c := admin(t)
	for i, taint := range []corev1.Taint{lifecycle, userTaint} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			failures[i] = toggler(t.Context(), c, name, taint, rounds)
		}()
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		for range rounds {
			for _, change := range []apply.TaintChange{{Put: &ourTaint}, {Remove: []corev1.Taint{ourTaint}}} {
				if err := changeTaints(t.Context(), w, name, change); err != nil {
					failures[2] = errors.Join(failures[2], err)
					return
				}
			}
		}
	}()
	wg.Wait()
	if err := errors.Join(failures[:]...); err != nil {
		t.Fatal(err)
	}
	node = liveNode(t, name)
	if !hasTaint(node, steady) || hasTaint(node, ourTaint) || hasTaint(node, lifecycle) || hasTaint(node, userTaint) {
		t.Errorf("taints %v, want only %s of these", node.Spec.Taints, steady.ToString())
	}
}

// changeTaints changes taints and sees that it took effect, as the queue of the
// controller does: a view that others overtook too often is read again.
func changeTaints(ctx context.Context, w *apply.Writer, node string, change apply.TaintChange) error {
	var last error
	for range 20 {
		view, found, err := w.Read(ctx, node, nil)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if !found {
			return errors.New("node is not found")
		}
		outcome, err := w.ChangeTaints(ctx, view, change)
		switch {
		case err == nil && outcome == apply.Written:
			return nil
		case err == nil:
			return fmt.Errorf("outcome %s", outcome)
		case !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) && !errors.Is(err, apply.ErrStaleView):
			return err
		}
		last = err
	}
	return fmt.Errorf("overtaken 20 times: %w", last)
}

// A list that came back as it was does not let a late put through: the taint was
// put and taken off in between.
func TestLatePutOfATaintIsRefused(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	late := read(t, w, name)
	p.lag.Set(faults.Hold)
	bring(t, w, name, packages(nodestate.StageApply, "pa"), apply.Written)
	outcome, err := w.ChangeTaints(t.Context(), late, apply.TaintChange{Put: &ourTaint})
	if !errors.Is(err, apply.ErrStaleView) {
		t.Fatalf("outcome %s, error %v, want ErrStaleView", outcome, err)
	}
	if hasTaint(liveNode(t, name), ourTaint) {
		t.Error("the taint is on a node that was recorded already")
	}
}

// What does not concern the taint does not keep it off.
func TestPutOfATaintOnAChangedNode(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	view := read(t, w, name)
	patch(t, name, "kubelet", `{"metadata":{"annotations":{"example.com/theirs":"changed"}}}`)
	outcome, err := w.ChangeTaints(t.Context(), view, apply.TaintChange{Put: &ourTaint})
	if err != nil || outcome != apply.Written {
		t.Fatalf("outcome %s, error %v, want written", outcome, err)
	}
	// The same view still serves the record.
	if outcome, err := w.Apply(t.Context(), view, packages(nodestate.StageApply, "pa"), false); err != nil || outcome != apply.Written {
		t.Fatalf("record: outcome %s, error %v", outcome, err)
	}
	node := liveNode(t, name)
	if !hasTaint(node, ourTaint) {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	// A label decides whether the node is meant at all.
	view = read(t, w, createNode(t, nil).Name)
	patch(t, view.Node.Name, "user", `{"metadata":{"labels":{"example.com/theirs":"changed"}}}`)
	if outcome, err := w.ChangeTaints(t.Context(), view, apply.TaintChange{Put: &ourTaint}); !errors.Is(err, apply.ErrStaleView) {
		t.Errorf("outcome %s, error %v, want ErrStaleView", outcome, err)
	}
}

// A node that is gone, or another one of its name, gets no change.
func TestTaintsOfAVanishedNode(t *testing.T) {
	for name, change := range map[string]apply.TaintChange{
		"put": {Put: &userTaint}, "remove": {Remove: []corev1.Taint{ourTaint}},
	} {
		for again, create := range map[string]bool{"gone": false, "created anew": true} {
			t.Run(name+" "+again, func(t *testing.T) {
				p := startProcess(t, processOptions{})
				w := p.writer(nodestate.OwnerNode)
				tainted := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{ourTaint} }
				node := createNode(t, tainted)
				view := read(t, w, node.Name)
				p.lag.Set(faults.Hold)
				deleteNode(t, node.Name)
				if create {
					createNode(t, func(n *corev1.Node) { tainted(n); n.Name = node.Name })
				}
				outcome, err := w.ChangeTaints(t.Context(), view, change)
				if err != nil || outcome != apply.NodeGone {
					t.Errorf("outcome %s, error %v, want gone", outcome, err)
				}
				if now := liveNode(t, node.Name); create && (!hasTaint(now, ourTaint) || hasTaint(now, userTaint)) {
					t.Errorf("taints of the new node %v", now.Spec.Taints)
				}
			})
		}
	}
}

// Where somebody refuses the change itself, it is not tried again and again.
func TestRefusedTaintIsAnError(t *testing.T) {
	p := startProcess(t, processOptions{config: userWith(t, "get", "list", "watch")})
	w := p.writer(nodestate.OwnerNode)
	view := read(t, w, createNode(t, nil).Name)
	p.counter.Reset()
	if _, err := w.ChangeTaints(t.Context(), view, apply.TaintChange{Put: &ourTaint}); !apierrors.IsForbidden(err) {
		t.Fatalf("error %v, want forbidden", err)
	}
	if n := p.counter.Snapshot().Writes(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}
