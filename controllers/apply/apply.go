package apply

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// Apply brings everything that the owner has on the node to set: keys that are
// not in set are removed, and their removal is verified. The owner's number
// grows with it; a set that stands already is not written. unschedulable holds a
// cordon of the node; only nodestate.OwnerNode may.
//
// Errors: ErrStaleView if the view was used or overtaken; NoRoomError and
// nodestate.ShareError if the keys do not fit, which no retry mends;
// nodestate.ErrNotOwner for a key of another owner; everything else is worth a
// new Read and Apply.
func (w *Writer) Apply(ctx context.Context, view *View, set nodestate.Set, unschedulable bool) (outcome Outcome, err error) {
	defer func() { w.refusals.note(view.Node, w.owner, err) }()
	want, err := w.encode(&set, view.NextSeq, unschedulable)
	if err != nil {
		applies.WithLabelValues(string(w.owner), outcomeInvalid).Inc()
		return 0, fmt.Errorf("apply to node %s: %w", view.Node.Name, err)
	}
	return w.bring(ctx, view, want)
}

// Release removes everything of the owner from the node, its number included.
// It is for a node that no NodeWright selects any more and that no Job names:
// after it, numbers begin anew. It holds for the node as viewed only: any change
// since makes it ErrStaleView.
func (w *Writer) Release(ctx context.Context, view *View) (outcome Outcome, err error) {
	defer func() { w.refusals.note(view.Node, w.owner, err) }()
	return w.bring(ctx, view, intent{owner: w.owner, version: view.Node.ResourceVersion})
}

func (w *Writer) encode(set *nodestate.Set, seq int64, unschedulable bool) (intent, error) {
	encoded, err := set.Encode(w.owner, seq)
	if err == nil && unschedulable && w.owner != nodestate.OwnerNode {
		err = fmt.Errorf("%w: spec.unschedulable belongs to %q", nodestate.ErrNotOwner, nodestate.OwnerNode)
	}
	if w.panicOnForeign && errors.Is(err, nodestate.ErrNotOwner) {
		panic(err)
	}
	return intent{
		owner: w.owner, annotations: encoded.Annotations, labels: encoded.Labels, unschedulable: unschedulable,
	}, err
}

func (w *Writer) bring(ctx context.Context, view *View, want intent) (Outcome, error) {
	node := view.Node
	if want.stands(node) {
		applies.WithLabelValues(string(w.owner), Unchanged.String()).Inc()
		return Unchanged, nil
	}
	if !w.memory.begin(node.Name, view.epoch) {
		return 0, fmt.Errorf("apply to node %s: %w", node.Name, ErrStaleView)
	}
	version, err := w.write(ctx, view, want)
	if err != nil {
		// Even a clear refusal may be the answer to a request that the client sent
		// twice, and the first one took effect.
		w.memory.failed(node.Name)
		outcome, label, err := w.explain(ctx, view, want, err)
		applies.WithLabelValues(string(w.owner), label).Inc()
		return outcome, err
	}
	w.memory.wrote(node.Name, version)
	applies.WithLabelValues(string(w.owner), Written.String()).Inc()
	return Written, nil
}

// errHeld says that keys stay although the owner left them out.
var errHeld = errors.New("keys stay after their removal: another manager writes them all the time")

// write sends the intent and sees to it that what it leaves out is gone. The
// answer to an apply is the node as stored, so it verifies as a read does. It
// returns the resourceVersion of the last write.
func (w *Writer) write(ctx context.Context, view *View, want intent) (string, error) {
	answer, err := w.send(ctx, view, want)
	if err != nil {
		return "", err
	}
	if left := want.leftIn(answer); !left.empty() {
		if answer, err = w.reclaim(ctx, view, want, left); err != nil {
			return "", err
		}
	}
	if !want.unschedulable && view.Node.Spec.Unschedulable && answer.Spec.Unschedulable {
		log.FromContext(ctx).V(2).Info("The node stays cordoned, since somebody else cordoned it too",
			"node", klog.KObj(view.Node))
	}
	return answer.ResourceVersion, nil
}

// reclaim removes keys that other managers hold too: they wrote them before we
// did, or somebody reset managedFields. Such keys do not go when we leave them
// out, so they get another value first, which makes us their only holder.
func (w *Writer) reclaim(ctx context.Context, view *View, want, left intent) (*corev1.Node, error) {
	log.FromContext(ctx).Info("Taking back keys that others hold too",
		"node", klog.KObj(view.Node), "manager", w.owner, "keys", left.keys())
	reclaims.WithLabelValues(string(w.owner)).Inc()
	want.version = "" // it was checked with the first request
	seq := view.NextSeq + 1
	if _, err := w.send(ctx, view, want.covering(left, seq)); err != nil {
		return nil, err
	}
	seq++
	answer, err := w.send(ctx, view, want.numbered(seq))
	if err != nil {
		return nil, err
	}
	if left := want.leftIn(answer); !left.empty() {
		return nil, fmt.Errorf("remove %q from node %s: %w", left.keys(), view.Node.Name, errHeld)
	}
	return answer, nil
}

// send makes one request, and gives the node as it was stored. The apply is
// forced: who owns a key is settled.
func (w *Writer) send(ctx context.Context, view *View, want intent) (*corev1.Node, error) {
	body, err := want.body(view.Node)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	answer := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: view.Node.Name}}
	// Not client.Apply: it would encode the body itself, see EscapeForYAML.
	patch := client.RawPatch(types.ApplyYAMLPatchType, body)
	if err := w.client.Patch(ctx, answer, patch, client.FieldOwner(w.owner), client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("apply to node %s as %s: %w", view.Node.Name, w.owner, err)
	}
	return answer, nil
}
