package apply

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// View is what a writer may decide from: a node, never older than this writer's
// own last write to it. It serves one Apply; after one that sent anything, a new
// view has to be read.
type View struct {
	// Node as read. It must not be changed.
	Node *corev1.Node
	// Record is what stands on the node, of all owners.
	Record nodestate.Record
	// NextSeq is the number that the next apply of this owner carries: the one that
	// follows what stands. Admission takes no other, so of all applies that were
	// decided from the same state one takes effect, and a run that this apply starts
	// may be named by it.
	NextSeq int64

	epoch uint64
}

// Carried are the keys of the owner that cannot be read, with their values, as
// a set carries them in Raw. What a set leaves out is removed, so an intent
// starts from these unless somebody asked for the removal.
func (v *View) Carried(owner nodestate.Owner) map[string]string {
	return carried(&v.Record, owner)
}

func carried(record *nodestate.Record, owner nodestate.Owner) map[string]string {
	var out map[string]string
	for key, value := range record.Raw {
		if o, owned := nodestate.OwnerOf(key); owned && o == owner {
			if out == nil {
				out = make(map[string]string)
			}
			out[key] = value
		}
	}
	return out
}

// Read waits for the gate and gives a view of the node, from the cache where
// that is known to be current for this writer, else from the API server. known
// are names of NodeWrights that exist, which resolve shortened keys. found is
// false if there is no such node.
//
// Apart from the gate it takes at most three times the request timeout.
func (w *Writer) Read(ctx context.Context, name string, known []string) (view *View, found bool, err error) {
	if err := w.gate.Wait(ctx); err != nil {
		return nil, false, fmt.Errorf("wait until reads of node %s are current: %w", name, err)
	}
	before := w.memory.of(name)
	node, live, err := w.get(ctx, name, before)
	if err != nil {
		return nil, false, err
	}
	if node == nil {
		w.memory.forget(name, before.epoch)
		return nil, false, nil
	}
	record := nodestate.Decode(node.Annotations, known)
	if !live && len(carried(&record, w.owner)) > 0 {
		// Users remove values that cannot be read. One that only the cache still has
		// would be carried back.
		if node, err = w.getLive(ctx, name, reasonUnreadable); err != nil {
			return nil, false, err
		}
		if node == nil {
			w.memory.forget(name, before.epoch)
			return nil, false, nil
		}
		live, record = true, nodestate.Decode(node.Annotations, known)
	}
	if live {
		w.memory.seenLive(node, before.epoch)
	}
	view = &View{Node: node, Record: record, epoch: before.epoch}
	view.NextSeq = w.stands(&view.Record) + 1
	return view, true, nil
}

// stands is the highest number that the record shows for the owner. Where
// somebody removed or garbled the key, the values that were numbered by it stand
// in, so that numbers are not used twice.
func (w *Writer) stands(record *nodestate.Record) int64 {
	if seq, ok := record.Seq[w.owner]; ok {
		return seq
	}
	var seq int64
	switch w.owner {
	case nodestate.OwnerNode:
		for _, s := range record.Packages {
			seq = max(seq, s.Run)
		}
	case nodestate.OwnerRollout:
		for _, b := range record.Batches {
			if id, err := strconv.ParseInt(b.ID, 10, 64); err == nil {
				seq = max(seq, id)
			}
		}
	}
	return min(seq, nodestate.MaxSeq)
}

// get reads the node; nil if there is none.
func (w *Writer) get(ctx context.Context, name string, before nodeMemory) (node *corev1.Node, live bool, err error) {
	if before.doubt {
		node, err = w.getLive(ctx, name, reasonDoubt)
		return node, true, err
	}
	node, err = w.getCached(ctx, name)
	switch {
	case err == nil && !older(node.ResourceVersion, before.version):
		return node, false, nil
	case apierrors.IsNotFound(err) && !before.known:
		return nil, false, nil
	case err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, context.DeadlineExceeded):
		return nil, false, fmt.Errorf("get node %s: %w", name, err)
	}
	// The cache lags, or lost the node, or its wait ended: it waits for an event
	// that never comes where a node was deleted while the watch was interrupted.
	node, err = w.getLive(ctx, name, reasonStale)
	return node, true, err
}

func (w *Writer) getCached(ctx context.Context, name string) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	var node corev1.Node
	return &node, w.client.Get(ctx, types.NamespacedName{Name: name}, &node)
}

// getLive reads the node from the API server; nil if there is none. Such a read
// is quorate: it sees every write that has been answered.
func (w *Writer) getLive(ctx context.Context, name string, reason liveReason) (*corev1.Node, error) {
	liveReads.WithLabelValues(string(w.owner), string(reason)).Inc()
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	var node corev1.Node
	err := w.live.Get(ctx, client.ObjectKey{Name: name}, &node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get node %s from the API server: %w", name, err)
	}
	return &node, nil
}
