package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// pointer escapes a key for a JSON pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// requestManager is the field manager of removals of requests: they are no apply.
const requestManager = client.FieldOwner("nodewright-requests")

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// RemoveRequest takes the request of a user off the node that was acted on, if it
// still stands there with this value: a request that the user has replaced since
// stays. Users own these keys, so they are never part of a set.
func (w *Writer) RemoveRequest(ctx context.Context, view *View, key, value string) error {
	if k, ok := nodestate.ParseKey(key); !ok || !k.Kind.IsRequest() {
		return fmt.Errorf("remove request from node %s: %s is no request", view.Node.Name, key)
	}
	path := "/metadata/annotations/" + pointer.Replace(key)
	patch, err := json.Marshal([]operation{
		{Op: "test", Path: "/metadata/uid", Value: view.Node.UID},
		{Op: "test", Path: path, Value: value},
		{Op: "remove", Path: path},
	})
	if err != nil {
		return fmt.Errorf("remove request from node %s: %w", view.Node.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	answer := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: view.Node.Name}}
	err = w.client.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch), requestManager)
	switch {
	case err == nil:
		w.memory.reached(answer.Name, answer.ResourceVersion)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err):
		// 422: a test failed. The change that made it fail brings the node back.
		return nil
	default:
		return fmt.Errorf("remove request %s from node %s: %w", key, view.Node.Name, err)
	}
}
