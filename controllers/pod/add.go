package pod

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
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/wake"
)

// Name of the controller, in logs and metrics.
const Name = "pod"

const (
	// MinWorkers is how many nodes are worked on at once at the least.
	MinWorkers = 4
	// DefaultGrace is how long a pod may lack volumes, network or sandbox before
	// that is reported.
	DefaultGrace = 2 * time.Minute
)

// Writer is what the controller needs of controllers/apply.
type Writer interface {
	Read(ctx context.Context, name string, known []string) (view *apply.View, found bool, err error)
	Apply(ctx context.Context, view *apply.View, set nodestate.Set, unschedulable bool) (apply.Outcome, error)
	Release(ctx context.Context, view *apply.View) (apply.Outcome, error)
}

// Options of the controller.
type Options struct {
	// Writer of the field manager nodewright-pod. Required.
	Writer Writer
	// Namespace of the operator, where package pods are. Required.
	Namespace string
	// Grace is how long a pod may lack volumes, network or sandbox before that is
	// reported; default DefaultGrace. What containers wait for is reported at once, and
	// that a Job gets no pod after plan.PodPatience, or Grace if that is shorter.
	Grace time.Duration
	// Live reads from the API server; default is the manager's.
	Live client.Reader
	// Recorder of events; default is the manager's.
	Recorder events.EventRecorder
	// Clock; default is the real one.
	Clock clock.PassiveClock
	// Workers is how many nodes are worked on at once; default, and the least, is
	// MinWorkers.
	Workers int
}

// AddToManager registers the controller. The manager's cache needs the indices
// of controllers/index.
func AddToManager(mgr ctrl.Manager, opts Options) error {
	if opts.Writer == nil || opts.Namespace == "" {
		return errors.New("add pod controller: writer and namespace are required")
	}
	opts.fillDefaults(mgr)
	r := New(mgr.GetClient(), opts)
	to := handler.EnqueueRequestsFromMapFunc
	err := builder.ControllerManagedBy(mgr).
		Named(Name).
		Watches(&corev1.Node{}, to(wake.Node), builder.WithPredicates(nodeChanged())).
		Watches(&corev1.Pod{}, to(wake.NodeOfPod), builder.WithPredicates(podChanged(opts.Namespace))).
		Watches(&batchv1.Job{}, r.lookLater(), builder.WithPredicates(jobBegan(opts.Namespace))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: opts.Workers,
			RateLimiter:             wake.RateLimiter(),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add pod controller: %w", err)
	}
	return nil
}

func (o *Options) fillDefaults(mgr ctrl.Manager) {
	if o.Grace == 0 {
		o.Grace = DefaultGrace
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
	o.Workers = max(o.Workers, MinWorkers)
}
