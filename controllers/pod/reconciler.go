package pod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/carry"
	"github.com/nodewright/nodewright/controllers/index"
	"github.com/nodewright/nodewright/controllers/pod/plan"
	"github.com/nodewright/nodewright/controllers/wake"
)

const (
	// requestTimeout ends each request of this controller.
	requestTimeout = 5 * time.Second
	// maxEvents is how many events of one pod or Job are read.
	maxEvents = 50
)

// Reconciler works on the pods of one node at a time.
type Reconciler struct {
	client client.Client
	opts   Options
}

// New makes a Reconciler. All fields of opts must be set.
func New(c client.Client, opts Options) *Reconciler {
	return &Reconciler{client: c, opts: opts}
}

// Nodes are read here and written by controllers/apply as nodewright-pod. Pods
// and their events are read, and never changed.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch,namespace=system
// +kubebuilder:rbac:groups="",resources=events,verbs=list,namespace=system
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch,namespace=system
// +kubebuilder:rbac:groups=nodewright.nvidia.com,resources=nodewrights,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings the reports of the node up to date. The one requeue is for
// the time at which a pod that is being prepared counts as not starting.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	names, err := r.nodeWrights(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	view, found, err := r.opts.Writer.Read(ctx, req.Name, names)
	if err != nil || !found {
		return ctrl.Result{}, err
	}
	pods, err := index.Pods(ctx, r.client, r.opts.Namespace, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	jobs, err := index.Jobs(ctx, r.client, r.opts.Namespace, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.opts.Clock.Now()
	in := &plan.Input{
		Now: now, NodeUID: view.Node.UID, Standing: view.Record.PodReports, Pods: pods, Jobs: jobs, Grace: r.opts.Grace,
	}
	p := plan.Compute(in)
	if err := r.explain(ctx, in, p); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.write(ctx, view, p, pods); err != nil {
		return ctrl.Result{}, err
	}
	return wake.At(p.NextCheck, now), nil
}

// write brings the node's reports to those of the plan.
func (r *Reconciler) write(ctx context.Context, view *apply.View, p *plan.Plan, pods []*corev1.Pod) error {
	keys := make([]nodestate.Key, 0, len(p.Reports))
	for ref := range p.Reports {
		keys = append(keys, nodestate.NewPackageKey(nodestate.KindPodState, ref.NodeWright, ref.Package))
	}
	raw, err := carry.Raw(ctx, r.opts.Live, view, nodestate.OwnerPod, keys...)
	if err != nil {
		return err
	}
	var outcome apply.Outcome
	if len(p.Reports) == 0 && len(raw) == 0 && len(pods) == 0 && carry.Unused(&view.Record) {
		outcome, err = r.opts.Writer.Release(ctx, view)
	} else {
		outcome, err = r.opts.Writer.Apply(ctx, view, nodestate.Set{PodReports: p.Reports, Raw: raw}, false)
	}
	if err != nil {
		r.tellNoRoom(view.Node, err)
		return err
	}
	if outcome == apply.Written {
		r.note(ctx, view.Record.PodReports, p.Reports)
	}
	return nil
}

// note counts and logs reports that are new, and those that went.
func (r *Reconciler) note(ctx context.Context, before, after map[nodestate.PackageRef]nodestate.PodReport) {
	log := logf.FromContext(ctx)
	for ref, report := range after {
		if old, stood := before[ref]; stood && old.Job == report.Job && old.Reason == report.Reason {
			continue
		}
		startFailures.WithLabelValues(ref.NodeWright, ref.Package, report.Reason).Inc()
		log.Info("A pod cannot start", "nodewright", ref.NodeWright, "package", ref.Package, "pod", report.Pod,
			"reason", report.Reason, "since", report.WaitingSince)
	}
	for ref := range before {
		if _, stays := after[ref]; !stays {
			log.Info("No pod of the package waits to start any more", "nodewright", ref.NodeWright, "package", ref.Package)
		}
	}
}

// explain asks events why pods lack volumes, network or sandbox, and why Jobs have
// no pod.
func (r *Reconciler) explain(ctx context.Context, in *plan.Input, p *plan.Plan) error {
	for _, e := range p.Explain {
		events, err := r.events(ctx, e.Pod)
		if err != nil {
			return err
		}
		p.Reports[e.Ref] = plan.Explain(p.Reports[e.Ref], events)
	}
	for _, w := range p.Without {
		events, err := r.events(ctx, w.Job)
		if err != nil {
			return err
		}
		p.ReportWithout(in, w, events)
	}
	return nil
}

// events reads the events of a pod or Job from the API server.
func (r *Reconciler) events(ctx context.Context, about client.Object) ([]corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var list corev1.EventList
	err := r.opts.Live.List(ctx, &list, client.InNamespace(r.opts.Namespace), client.Limit(maxEvents),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("involvedObject.uid", string(about.GetUID()))})
	if err != nil {
		return nil, fmt.Errorf("list events of %s: %w", about.GetName(), err)
	}
	return list.Items, nil
}

// nodeWrights are the names of the NodeWrights in the cache.
func (r *Reconciler) nodeWrights(ctx context.Context) ([]string, error) {
	var list v1alpha1.NodeWrightList
	if err := r.client.List(ctx, &list, client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodewrights: %w", err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// tellNoRoom tells on the node that reports do not fit: users have to mend it.
func (r *Reconciler) tellNoRoom(node *corev1.Node, err error) {
	if apply.IsNoRoom(err) {
		r.opts.Recorder.Eventf(node, nil, corev1.EventTypeWarning, EventNoRoom, "ReportPods", "%s",
			nodestate.CapString(err.Error(), noteLimit))
	}
}

const (
	// EventNoRoom says on a node that reports of pods that cannot start do not fit.
	EventNoRoom = "NoRoom"
	// noteLimit is the longest note of an event that the API server takes, in
	// bytes.
	noteLimit = 1024
)
