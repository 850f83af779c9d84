package node

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/node/plan"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
)

const namespace = "operator"

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// paper is a Writer that keeps the last set.
type paper struct {
	view *apply.View
	set  nodestate.Set
	// removed requests.
	removed []string
}

func (p *paper) Read(context.Context, string, []string) (*apply.View, bool, error) {
	return p.view, true, nil
}

func (p *paper) Apply(_ context.Context, _ *apply.View, set nodestate.Set, _ bool) (apply.Outcome, error) {
	p.set = set
	return apply.Written, nil
}

func (p *paper) Release(context.Context, *apply.View) (apply.Outcome, error) {
	return apply.Unchanged, nil
}

func (p *paper) RemoveRequest(_ context.Context, _ *apply.View, key, _ string) error {
	p.removed = append(p.removed, key)
	return nil
}

type fixture struct {
	*Reconciler
	paper    *paper
	recorder *events.FakeRecorder
}

// newFixture makes a reconciler around objects of a fake API server, which is
// cache and live reader at once.
func newFixture(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).
		WithIndex(&batchv1.Job{}, packagejob.IndexNode, func(o client.Object) []string {
			return []string{packagejob.NodeName(o.(*batchv1.Job))}
		}).
		WithIndex(&corev1.Pod{}, packagejob.IndexPodNode, func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).Build()
	f := &fixture{
		paper: &paper{view: &apply.View{
			Node:    &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}},
			NextSeq: 4,
		}},
		recorder: events.NewFakeRecorder(10),
	}
	f.Reconciler = &Reconciler{client: c, opts: Options{
		Writer: f.paper, Live: c, Recorder: f.recorder, Clock: clocktesting.NewFakeClock(start),
		Jobs: stagejob.Settings{Namespace: namespace, AgentImage: "reg/agent:1"}, RetryBase: time.Second, RetryMax: time.Minute,
		Compute: plan.Compute,
	}}
	return f
}

func (f *fixture) told() int {
	n := 0
	for {
		select {
		case <-f.recorder.Events:
			n++
		default:
			return n
		}
	}
}

func identity() packagejob.Identity {
	return packagejob.Identity{
		Attempt: 1, Node: "n1", NodeUID: "node-uid", NodeWright: "nw", NodeWrightUID: "nw-uid",
		Package: "pa", Run: 2, Stage: nodestate.StageApply, Version: "1.0.0",
	}
}

func makeJob(t *testing.T, condition batchv1.JobConditionType) *batchv1.Job {
	t.Helper()
	id := identity()
	annotations, err := id.Annotations()
	if err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: id.JobName(), Namespace: namespace, UID: "job-uid", Labels: id.Labels(), Annotations: annotations,
	}}
	job.Spec.Template.Spec.NodeName = id.Node
	if condition != "" {
		job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue}}
	}
	return job
}

func TestDeleteJobOnlyWhatStillRuns(t *testing.T) {
	tests := map[string]struct {
		change func(*batchv1.Job)
		want   int
	}{
		"running": {func(*batchv1.Job) {}, 1},
		"ended since the cache saw it": {func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		}, 0},
		"deleted by an earlier pass": {func(j *batchv1.Job) {
			j.DeletionTimestamp, j.Finalizers = &metav1.Time{Time: start}, []string{metav1.FinalizerDeleteDependents}
		}, 0},
		"another one of the name": {func(j *batchv1.Job) { j.UID = "other-uid" }, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := makeJob(t, "")
			tc.change(job)
			deletes := 0
			f := newFixture(t, interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					deletes++
					return c.Delete(ctx, o, opts...)
				},
			}, job)
			in := &gathered{view: f.paper.view, specs: map[string]*v1alpha1.NodeWright{"nw": {}}}
			err := f.deleteJob(t.Context(), in, &plan.JobDelete{Name: job.Name, UID: "job-uid", NodeWright: "nw", Reason: "Test"})
			if err != nil {
				t.Fatal(err)
			}
			if told := f.told(); deletes != tc.want || told != tc.want {
				t.Fatalf("%d deletes and %d events, want %d of each", deletes, told, tc.want)
			}
		})
	}
}

func TestExecutorsAreThePodsThatNoJobStandsFor(t *testing.T) {
	tests := map[string]struct {
		job  func(*testing.T) *batchv1.Job
		pod  func(*corev1.Pod)
		want int
	}{
		"job is gone":    {nil, func(*corev1.Pod) {}, 1},
		"job runs":       {func(t *testing.T) *batchv1.Job { return makeJob(t, "") }, func(*corev1.Pod) {}, 0},
		"job succeeded":  {func(t *testing.T) *batchv1.Job { return makeJob(t, batchv1.JobComplete) }, func(*corev1.Pod) {}, 0},
		"job failed":     {func(t *testing.T) *batchv1.Job { return makeJob(t, batchv1.JobFailed) }, func(*corev1.Pod) {}, 1},
		"both failed":    {func(t *testing.T) *batchv1.Job { return makeJob(t, batchv1.JobFailed) }, ended, 0},
		"pod has ended":  {nil, ended, 0},
		"job unreadable": {func(t *testing.T) *batchv1.Job { j := makeJob(t, ""); j.Annotations = nil; return j }, func(*corev1.Pod) {}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			owner := makeJob(t, "")
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: owner.Name + "-x", Namespace: namespace, Labels: owner.Labels, Annotations: owner.Annotations,
			}}
			pod.Labels[batchv1.JobNameLabel] = owner.Name
			pod.Spec.NodeName, pod.Status.Phase = "n1", corev1.PodRunning
			tc.pod(pod)
			objects := []client.Object{pod}
			if tc.job != nil {
				objects = append(objects, tc.job(t))
			}
			f := newFixture(t, interceptor.Funcs{}, objects...)
			in := &gathered{view: f.paper.view, Input: plan.Input{Node: plan.Node{Name: "n1"}}}
			if err := f.gatherJobs(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if len(in.Executors) != tc.want {
				t.Fatalf("executors %v, want %d", in.Executors, tc.want)
			}
		})
	}
}

func ended(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }

// What the record says is told, whatever becomes of the Jobs of the same pass.
func TestEventsDoNotWaitForJobs(t *testing.T) {
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "nw-uid"}}
	nw.Spec.Packages = map[string]v1alpha1.Package{
		"pa": {Version: "1.0.0", Image: "reg/pa"}, "pb": {Version: "1.0.0", Image: "reg/pb"},
	}
	hash, err := stagejob.SpecHash(nw, &v1alpha1.Package{})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("no more Jobs")
		},
	}, nw, makeJob(t, batchv1.JobFailed))
	id := identity()
	f.paper.view.Record = nodestate.Record{
		Set: nodestate.Set{
			Packages: map[nodestate.PackageRef]nodestate.PackageStatus{id.Ref(): {
				Name: "pa", NodeWright: "nw", UID: "nw-uid", Version: "1.0.0", Image: "reg/pa", SpecHash: hash,
				Stage: id.Stage, State: nodestate.StateInProgress, Run: id.Run, Attempt: id.Attempt,
			}},
			JobReports: map[nodestate.PackageRef]nodestate.JobReport{id.Ref(): {
				Attempt: id.Attempt, Job: id.JobName(), Name: "pa", NodeWright: "nw", Reason: "Error", Run: id.Run,
				Stage: id.Stage, Version: "1.0.0", FinishedAt: nodestate.FormatTime(start),
			}},
			Batches: map[string]nodestate.Batch{"nw": {ID: "1", NodeWright: "nw", Rollout: revision.Of(nw), UID: "nw-uid"}},
		},
	}
	_, err = f.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n1"}})
	if err == nil {
		t.Fatal("the Job of pb was created")
	}
	if got := f.paper.set.Packages[id.Ref()].State; got != nodestate.StateErroring {
		t.Fatalf("pa is %s", got)
	}
	// That pa is erroring. Nobody refused the Job of pb, and it is sent again.
	if told := f.told(); told != 1 {
		t.Fatalf("%d events, want 1", told)
	}
}

// A node that is not selected any more when its slot arrives gives it back.
func TestSlotOfADeselectedNodeIsGivenBack(t *testing.T) {
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "nw-uid"}}
	nw.Spec.NodeSelectors.MatchLabels = map[string]string{"pool": "a"}
	f := newFixture(t, interceptor.Funcs{}, nw)
	f.paper.view.Record.Batches = map[string]nodestate.Batch{"nw": {ID: "1", NodeWright: "nw", Rollout: revision.Of(nw), UID: "nw-uid"}}
	if _, err := f.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	if got := f.paper.set.Slots["nw"]; got.State != nodestate.SlotReleased || got.ID != "1" {
		t.Fatalf("slot %+v", got)
	}
}

// The cache of Jobs may show that a Job is gone before the cache of pods shows
// its pod.
func TestNoJobBesideAPodThatTheCacheDoesNotShow(t *testing.T) {
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "nw-uid"}}
	nw.Spec.Packages = map[string]v1alpha1.Package{"pa": {Version: "1.0.0", Image: "reg/pa"}}
	gone := makeJob(t, "")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: gone.Name + "-x", Namespace: namespace, Labels: gone.Labels, Annotations: gone.Annotations,
	}}
	for name, tc := range map[string]struct {
		phase corev1.PodPhase
		want  int
	}{"runs": {corev1.PodRunning, 0}, "has ended": {corev1.PodFailed, 1}} {
		t.Run(name, func(t *testing.T) {
			creates := 0
			f := newFixture(t, interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					creates++
					return nil
				},
			}, nw)
			shown := pod.DeepCopy()
			shown.Status.Phase = tc.phase
			f.opts.Live = fake.NewClientBuilder().WithObjects(shown).Build()
			in := &gathered{view: f.paper.view, specs: map[string]*v1alpha1.NodeWright{"nw": nw}}
			if err := f.createJob(t.Context(), in, &plan.JobCreate{Identity: identity(), Unsure: true}); err != nil {
				t.Fatal(err)
			}
			if creates != tc.want {
				t.Fatalf("%d Jobs created, want %d", creates, tc.want)
			}
		})
	}
}

// A request is taken off once the record that answers it is written.
func TestAnsweredRequestIsRemoved(t *testing.T) {
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "nw-uid"}}
	f := newFixture(t, interceptor.Funcs{}, nw)
	key := nodestate.NewKey(nodestate.KindRequest, nw.Name)
	value := `{"action":"reset","id":"1"}`
	request, err := nodestate.DecodeRequest(key, value)
	if err != nil {
		t.Fatal(err)
	}
	f.paper.view.Record.Requests = []nodestate.RequestAt{{Request: request, Key: key.String(), Value: value}}
	if _, err := f.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	if got := f.paper.set.Handled[nw.Name]; len(got) != 1 || got[0] != "1" || len(f.paper.removed) != 1 || f.paper.removed[0] != key.String() {
		t.Errorf("noted %v and removed %v, want the request noted and removed", got, f.paper.removed)
	}
}
