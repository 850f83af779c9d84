package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/carry"
	"github.com/nodewright/nodewright/controllers/index"
	"github.com/nodewright/nodewright/controllers/job/plan"
	"github.com/nodewright/nodewright/controllers/wake"
)

// requestTimeout ends each request of this controller, and each wait for the
// cache to show an own write.
const requestTimeout = 5 * time.Second

// Reconciler works on the Jobs of one node at a time.
type Reconciler struct {
	client    client.Client
	opts      Options
	sightings sightings
}

// New makes a Reconciler. All fields of opts must be set.
func New(c client.Client, opts Options) *Reconciler {
	return &Reconciler{client: c, opts: opts}
}

// Nodes are read here and written by controllers/apply as nodewright-job. Jobs
// are patched (mark and TTL) and deleted where their node is gone; they are
// never created here. Pods are read, with their logs, and never changed.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;patch;delete,namespace=system
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch,namespace=system
// +kubebuilder:rbac:groups="",resources=pods/log,verbs=get,namespace=system
// +kubebuilder:rbac:groups=nodewright.nvidia.com,resources=nodewrights,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings reports, marks and TTLs of all Jobs of the node up to date.
// Each outcome ends in a write whose event brings the node back; a requeue is
// for marks that wait while the node is busy, and the back-off after an error.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	specs, names, err := r.nodeWrights(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	view, found, err := r.opts.Writer.Read(ctx, req.Name, names)
	if err != nil {
		return ctrl.Result{}, err
	}
	jobs, err := index.Jobs(ctx, r.client, r.opts.Namespace, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !found {
		r.sightings.forget(req.Name)
		return ctrl.Result{}, r.deleteOrphans(ctx, req.Name, jobs)
	}
	p := plan.Compute(&plan.Input{
		Now: r.opts.Clock.Now(), NodeUID: view.Node.UID, Record: view.Record, Jobs: jobs,
		TTL: func(nodeWright string, succeeded bool) time.Duration { return r.ttl(specs[nodeWright], succeeded) },
	})
	seen, err := r.look(ctx, view.Node, jobs)
	errs := []error{err, r.report(ctx, view, p, seen, jobs)}
	for i := range p.Marks {
		errs = append(errs, r.mark(ctx, specs, &p.Marks[i]))
	}
	if len(p.Strangers) > 0 {
		strangers := make([]*batchv1.Job, 0, len(p.Strangers))
		for i := range p.Strangers {
			strangers = append(strangers, p.Strangers[i].Job)
		}
		errs = append(errs, r.deleteOrphans(ctx, req.Name, strangers))
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	return wake.At(p.NextCheck, r.opts.Clock.Now()), nil
}

// report gathers missing evidence and brings the node's reports up to date.
func (r *Reconciler) report(
	ctx context.Context, view *apply.View, p *plan.Plan, seen map[string]plan.Sighting, jobs []*batchv1.Job,
) error {
	reports := p.Reports
	var added []plan.Finding
	var errs []error
	for i := range p.Evidence {
		finding, err := r.evidence(ctx, &p.Evidence[i], view.Node, seen[string(p.Evidence[i].Job.UID)])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if reports == nil {
			reports = make(map[nodestate.PackageRef]nodestate.JobReport)
		}
		reports[p.Evidence[i].Identity.Ref()] = finding.Report
		added = append(added, finding)
	}
	set := nodestate.Set{JobReports: reports}
	var err error
	if set.Raw, err = carry.Raw(ctx, r.opts.Live, view, nodestate.OwnerJob, keysOf(reports)...); err != nil {
		return errors.Join(append(errs, err)...)
	}
	var outcome apply.Outcome
	if len(reports) == 0 && len(set.Raw) == 0 && len(jobs) == 0 && carry.Unused(&view.Record) {
		outcome, err = r.opts.Writer.Release(ctx, view)
	} else {
		outcome, err = r.opts.Writer.Apply(ctx, view, set, false)
	}
	if err != nil {
		if apply.IsNoRoom(err) {
			r.tellNoRoom(view.Node, err)
		}
		return errors.Join(append(errs, err)...)
	}
	if outcome == apply.Written {
		for i := range added {
			countFailure(&added[i])
			report := &added[i].Report
			logf.FromContext(ctx).Info("Reported a failed attempt", "nodewright", report.NodeWright,
				"package", report.Name, "stage", report.Stage, "run", report.Run, "attempt", report.Attempt,
				"reason", report.Reason, "harmless", report.Harmless)
		}
	}
	return errors.Join(errs...)
}

func keysOf(reports map[nodestate.PackageRef]nodestate.JobReport) []nodestate.Key {
	keys := make([]nodestate.Key, 0, len(reports))
	for ref := range reports {
		keys = append(keys, nodestate.NewPackageKey(nodestate.KindJobState, ref.NodeWright, ref.Package))
	}
	return keys
}

// nodeWrights lists the NodeWrights of the cache, by name, and their names.
func (r *Reconciler) nodeWrights(ctx context.Context) (map[string]*v1alpha1.NodeWright, []string, error) {
	var list v1alpha1.NodeWrightList
	if err := r.client.List(ctx, &list, client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list nodewrights: %w", err)
	}
	specs := make(map[string]*v1alpha1.NodeWright, len(list.Items))
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		specs[list.Items[i].Name] = &list.Items[i]
		names = append(names, list.Items[i].Name)
	}
	return specs, names, nil
}
