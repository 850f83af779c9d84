package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/support"
	"github.com/nodewright/nodewright/controllers/live"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

// Nodes are read and patched, never created: an apply to a node that is gone
// must fail.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// NodeWrights are patched for their finalizer only; the spec is the user's.
// +kubebuilder:rbac:groups=nodewright.nvidia.com,resources=nodewrights,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=nodewright.nvidia.com,resources=nodewrights/status,verbs=patch
// ConfigMaps of packages are in the operator's namespace. No delete of
// collections.
// +kubebuilder:rbac:groups="",namespace=system,resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler rolls one NodeWright out per request.
type Reconciler struct {
	client client.Client
	opts   Options
	memory *memory
	pace   *pace
}

func newReconciler(c client.Client, opts Options) *Reconciler {
	return &Reconciler{client: c, opts: opts, memory: newMemory(), pace: newPace(opts.Clock)}
}

// Reconcile brings one NodeWright a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.opts.Gate.Wait(ctx); err != nil {
		return ctrl.Result{}, fmt.Errorf("wait until decisions may begin: %w", err)
	}
	r.pace.began(req.Name)
	nw, err := r.get(ctx, req.Name)
	switch {
	case apierrors.IsNotFound(err), err == nil && cleanedUp(nw):
		return ctrl.Result{}, r.forget(ctx, req.Name)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("get nodewright: %w", err)
	}
	mem := r.memory.of(nw)
	if nw.DeletionTimestamp == nil {
		if err := r.addFinalizer(ctx, nw); err != nil {
			return ctrl.Result{}, err
		}
	}
	invalid, err := r.provideConfigMaps(ctx, nw)
	if err != nil {
		return ctrl.Result{}, err
	}
	in, err := r.gather(ctx, nw, mem)
	if err != nil {
		return ctrl.Result{}, err
	}
	if in.Invalid == "" {
		in.Invalid = invalid
	}
	return r.carryOut(ctx, nw, mem, plan.Compute(*in))
}

// carryOut does what the plan says, in the order that makes a crash at any
// point harmless. The status never keeps nodes from their grants, nor a node
// that fails the status from being written; only orders have to be stored before
// they are given.
func (r *Reconciler) carryOut(ctx context.Context, nw *v1alpha1.NodeWright, mem *nodeWrightMemory, p plan.Plan) (ctrl.Result, error) {
	ordersFirst := len(p.Grants) > 0 && p.NextOrder > nw.Status.NextOrder
	if ordersFirst {
		if _, err := r.writeStatus(ctx, nw, mem, &p, true); err != nil {
			return ctrl.Result{}, err
		}
	}
	mem.nextOrder = p.NextOrder
	again, grantErr := r.grantAll(ctx, nw, mem, p.Grants)
	cleanErr := r.clean(ctx, nw, mem, &p)
	var due, swept time.Time
	var statusErr, sweepErr error
	if !ordersFirst && !p.RemoveFinalizer {
		due, statusErr = r.writeStatus(ctx, nw, mem, &p, false)
	}
	if p.AllComplete {
		swept, sweepErr = r.sweepConfigMaps(ctx, nw, mem)
	}
	if err := errors.Join(grantErr, cleanErr, statusErr, sweepErr); err != nil {
		return ctrl.Result{}, err
	}
	var next time.Time
	if again {
		next = r.opts.Clock.Now().Add(passInterval)
	}
	return r.requeue(due, swept, p.NextCheck, next), nil
}

// clean takes a NodeWright that is being deleted off the nodes, and lets it go
// once nothing is left.
func (r *Reconciler) clean(ctx context.Context, nw *v1alpha1.NodeWright, mem *nodeWrightMemory, p *plan.Plan) error {
	if p.RemoveFinalizer {
		if err := r.deleteConfigMaps(ctx, nw.Name); err != nil {
			return err
		}
		return r.removeFinalizer(ctx, nw)
	}
	if len(p.Clean) == 0 {
		return nil
	}
	if err := r.cleanNodes(ctx, nw.Name, p.Clean); err != nil {
		return err
	}
	// What was removed never shows in the cache.
	clear(mem.grants)
	return nil
}

// requeue asks for a pass at the nearest of the times that are set.
func (r *Reconciler) requeue(times ...time.Time) ctrl.Result {
	result := ctrl.Result{}
	for _, at := range times {
		if at.IsZero() {
			continue
		}
		wait := max(at.Sub(r.opts.Clock.Now()), minBackoff)
		if result.RequeueAfter == 0 || wait < result.RequeueAfter {
			result.RequeueAfter = wait
		}
	}
	return result
}

// get reads the NodeWright, never older than the controller's own last write
// of it.
func (r *Reconciler) get(ctx context.Context, name string) (*v1alpha1.NodeWright, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	nw := &v1alpha1.NodeWright{}
	return nw, r.client.Get(ctx, client.ObjectKey{Name: name}, nw)
}

// cleanedUp tells whether this controller is done with a NodeWright that others
// still hold: nothing is written for it any more.
func cleanedUp(nw client.Object) bool {
	return nw.GetDeletionTimestamp() != nil && !controllerutil.ContainsFinalizer(nw, v1alpha1.Finalizer)
}

// works tells whether packages of the NodeWright may start on nodes at all.
func works(nw *v1alpha1.NodeWright) bool {
	return nw.DeletionTimestamp == nil && support.Obstacle(nw) == ""
}

// forget takes grants of a NodeWright that is gone off the nodes, and its
// ConfigMaps away, should somebody have taken its finalizer off. Only the API
// server tells that it is gone: the cache may not have it yet.
func (r *Reconciler) forget(ctx context.Context, name string) error {
	r.memory.drop(name)
	r.pace.drop(name)
	nodes, err := r.nodesWithGrant(ctx, name)
	if err != nil {
		return err
	}
	configs, err := r.configMaps(ctx, name)
	if err != nil || len(nodes)+len(configs) == 0 {
		return err
	}
	nw, err := live.NodeWright(ctx, r.opts.Live, name)
	if err != nil {
		return err
	}
	if nw != nil && !cleanedUp(nw) {
		return nil // it is new, and its own event is on the way
	}
	logf.FromContext(ctx).Info("Cleaning up after a NodeWright that is gone", "nodewright", klog.KRef("", name), "nodes", len(nodes))
	if err := r.deleteConfigMaps(ctx, name); err != nil {
		return err
	}
	return r.cleanNodes(ctx, name, nodes)
}
