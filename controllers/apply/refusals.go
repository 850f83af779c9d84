package apply

import (
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// IsNoRoom tells whether a write failed for the size of annotations, which no
// retry mends: users have to, and the next change of the node is what to wait
// for.
func IsNoRoom(err error) bool {
	var room *NoRoomError
	var share *nodestate.ShareError
	return errors.As(err, &room) || errors.As(err, &share)
}

// RoomGrew tells whether annotations of a node that was at least half full got
// smaller: what did not fit may fit now. All annotations of an object share 256
// KiB.
func RoomGrew(before, after map[string]string) bool {
	was := size(before)
	return was > validation.TotalAnnotationSizeLimitB/2 && size(after) < was
}

// Refusals remembers nodes that have no room for the keys of a writer. It is for
// showing it to users, who have to make room: nothing can be written on the node
// itself. Writers share one; the zero value and nil remember nothing.
type Refusals struct {
	mu      sync.Mutex
	reasons map[types.UID]map[nodestate.Owner]string
	changed chan event.GenericEvent
}

// maxUnread is how many changes are kept for a reader. More than that are lost:
// a reader looks at all nodes anyway.
const maxUnread = 256

// NewRefusals makes an empty memory.
func NewRefusals() *Refusals {
	return &Refusals{
		reasons: map[types.UID]map[nodestate.Owner]string{},
		changed: make(chan event.GenericEvent, maxUnread),
	}
}

// WithRefusals makes the writer note where there is no room. Default: it only
// returns the error.
func WithRefusals(r *Refusals) Option { return func(w *Writer) { w.refusals = r } }

// Of says why a writer cannot write to the node; empty if all can.
func (r *Refusals) Of(node types.UID) string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, owner := range nodestate.Owners() {
		if reason := r.reasons[node][owner]; reason != "" {
			return reason
		}
	}
	return ""
}

// Changed gives nodes of which Of says something else than before.
func (r *Refusals) Changed() <-chan event.GenericEvent { return r.changed }

// note takes the end of a write to the node. An error of another kind says
// nothing about the room.
func (r *Refusals) note(node *corev1.Node, owner nodestate.Owner, err error) {
	if r == nil || r.changed == nil || err != nil && !IsNoRoom(err) {
		return
	}
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.reasons[node.UID]
	if of[owner] == reason {
		return
	}
	switch {
	case reason == "":
		if delete(of, owner); len(of) == 0 {
			delete(r.reasons, node.UID)
		}
	case of == nil:
		r.reasons[node.UID] = map[nodestate.Owner]string{owner: reason}
	default:
		of[owner] = reason
	}
	select {
	case r.changed <- event.GenericEvent{Object: node}:
	default:
	}
}
