package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

// grantAll writes grants to many nodes at once. One node that fails does not
// keep the others waiting. again asks for another pass, since not all could be
// made as planned.
func (r *Reconciler) grantAll(
	ctx context.Context, nw *v1alpha1.NodeWright, mem *nodeWrightMemory, grants []plan.Grant,
) (again bool, err error) {
	if len(grants) == 0 {
		return false, nil
	}
	mem.promise(grants)
	made := make([]bool, len(grants))
	errs := make([]error, len(grants))
	r.parallel(len(grants), func(i int) { made[i], errs[i] = r.grant(ctx, nw, mem, &grants[i]) })
	done := 0
	for _, yes := range made {
		if yes {
			done++
		}
	}
	logf.FromContext(ctx).Info("Granted slots", "nodewright", klog.KObj(nw), "nodes", done, "planned", len(grants))
	if err := firstOf(errs); err != nil {
		return false, fmt.Errorf("grant slots, %d of %d made: %w", done, len(grants), err)
	}
	return done < len(grants), nil
}

// firstOf is enough to tell: one for each of a thousand nodes would not.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) parallel(n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, r.opts.GrantWorkers) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// grant writes one grant. The set on the node has the grants of all
// NodeWrights: those of others stay as they stand. made is false where the node
// is not as planned from, or cannot take it.
func (r *Reconciler) grant(ctx context.Context, nw *v1alpha1.NodeWright, mem *nodeWrightMemory, g *plan.Grant) (made bool, err error) {
	view, found, err := r.opts.Writer.Read(ctx, g.Node, []string{nw.Name})
	if err != nil {
		return false, fmt.Errorf("read node: %w", err)
	}
	if !found || string(view.Node.UID) != g.UID {
		return false, nil
	}
	set := standing(view)
	key := nodestate.NewKey(nodestate.KindBatch, nw.Name).String()
	if _, unreadable := set.Raw[key]; unreadable || set.Batches[nw.Name].ID != g.Over {
		return false, nil
	}
	batch := g.Batch
	batch.ID = nodestate.FormatSeq(view.NextSeq)
	set.Batches[nw.Name] = batch
	// From here on it may stand on the node, so it counts until a read tells.
	own := ownGrant{node: g.Node, batch: batch, seq: view.NextSeq, doubt: true}
	before := mem.remember(view.Node.UID, own)
	outcome, err := r.opts.Writer.Apply(ctx, view, set, false)
	switch {
	case apply.IsNoRoom(err):
		logf.FromContext(ctx).Error(err, "Grant does not fit on the node", "nodewright", klog.KObj(nw), "node", g.Node)
		mem.undo(view.Node.UID, before)
		mem.refused(view.Node.UID, refusal{resourceVersion: view.Node.ResourceVersion, message: err.Error()})
		grantCount.WithLabelValues(nw.Name, grantRefused).Inc()
		return false, nil
	case errors.Is(err, apply.ErrStaleView), err == nil && outcome == apply.NodeGone:
		mem.undo(view.Node.UID, before)
		return false, nil
	case err != nil:
		return false, err
	}
	own.doubt = false
	mem.remember(view.Node.UID, own)
	grantCount.WithLabelValues(nw.Name, kindOf(g)).Inc()
	return true, nil
}

// standing is the whole set of this controller as it stands on a node.
func standing(view *apply.View) nodestate.Set {
	set := nodestate.Set{Batches: maps.Clone(view.Record.Batches), Raw: view.Carried(nodestate.OwnerRollout)}
	if set.Batches == nil {
		set.Batches = map[string]nodestate.Batch{}
	}
	return set
}

// settle finds out about grants whose writes have no known outcome: a new view
// of the node tells.
func (r *Reconciler) settle(ctx context.Context, name string, mem *nodeWrightMemory) error {
	for uid, g := range mem.grants {
		if !g.doubt {
			continue
		}
		view, found, err := r.opts.Writer.Read(ctx, g.node, []string{name})
		if err != nil {
			return fmt.Errorf("read node after a grant without answer: %w", err)
		}
		stands, granted := standingGrant(view, found, uid, name)
		if !granted {
			delete(mem.grants, uid)
			continue
		}
		// Another one than was to be written is an earlier one, which the cache may not
		// show yet either.
		g.batch, g.seq, g.doubt = stands, view.Record.Seq[nodestate.OwnerRollout], false
		mem.grants[uid] = g
	}
	return nil
}

// standingGrant is the grant that stands on the node, if it is still this one.
func standingGrant(view *apply.View, found bool, uid types.UID, name string) (b nodestate.Batch, granted bool) {
	if !found || view.Node.UID != uid {
		return nodestate.Batch{}, false
	}
	b, granted = view.Record.Batches[name]
	return b, granted
}

// cleanNodes takes the grant of a NodeWright off nodes, and everything of this
// controller where it was the last one.
func (r *Reconciler) cleanNodes(ctx context.Context, name string, nodes []string) error {
	errs := make([]error, len(nodes))
	r.parallel(len(nodes), func(i int) { errs[i] = r.cleanNode(ctx, name, nodes[i]) })
	if err := firstOf(errs); err != nil {
		return fmt.Errorf("take grants off nodes: %w", err)
	}
	return nil
}

func (r *Reconciler) cleanNode(ctx context.Context, name, node string) error {
	view, found, err := r.opts.Writer.Read(ctx, node, []string{name})
	if err != nil || !found {
		return err
	}
	set := standing(view)
	delete(set.Batches, name)
	delete(set.Raw, nodestate.NewKey(nodestate.KindBatch, name).String())
	if len(set.Batches) == 0 && len(set.Raw) == 0 {
		_, err = r.opts.Writer.Release(ctx, view)
	} else {
		_, err = r.opts.Writer.Apply(ctx, view, set, false)
	}
	return err
}
