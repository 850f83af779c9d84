package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// taintManager is the field manager of changes of taints. They are no apply:
	// the list has one owner as a whole.
	taintManager = client.FieldOwner("nodewright-taints")
	// taintAttempts bounds the requests of one change. Each that is refused was
	// overtaken by somebody else's.
	taintAttempts = 10
)

// TaintChange is a change of the taints of a node.
type TaintChange struct {
	// Put goes on, unless a taint with its key and effect is there already; nil for
	// none. It is for a node without any key of the owner.
	Put *corev1.Taint
	// Remove go where key, value and effect are the same.
	Remove []corev1.Taint
}

// ChangeTaints is the one function that changes taints. The list of taints is a
// single value to the API server, so a write of it may take back what others
// wrote to it. Hence the patch holds for the very list that was looked at, and
// touches no other entry of it; where the list has changed, the node is read
// again, and what to do is decided anew.
//
// Put holds for the node as viewed: if labels or keys of the owner have changed
// since, the answer is ErrStaleView. Otherwise the errors are those of Apply. The
// view serves an Apply as before.
func (w *Writer) ChangeTaints(ctx context.Context, view *View, change TaintChange) (Outcome, error) {
	node := view.Node
	var err error
	for range taintAttempts {
		var body []byte
		if body, err = change.patch(node); err != nil || body == nil {
			return Unchanged, err
		}
		var version string
		if version, err = w.patchTaints(ctx, node.Name, body); err == nil {
			w.memory.reached(node.Name, version)
			return Written, nil
		}
		if !mayMeanGone(err) {
			break
		}
		now, liveErr := w.getLive(ctx, node.Name, reasonTaints)
		switch {
		case liveErr != nil:
			return 0, errors.Join(err, liveErr)
		case now == nil || now.UID != node.UID:
			return NodeGone, nil
		case now.ResourceVersion == node.ResourceVersion || !overtaken(err):
			return 0, err // somebody refuses the change itself
		case change.Put != nil && !w.sameFor(view.Node, now):
			return 0, fmt.Errorf("put taint on node %s: %w", node.Name, ErrStaleView)
		}
		node = now
	}
	return 0, err
}

// overtaken tells whether the API server answers like this where a test of the
// patch fails, or others write all the time.
func overtaken(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsConflict(err) }

// sameFor tells whether what a taint is put for is as it was.
func (w *Writer) sameFor(before, now *corev1.Node) bool {
	return len(owned(now.Annotations, w.owner, ownsAnnotation)) == 0 && maps.Equal(before.Labels, now.Labels)
}

func (w *Writer) patchTaints(ctx context.Context, name string, body []byte) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	answer := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := w.client.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, body), taintManager); err != nil {
		return "", fmt.Errorf("change taints of node %s: %w", name, err)
	}
	return answer.ResourceVersion, nil
}

// patch is the JSON patch that makes the change to the node, nil if there is
// nothing to do.
func (c *TaintChange) patch(node *corev1.Node) ([]byte, error) {
	taints := node.Spec.Taints
	var changes []map[string]any
	// From the end, so that indices stay right.
	for i := len(taints) - 1; i >= 0; i-- {
		if slices.ContainsFunc(c.Remove, func(t corev1.Taint) bool { return sameTaint(&t, &taints[i]) }) {
			changes = append(changes, map[string]any{"op": "remove", "path": fmt.Sprintf("/spec/taints/%d", i)})
		}
	}
	put := c.Put != nil && !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(c.Put) })
	switch {
	case put && len(taints) == 0:
		changes = append(changes, map[string]any{"op": "add", "path": "/spec/taints", "value": []*corev1.Taint{c.Put}})
	case put:
		changes = append(changes, map[string]any{"op": "add", "path": "/spec/taints/-", "value": c.Put})
	}
	if len(changes) == 0 {
		return nil, nil
	}
	ops := []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": node.UID},
		{"op": "test", "path": "/spec/taints", "value": taints},
	}
	if put {
		// The same list may come again after the taint was put and taken off.
		ops = append(ops, map[string]any{"op": "test", "path": "/metadata/resourceVersion", "value": node.ResourceVersion})
	}
	body, err := json.Marshal(append(ops, changes...))
	if err != nil {
		return nil, fmt.Errorf("encode change of taints of node %s: %w", node.Name, err)
	}
	return body, nil
}

func sameTaint(a, b *corev1.Taint) bool { return a.MatchTaint(b) && a.Value == b.Value }
