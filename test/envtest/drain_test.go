package envtest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/node/drain"
)

// drainBed is a namespace with pods on a node, and the client under test.
type drainBed struct {
	client.Client
	drain     *drain.Client
	namespace string
	node      *corev1.Node
}

func newDrainBed(t *testing.T) *drainBed {
	t.Helper()
	b := &drainBed{Client: admin(t), namespace: dnsName(t) + "-" + nodestate.FormatSeq(names.Add(1)), node: createNode(t, nil)}
	if err := b.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}); err != nil {
		t.Fatal(err)
	}
	httpClient, err := rest.HTTPClientFor(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	if b.drain, err = drain.NewClient(cluster.Config(), httpClient, b.Client); err != nil {
		t.Fatal(err)
	}
	return b
}

// run makes a pod that runs and is ready, unless changed.
func (b *drainBed) run(t *testing.T, name string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       podSpec(b.node.Name),
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
	if change != nil {
		change(pod)
	}
	status := pod.Status
	if err := b.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status = status
	if err := b.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// budget makes a PodDisruptionBudget over all pods of the namespace, with what
// the disruption controller would have found.
func (b *drainBed) budget(t *testing.T, name string, status *policyv1.PodDisruptionBudgetStatus) {
	t.Helper()
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
	if err := b.Create(t.Context(), pdb); err != nil {
		t.Fatal(err)
	}
	if status == nil {
		return
	}
	pdb.Status = *status
	pdb.Status.ObservedGeneration = pdb.Generation
	if err := b.Status().Update(t.Context(), pdb); err != nil {
		t.Fatal(err)
	}
}

// listed is the pod as List has it.
func (b *drainBed) listed(t *testing.T, name string) *drain.Pod {
	t.Helper()
	pods, err := b.drain.List(t.Context(), b.node.Name, &drain.Options{Settings: (&v1alpha1.NodeWrightSpec{}).DrainSettings()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if pods[i].Name == name {
			return &pods[i]
		}
	}
	t.Fatalf("pod %s is not among %d listed", name, len(pods))
	return nil
}

// ending tells whether the end of the pod has begun.
func (b *drainBed) ending(t *testing.T, pod *corev1.Pod) bool {
	t.Helper()
	var stored corev1.Pod
	err := b.Get(t.Context(), client.ObjectKeyFromObject(pod), &stored)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err != nil || stored.UID != pod.UID || stored.DeletionTimestamp != nil
}

func (b *drainBed) expect(t *testing.T, pod *drain.Pod, settings v1alpha1.DrainSettings, want drain.Outcome) {
	t.Helper()
	got := b.drain.Evict(t.Context(), pod, &settings)
	t.Logf("answer: %v", got.Err)
	got.Err = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// DR-02, DR-03, DR-07, DR-25: the pods of the node, of all namespaces, and no
// others, as the API server has them now.
func TestDrainLists(t *testing.T) {
	t.Parallel()
	b, packages := newDrainBed(t), newDrainBed(t)
	elsewhere := createNode(t, nil)
	b.run(t, "web", nil)
	b.run(t, "pending", func(p *corev1.Pod) { p.Labels["app"], p.Status = "train", corev1.PodStatus{Phase: corev1.PodPending} })
	b.run(t, "done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	b.run(t, "mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"} })
	b.run(t, "scratch", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	b.run(t, "elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = elsewhere.Name })
	slow := b.run(t, "slow", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600) })
	if err := b.Delete(t.Context(), slow); err != nil {
		t.Fatal(err)
	}
	packages.run(t, "driver", func(p *corev1.Pod) {
		p.Labels, p.Spec.NodeName = map[string]string{packagejob.LabelPackage: "driver-1.0.0"}, b.node.Name
	})
	pods, err := b.drain.List(t.Context(), b.node.Name, &drain.Options{
		Namespace: packages.namespace, Settings: v1alpha1.DrainSettings{Force: true},
		NonInterrupt: metav1.LabelSelector{MatchLabels: map[string]string{"app": "train"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Class                     drain.Class
		Terminating, NonInterrupt bool
		Grace                     int64
	}
	got := map[string]row{}
	for _, p := range pods {
		got[p.Name] = row{p.Class, p.Terminating, p.NonInterrupt, p.GraceSeconds}
	}
	want := map[string]row{
		"web":     {drain.Evict, false, false, 30},
		"pending": {drain.Evict, false, true, 30},
		"done":    {drain.Exempt, false, false, 30},
		"mirror":  {drain.Exempt, false, false, 30},
		"scratch": {drain.Holds, false, false, 30},
		"slow":    {drain.Evict, true, false, 600},
		"driver":  {drain.Exempt, false, false, 30},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

// DR-05: what keeps a pod is told with its name, and leaves the pod alone.
func TestEvictionBlocked_DR05(t *testing.T) {
	t.Parallel()
	full := &policyv1.PodDisruptionBudgetStatus{ExpectedPods: 2, DesiredHealthy: 1, CurrentHealthy: 1}
	const sick = "; 1 of its 2 pods are not healthy, which unhealthyPodEvictionPolicy: AlwaysAllow would let go"
	tests := map[string]struct {
		budgets func(*testing.T, *drainBed)
		want    string
		after   time.Duration
	}{
		"one budget": {func(t *testing.T, b *drainBed) {
			b.budget(t, "web", &policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, DesiredHealthy: 1, CurrentHealthy: 1})
		}, "waits for PodDisruptionBudget web: The disruption budget web needs 1 healthy pods and has 1 currently", 0},
		"a budget with pods that are not healthy": {func(t *testing.T, b *drainBed) { b.budget(t, "web", full) },
			"waits for PodDisruptionBudget web: The disruption budget web needs 1 healthy pods and has 1 currently" + sick, 0},
		"a new budget": {func(t *testing.T, b *drainBed) { b.budget(t, "web", nil) },
			"waits for PodDisruptionBudget web: The disruption budget web is still being processed by the server.", 10 * time.Second},
		"two budgets": {func(t *testing.T, b *drainBed) { b.budget(t, "web", full); b.budget(t, "all", full) },
			"is in PodDisruptionBudgets all, web: the API server evicts no pod that is in more than one, leave one of them", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newDrainBed(t)
			pod := b.run(t, "web-0", nil)
			tc.budgets(t, b)
			listed := b.listed(t, "web-0")
			start := time.Now()
			b.expect(t, listed, v1alpha1.DrainSettings{}, drain.Outcome{
				Kind: drain.Blocked, Message: "pod " + b.namespace + "/web-0 " + tc.want, RetryAfter: tc.after,
			})
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("the answer took %s: the request was repeated", took)
			}
			if b.ending(t, pod) {
				t.Fatal("the pod is ending")
			}
			b.expect(t, listed, v1alpha1.DrainSettings{DisableEviction: true}, drain.Outcome{Kind: drain.Started})
			if !b.ending(t, pod) {
				t.Error("the pod is not ending, though budgets are passed over")
			}
		})
	}
}

// A pod that came in the place of ours is not ours to evict.
func TestEvictionIsOfOnePod(t *testing.T) {
	t.Parallel()
	for _, settings := range []v1alpha1.DrainSettings{{}, {DisableEviction: true}} {
		name := "eviction"
		if settings.DisableEviction {
			name = "deletion"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newDrainBed(t)
			first := b.run(t, "web-0", nil)
			listed := b.listed(t, "web-0")
			if err := b.Delete(t.Context(), first, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
			b.expect(t, listed, settings, drain.Outcome{Kind: drain.Gone})
			second := b.run(t, "web-0", nil)
			b.expect(t, listed, settings, drain.Outcome{Kind: drain.Gone})
			if b.ending(t, second) {
				t.Fatal("the pod that came in its place is ending")
			}
			b.expect(t, b.listed(t, "web-0"), settings, drain.Outcome{Kind: drain.Started})
			if !b.ending(t, second) {
				t.Fatal("the pod is not ending")
			}
			if p := b.listed(t, "web-0"); !p.Terminating || p.Class != drain.Evict {
				t.Errorf("pod %+v, want it waited for", p)
			}
		})
	}
}

// A grace period of 0 kills, but the pod is there until its kubelet says that
// it is gone.
func TestEvictionWithoutGraceLeavesThePodToItsKubelet(t *testing.T) {
	t.Parallel()
	b := newDrainBed(t)
	b.run(t, "web-0", nil)
	b.expect(t, b.listed(t, "web-0"), v1alpha1.DrainSettings{GracePeriodSeconds: ptr.To[int64](0)}, drain.Outcome{Kind: drain.Started})
	if p := b.listed(t, "web-0"); !p.Terminating || p.GraceSeconds != 1 {
		t.Errorf("pod %+v, want it terminating in a second", p)
	}
}

// Nothing can be created in a namespace that is being deleted, evictions
// neither; its pods go without.
func TestEvictionInANamespaceThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	b := newDrainBed(t)
	pod := b.run(t, "web-0", nil)
	if err := b.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing can be created any more", func() bool {
		err := b.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, GenerateName: "c-"}})
		return err != nil && strings.Contains(err.Error(), "is being terminated")
	})
	b.expect(t, b.listed(t, "web-0"), v1alpha1.DrainSettings{}, drain.Outcome{Kind: drain.Started})
	if b.ending(t, pod) {
		t.Error("the eviction was accepted, so this shows nothing")
	}
}

// A pod that nobody may evict is told as such, not as one that waits.
func TestEvictionForbidden(t *testing.T) {
	t.Parallel()
	b := newDrainBed(t)
	pod := b.run(t, "web-0", nil)
	config := rest.CopyConfig(cluster.Config())
	config.Impersonate.UserName = "nobody"
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	powerless, err := drain.NewClient(config, httpClient, b.Client)
	if err != nil {
		t.Fatal(err)
	}
	out := powerless.Evict(t.Context(), b.listed(t, "web-0"), &v1alpha1.DrainSettings{})
	if out.Kind != drain.Forbidden || !strings.Contains(out.Message, "web-0") {
		t.Errorf("outcome %+v", out)
	}
	if b.ending(t, pod) {
		t.Error("the pod is ending")
	}
}
