package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
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
const Name = "job"

const (
	// MinWorkers is how many nodes are worked on at once at the least.
	MinWorkers = 4
	// DefaultTTLSucceeded is how long Jobs that succeeded are kept where nothing
	// else is said.
	DefaultTTLSucceeded = time.Hour
	// DefaultTTLFailed is the same for Jobs that failed.
	DefaultTTLFailed = 24 * time.Hour
)

// Writer is what the controller needs of controllers/apply.
type Writer interface {
	Read(ctx context.Context, name string, known []string) (view *apply.View, found bool, err error)
	Apply(ctx context.Context, view *apply.View, set nodestate.Set, unschedulable bool) (apply.Outcome, error)
	Release(ctx context.Context, view *apply.View) (apply.Outcome, error)
}

// Options of the controller.
type Options struct {
	// Writer of the field manager nodewright-job. Required.
	Writer Writer
	// Namespace of the operator, where package Jobs are. Required.
	Namespace string
	// TTLSucceeded and TTLFailed are how long finished Jobs are kept where their
	// NodeWright does not say; defaults DefaultTTLSucceeded and DefaultTTLFailed.
	TTLSucceeded time.Duration
	TTLFailed    time.Duration
	// Live reads from the API server; default is the manager's.
	Live client.Reader
	// Logs reads the logs of failed containers; default asks the API server.
	Logs LogReader
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
		return errors.New("add job controller: writer and namespace are required")
	}
	if err := opts.fillDefaults(mgr); err != nil {
		return fmt.Errorf("add job controller: %w", err)
	}
	r := New(mgr.GetClient(), opts)
	to := handler.EnqueueRequestsFromMapFunc
	err := builder.ControllerManagedBy(mgr).
		Named(Name).
		Watches(&corev1.Node{}, to(wake.Node), builder.WithPredicates(nodeChanged())).
		Watches(&batchv1.Job{}, to(wake.NodeOfJob), builder.WithPredicates(jobChanged(opts.Namespace))).
		Watches(&corev1.Pod{}, to(wake.NodeOfPod), builder.WithPredicates(podDeleted(opts.Namespace))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: opts.Workers,
			RateLimiter:             wake.RateLimiter(),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add job controller: %w", err)
	}
	return nil
}

func (o *Options) fillDefaults(mgr ctrl.Manager) error {
	if o.TTLSucceeded == 0 {
		o.TTLSucceeded = DefaultTTLSucceeded
	}
	if o.TTLFailed == 0 {
		o.TTLFailed = DefaultTTLFailed
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
	if o.Logs == nil {
		set, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return fmt.Errorf("make client for logs: %w", err)
		}
		o.Logs = podLogs{set.CoreV1()}
	}
	o.Workers = max(o.Workers, MinWorkers)
	return nil
}
