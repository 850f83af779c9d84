package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/apply"
)

// Name of the controller, in logs and metrics.
const Name = "rollout"

const (
	// DefaultGrantWorkers is how many grants are written at once.
	DefaultGrantWorkers = 16
	// MaxBackoff ends the back-off of a NodeWright whose reconcile fails.
	MaxBackoff = time.Minute
	minBackoff = 5 * time.Millisecond

	// passInterval is the least time between two passes over a NodeWright that
	// events of nodes cause.
	passInterval = 200 * time.Millisecond
	// statusInterval is the least time between two writes of the status of a
	// NodeWright, but for the next order, which has to be stored before a grant.
	statusInterval = time.Second
	// requestTimeout ends each read and write.
	requestTimeout = 5 * time.Second
)

// Writer is what the controller needs of controllers/apply.
type Writer interface {
	Read(ctx context.Context, name string, known []string) (view *apply.View, found bool, err error)
	Apply(ctx context.Context, view *apply.View, set nodestate.Set, unschedulable bool) (apply.Outcome, error)
	Release(ctx context.Context, view *apply.View) (apply.Outcome, error)
}

// Options of the controller.
type Options struct {
	// Writer of the field manager nodewright-rollout.
	Writer Writer
	// Namespace of the operator, where ConfigMaps are.
	Namespace string
	// Gate holds decisions back after a change of leader until the cache has seen
	// what the former leader granted. Default: none.
	Gate apply.Gate
	// Live reads from the API server; default is the manager's.
	Live client.Reader
	// Recorder of events; default is the manager's.
	Recorder events.EventRecorder
	// Clock; default is the real one.
	Clock clock.Clock
	// RuntimeRequired are the taints that keep workloads off nodes that are not set
	// up, the first of them the one that is put.
	RuntimeRequired []corev1.Taint
	// Intolerable names the first taint of a node that the pods of the NodeWright's
	// packages cannot live with; empty for none. Default: none is known.
	Intolerable func(nw *v1alpha1.NodeWright, taints []corev1.Taint) string
	// Refusals tell which nodes have no room for records; default: none are known.
	Refusals *apply.Refusals
	// GrantWorkers is how many grants are written at once; default
	// DefaultGrantWorkers.
	GrantWorkers int
}

// AddToManager registers the controller.
func AddToManager(mgr ctrl.Manager, opts Options) error {
	if opts.Writer == nil || opts.Namespace == "" {
		return errors.New("add rollout controller: writer and namespace are required")
	}
	opts.fillDefaults(mgr)
	r := newReconciler(mgr.GetClient(), opts)
	err := builder.ControllerManagedBy(mgr).
		Named(Name).
		For(&v1alpha1.NodeWright{}, builder.WithPredicates(nodeWrightChanged())).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.nodeWrightOf), builder.WithPredicates(configMapLost())).
		Watches(&corev1.Node{}, handler.Funcs{
			CreateFunc: r.nodeCreated, UpdateFunc: r.nodeUpdated, DeleteFunc: r.nodeDeleted,
		}).
		WatchesRawSource(source.Channel(opts.Refusals.Changed(), handler.Funcs{GenericFunc: r.roomChanged})).
		WithOptions(controller.Options{
			// Decisions that depend on each other are made one after the other.
			MaxConcurrentReconciles: 1,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				minBackoff, MaxBackoff),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add rollout controller: %w", err)
	}
	nodeCounts.ReadFrom(mgr.GetClient())
	return nil
}

func (o *Options) fillDefaults(mgr ctrl.Manager) {
	if o.Gate == nil {
		o.Gate = openGate{}
	}
	if o.Refusals == nil {
		o.Refusals = apply.NewRefusals()
	}
	if o.Intolerable == nil {
		o.Intolerable = func(*v1alpha1.NodeWright, []corev1.Taint) string { return "" }
	}
	if o.Live == nil {
		o.Live = mgr.GetAPIReader()
	}
	if o.Recorder == nil {
		o.Recorder = mgr.GetEventRecorder("nodewright")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.GrantWorkers == 0 {
		o.GrantWorkers = DefaultGrantWorkers
	}
}

// openGate holds nothing back.
type openGate struct{}

func (openGate) Wait(context.Context) error { return nil }
