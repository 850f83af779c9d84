package envtest

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	crenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/index"
	"github.com/nodewright/nodewright/controllers/transform"
	"github.com/nodewright/nodewright/test/faults"
)

var kinds = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(s); err != nil {
		return nil, err
	}
	_, err := crenvtest.InstallCRDs(cluster.Config(), crenvtest.CRDInstallOptions{
		Paths: []string{"../../config/crd/bases"}, ErrorIfPathMissing: true,
	})
	return s, err
})

// bed is a manager in a namespace of its own, with the cache that the operator
// has, and a stand-in for the node controller.
type bed struct {
	namespace string
	mgr       ctrl.Manager
	injector  *faults.Injector
	counter   *faults.Counter
	recorder  *recorder
	// admin acts for users and the rest of the cluster, node for the node
	// controller.
	admin client.Client
	node  *apply.Writer
}

func newBed(t *testing.T, add func(b *bed)) *bed {
	t.Helper()
	s, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{
		namespace: dnsName(t) + "-" + strconv.FormatInt(names.Add(1), 10),
		injector:  &faults.Injector{}, counter: &faults.Counter{}, recorder: &recorder{},
	}
	if b.admin, err = client.New(cluster.Config(), client.Options{Scheme: s}); err != nil {
		t.Fatal(err)
	}
	if err := b.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}); err != nil {
		t.Fatal(err)
	}
	b.node = apply.NewWriter(b.admin, b.admin, nodestate.OwnerNode)
	rc := rest.CopyConfig(cluster.Config())
	rc.QPS = -1
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return b.counter.Wrap(b.injector.Wrap(next)) })
	b.mgr, err = ctrl.NewManager(rc, ctrl.Options{
		Scheme:     s,
		Cache:      cache.Options{ByObject: b.cached()},
		Client:     client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := index.Setup(t.Context(), b.mgr); err != nil {
		t.Fatal(err)
	}
	add(b)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	return b
}

// bedLabel is on the nodes of a bed: nodes have no namespace, and controllers of
// other tests must not work on them.
const bedLabel = "example.com/bed"

// cached is what the operator caches, of the nodes of this bed.
func (b *bed) cached() map[client.Object]cache.ByObject {
	out := transform.ByObject(b.namespace)
	for obj, by := range out {
		if _, isNode := obj.(*corev1.Node); isNode {
			by.Label = labels.SelectorFromSet(labels.Set{bedLabel: b.namespace})
			out[obj] = by
		}
	}
	return out
}

func (b *bed) createNode(t *testing.T) *corev1.Node {
	t.Helper()
	return createNode(t, func(n *corev1.Node) { n.Labels[bedLabel] = b.namespace })
}

func (b *bed) writer(owner nodestate.Owner) *apply.Writer {
	return apply.NewWriter(b.mgr.GetClient(), b.mgr.GetAPIReader(), owner, apply.PanicOnForeignKey())
}

// record stands in for the node controller: it brings the node's record to
// these entries, and gives the number of the apply.
func (b *bed) record(t *testing.T, node string, entries ...nodestate.PackageStatus) int64 {
	t.Helper()
	var set nodestate.Set
	for i := range entries {
		if set.Packages == nil {
			set.Packages = map[nodestate.PackageRef]nodestate.PackageStatus{}
		}
		set.Packages[entries[i].Ref()] = entries[i]
	}
	view := read(t, b.node, node)
	outcome, err := b.node.Apply(t.Context(), view, set, false)
	if err != nil || outcome != apply.Written {
		t.Fatalf("record node %s: outcome %s, error %v", node, outcome, err)
	}
	return view.NextSeq
}

// entryOf is the entry that names the attempt.
func entryOf(id *packagejob.Identity, change func(*nodestate.PackageStatus)) nodestate.PackageStatus {
	e := nodestate.PackageStatus{
		Attempt: id.Attempt, Image: "registry.example.com/" + id.Package, Name: id.Package, NodeWright: id.NodeWright,
		Run: id.Run, Stage: id.Stage, State: nodestate.StateInProgress, UID: string(id.NodeWrightUID), Version: id.Version,
	}
	if change != nil {
		change(&e)
	}
	return e
}

// identityOn names the first attempt of a package on the node, in run 1.
func identityOn(node *corev1.Node, pkg string) packagejob.Identity {
	return packagejob.Identity{
		Attempt: 1, Node: node.Name, NodeUID: node.UID, NodeWright: testNodeWright, NodeWrightUID: "no-uid",
		Package: pkg, Run: 1, Stage: nodestate.StageApply, Version: "1.0.0",
	}
}

// createJob makes the Job of an attempt, as the node controller does.
func (b *bed) createJob(t *testing.T, id packagejob.Identity, change func(*batchv1.Job)) *batchv1.Job {
	t.Helper()
	annotations, err := id.Annotations()
	if err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.namespace, Name: id.JobName(), Labels: id.Labels(),
			Annotations: map[string]string{packagejob.AnnotationIdentity: annotations[packagejob.AnnotationIdentity]},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](0), PodReplacementPolicy: ptr.To(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: id.Labels(), Annotations: annotations},
				Spec:       podSpec(id.Node),
			},
		},
	}
	if change != nil {
		change(job)
	}
	if err := b.admin.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	return job
}

func podSpec(node string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName: node, RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/p:1"}},
	}
}

// createPod makes a pod of the Job, as the Job controller of Kubernetes does.
func (b *bed) createPod(t *testing.T, job *batchv1.Job, status corev1.PodStatus) *corev1.Pod {
	t.Helper()
	labels := map[string]string{batchv1.JobNameLabel: job.Name}
	for k, v := range job.Spec.Template.Labels {
		labels[k] = v
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.namespace, Name: job.Name + "-abcde", Labels: labels, Annotations: job.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: job.Spec.Template.Spec,
	}
	if err := b.admin.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	b.setPod(t, pod, status)
	return pod
}

func (b *bed) setPod(t *testing.T, pod *corev1.Pod, status corev1.PodStatus) {
	t.Helper()
	pod.Status = status
	if err := b.admin.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// exited is the status of a pod that ended with the exit code.
func exited(code int32) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}},
	}}}
}

// end ends a Job, as the Job controller of Kubernetes does.
func (b *bed) end(t *testing.T, job *batchv1.Job, outcome batchv1.JobConditionType, reason string) {
	t.Helper()
	now := metav1.Now()
	if err := b.admin.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
		t.Fatal(err)
	}
	before := batchv1.JobFailureTarget
	job.Status.StartTime = ptr.To(job.CreationTimestamp)
	if outcome == batchv1.JobComplete {
		before = batchv1.JobSuccessCriteriaMet
		job.Status.Succeeded, job.Status.CompletionTime = 1, &now
	} else {
		job.Status.Failed = 1
	}
	for _, kind := range []batchv1.JobConditionType{before, outcome} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: now, LastProbeTime: now,
		})
	}
	if err := b.admin.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

// stored is the Job as stored, nil if there is none.
func (b *bed) stored(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	var job batchv1.Job
	err := b.admin.Get(t.Context(), types.NamespacedName{Namespace: b.namespace, Name: name}, &job)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return &job
}

// writes counts what the manager wrote to a resource (faults.Request.Name).
func (b *bed) writes(resource string) int {
	return b.counter.Snapshot().Sum(func(r faults.Request) bool { return r.Writes() && r.Name() == resource })
}

// decoded is the contract's part of a node as stored.
func decoded(t *testing.T, name string) nodestate.Record {
	t.Helper()
	return nodestate.Decode(liveNode(t, name).Annotations, []string{testNodeWright})
}

// settle waits until the manager has written nothing for a while.
func (b *bed) settle(t *testing.T) {
	t.Helper()
	const quiet = 500 * time.Millisecond
	total := func() int { return b.counter.Snapshot().Writes() }
	for last, since := total(), time.Now(); time.Since(since) < quiet; time.Sleep(20 * time.Millisecond) {
		if now := total(); now != last {
			last, since = now, time.Now()
		}
	}
}

// recorder keeps the reasons of events, and what part of an object they are about.
type recorder struct {
	mu      sync.Mutex
	reasons []string
	parts   []string
}

var _ events.EventRecorder = (*recorder)(nil)

// Eventf implements events.EventRecorder.
func (r *recorder) Eventf(about, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons = append(r.reasons, reason)
	if ref, ok := about.(*corev1.ObjectReference); ok && ref.FieldPath != "" {
		r.parts = append(r.parts, reason+" "+ref.FieldPath)
	}
}

// partsOf are the parts of objects that events of the reason are about, sorted.
func (r *recorder) partsOf(reason string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.DeleteFunc(slices.Clone(r.parts), func(s string) bool { return !strings.HasPrefix(s, reason+" ") })
	slices.Sort(out)
	return out
}

func (r *recorder) count(reason string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(r.reasons), func(s string) bool { return s != reason }))
}
