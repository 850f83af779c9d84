package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// NoRoomError says that the annotations of a node leave no room for the keys of
// an owner: all annotations of an object may take 256 KiB together. Only who
// wrote the others can mend it.
type NoRoomError struct {
	Node  string
	Owner nodestate.Owner
	// Ours, Others and Limit are bytes of keys and values: of what this owner
	// wanted to write, of all other annotations on the node, and what all may take.
	Ours, Others, Limit int
}

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("node %s has no room for the annotations of %s: they take %d bytes, other annotations take %d bytes, "+
		"and all together may take %d bytes", e.Node, e.Owner, e.Ours, e.Others, e.Limit)
}

// explain says what an error of a write means: the outcome, the word for the
// metric, and the error for the caller. It is called with no doubt left that
// the write failed or may have.
func (w *Writer) explain(ctx context.Context, view *View, want intent, err error) (Outcome, string, error) {
	switch {
	case noRoom(err):
		others := owned(view.Node.Annotations, w.owner, func(key string, o nodestate.Owner) bool { return !ownsAnnotation(key, o) })
		return 0, outcomeNoRoom, &NoRoomError{
			Node: view.Node.Name, Owner: w.owner, Limit: validation.TotalAnnotationSizeLimitB,
			Ours: size(want.annotations), Others: size(others),
		}
	case errors.Is(err, errHeld):
		return 0, outcomeRefused, err
	case mayMeanGone(err):
		// Each of these answers has other causes as well: missing permission, an
		// admission webhook, too many writers at once. The node itself tells.
		node, liveErr := w.getLive(ctx, view.Node.Name, reasonVerify)
		switch {
		case liveErr != nil:
			return 0, outcomeRefused, errors.Join(err, liveErr)
		case node == nil || node.UID != view.Node.UID:
			return NodeGone, NodeGone.String(), nil
		case want.version != "" && apierrors.IsConflict(err):
			return 0, outcomeRefused, errors.Join(ErrStaleView, err)
		default:
			return 0, outcomeRefused, err
		}
	default:
		return 0, outcomeUnknown, err
	}
}

// mayMeanGone tells whether the API server answers like this for a node that is
// gone: 409 for one that does not exist, 403 if the caller may not create nodes
// either, 422 for one that was re-created under its name.
func mayMeanGone(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsInvalid(err) ||
		apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

// noRoom tells whether the API server refused the annotations for their size.
func noRoom(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseType(field.ErrorTypeTooLong) && cause.Field == "metadata.annotations" {
			return true
		}
	}
	return false
}
