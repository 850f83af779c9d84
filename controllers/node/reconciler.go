package node

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/node/plan"
	"github.com/nodewright/nodewright/controllers/wake"
)

// Nodes are read and patched, never created: an apply to a node that is gone
// must fail.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// Jobs of packages are ours from creation to the end. No delete of collections.
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;delete,namespace=system
// Pods of packages are looked at for what still runs on a node; no exec, no
// create.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch,namespace=system
// A drain reads the pods of its node, evicts them and, with disableEviction,
// deletes them. No watch: nobody keeps all pods of the cluster in memory.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;delete
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// To say which budgets hold a pod; they are never changed.
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=list
// +kubebuilder:rbac:groups=nodewright.nvidia.com,resources=nodewrights,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler runs packages on one node per request.
type Reconciler struct {
	client client.Client
	opts   Options
	specs  specs
	// refusals of evictions, and of Jobs.
	refusals    refusals
	jobRefusals jobRefusals
}

// Reconcile brings one node a step further: read, plan, record, then Jobs.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := logf.FromContext(ctx)
	in, found, err := r.gather(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !found {
		r.refusals.keep(req.Name, nil)
		r.jobRefusals.keep(req.Name, nil)
		return ctrl.Result{}, nil
	}
	p, err := r.compute(ctx, in)
	if err != nil {
		return ctrl.Result{}, err
	}
	if gone, err := r.putTaint(ctx, in, p); err != nil || gone {
		return ctrl.Result{}, err
	}
	outcome, err := r.write(ctx, in, p)
	if err != nil {
		return ctrl.Result{}, r.reportRefusal(ctx, in, err)
	}
	switch outcome {
	case apply.NodeGone:
		return ctrl.Result{}, nil
	case apply.Written:
		log.Info("recorded", "node", req.Name, "seq", in.NextSeq)
		observeTransitions(&in.Record.Set, &p.Set)
	}
	// Events are about the record, and would not come again.
	r.tell(in, p)
	for _, a := range p.Answered {
		if err := r.opts.Writer.RemoveRequest(ctx, in.view, a.Key, a.Value); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := errors.Join(r.removeTaints(ctx, in, p), r.carryOut(ctx, in, p), r.evict(ctx, in, p)); err != nil {
		return ctrl.Result{}, err
	}
	now := r.opts.Clock.Now()
	next := p.NextCheck
	if in.again && (next.IsZero() || next.After(now.Add(soon))) {
		next = now.Add(soon)
	}
	return wake.At(next, now), nil
}

// write records the plan. Where nothing of ours is left to speak of, also the
// fence goes; before that it must stay, so that no run repeats and a taint of ours
// that has to go is known as such.
func (r *Reconciler) write(ctx context.Context, in *gathered, p *plan.Plan) (apply.Outcome, error) {
	if len(in.NodeWrights) == 0 && len(in.Jobs) == 0 && p.Set.Empty() && len(p.Taints.Remove) == 0 && !p.Remember {
		return r.opts.Writer.Release(ctx, in.view)
	}
	return r.opts.Writer.Apply(ctx, in.view, p.Set, len(p.Set.Cordons) > 0)
}

// reportRefusal tells the user where the record cannot be written for want of
// room. Trying again does not help: the next change of the node does.
func (r *Reconciler) reportRefusal(ctx context.Context, in *gathered, err error) error {
	if !apply.IsNoRoom(err) {
		return fmt.Errorf("record node %s: %w", in.Node.Name, err)
	}
	logf.FromContext(ctx).Error(err, "record does not fit", "node", in.Node.Name)
	for _, nw := range in.specs {
		r.event(in, nw, "", true, eventNoRoom, err.Error())
	}
	return nil
}
