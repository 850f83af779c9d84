package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/node/drain"
	"github.com/nodewright/nodewright/controllers/node/plan"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
	"github.com/nodewright/nodewright/controllers/wake"
)

// Name of the controller, in logs and metrics.
const Name = "node"

const (
	// DefaultWorkers is how many nodes are worked on at once.
	DefaultWorkers = 8

	// DefaultRetryBase is the wait before the first retry of an attempt.
	DefaultRetryBase = 10 * time.Second
	// DefaultRetryMax is the longest wait before a retry.
	DefaultRetryMax = 5 * time.Minute

	// newNode is how old a node may be that gets the runtime-required taint from the
	// controller. Usually admission puts it at creation; it is away while replicas
	// start or a certificate is renewed. A node that came earlier runs workloads.
	newNode = 10 * time.Minute
)

// Writer is what the controller needs of controllers/apply.
type Writer interface {
	Read(ctx context.Context, name string, known []string) (view *apply.View, found bool, err error)
	Apply(ctx context.Context, view *apply.View, set nodestate.Set, unschedulable bool) (apply.Outcome, error)
	Release(ctx context.Context, view *apply.View) (apply.Outcome, error)
	RemoveRequest(ctx context.Context, view *apply.View, key, value string) error
}

// Tainter changes the taints of nodes. A writer of controllers/apply is one.
type Tainter interface {
	ChangeTaints(ctx context.Context, view *apply.View, change apply.TaintChange) (apply.Outcome, error)
}

// Options of the controller.
type Options struct {
	// Writer of the field manager nodewright-node.
	Writer Writer
	// Taints changes taints; default is the Writer, if it can.
	Taints Tainter
	// RuntimeRequired are the taints that keep workloads off nodes that are not set
	// up, the first of them the one that is put. Default: taints are left alone.
	RuntimeRequired []corev1.Taint
	// Jobs are the settings of package Jobs, with the operator's namespace.
	Jobs stagejob.Settings
	// StageTimeout, RetryLimit and PodStartGrace hold where a NodeWright does not
	// say otherwise.
	StageTimeout  time.Duration
	RetryLimit    int32
	PodStartGrace time.Duration
	// RetryBase and RetryMax are the wait before another attempt; defaults
	// DefaultRetryBase and DefaultRetryMax.
	RetryBase time.Duration
	RetryMax  time.Duration
	// ReapplyOnReboot starts packages anew on nodes that were rebooted by others.
	ReapplyOnReboot bool
	// Replicas are labels that all pods of the operator itself have, in the namespace
	// of Jobs, and no others there. Default: the operator has none in the cluster.
	Replicas map[string]string
	// Drain reads and evicts pods; default is a client of the manager's API server.
	Drain Drainer
	// Compute is the planner; default plan.Compute.
	Compute func(plan.Input) plan.Plan
	// Live reads from the API server; default is the manager's.
	Live client.Reader
	// Recorder of events; default is the manager's.
	Recorder events.EventRecorder
	// Clock; default is the real one.
	Clock clock.Clock
	// Workers is how many nodes are worked on at once; default DefaultWorkers.
	Workers int
}

// AddToManager registers the controller.
func AddToManager(mgr ctrl.Manager, opts Options) error {
	if opts.Writer == nil {
		return errors.New("add node controller: writer is required")
	}
	if err := opts.fillDefaults(mgr); err != nil {
		return fmt.Errorf("add node controller: %w", err)
	}
	if len(opts.RuntimeRequired) > 0 && opts.Taints == nil {
		return errors.New("add node controller: nothing can change taints")
	}
	r := &Reconciler{client: mgr.GetClient(), opts: opts}
	nodes := handler.EnqueueRequestsFromMapFunc
	err := builder.ControllerManagedBy(mgr).
		Named(Name).
		For(&corev1.Node{}, builder.WithPredicates(nodeChanged())).
		Watches(&batchv1.Job{}, nodes(wake.NodeOfJob), builder.WithPredicates(jobChanged(opts.Jobs.Namespace))).
		Watches(&corev1.Pod{}, nodes(wake.NodeOfPod), builder.WithPredicates(podChanged(opts.Jobs.Namespace))).
		Watches(&v1alpha1.NodeWright{}, nodes(r.nodesOf), builder.WithPredicates(nodeWrightChanged())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: opts.Workers,
			RateLimiter:             wake.RateLimiter(),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add node controller: %w", err)
	}
	cordoned.ReadFrom(mgr.GetClient())
	return nil
}

func (o *Options) fillDefaults(mgr ctrl.Manager) error {
	if tainter, ok := o.Writer.(Tainter); ok && o.Taints == nil {
		o.Taints = tainter
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
	if o.Workers == 0 {
		o.Workers = DefaultWorkers
	}
	if o.RetryBase == 0 {
		o.RetryBase = DefaultRetryBase
	}
	if o.RetryMax == 0 {
		o.RetryMax = DefaultRetryMax
	}
	if o.Compute == nil {
		o.Compute = plan.Compute
	}
	if o.Drain != nil {
		return nil
	}
	var err error
	o.Drain, err = drain.NewClient(mgr.GetConfig(), mgr.GetHTTPClient(), o.Live)
	return err
}
