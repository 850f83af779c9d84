package system

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

// trouble by package: what its pods do in the stage apply, and what is told of it.
var startTrouble = map[string]struct {
	env string
	// erroring is the reason that the record shows until the pod starts; empty for
	// none.
	erroring string
	// told are reasons of events with what their notes say, once each.
	told map[string]string
	// failures that are counted.
	failures int32
}{
	"badname": {env: "SIM_OUTCOME: start-error, SIM_REASON: InvalidImageName", erroring: "InvalidImageName", told: map[string]string{"PackageErroring": "InvalidImageName"}},
	"noconf":  {env: "SIM_OUTCOME: start-error, SIM_REASON: CreateContainerConfigError", erroring: "CreateContainerConfigError", told: map[string]string{"PackageErroring": "CreateContainerConfigError"}},
	"nocont":  {env: "SIM_OUTCOME: start-error, SIM_REASON: CreateContainerError", erroring: "CreateContainerError", told: map[string]string{"PackageErroring": "CreateContainerError"}},
	"norun":   {env: "SIM_OUTCOME: start-error, SIM_REASON: RunContainerError", erroring: "RunContainerError", told: map[string]string{"PackageErroring": "RunContainerError"}},
	"nopull":  {env: "SIM_OUTCOME: start-error", erroring: "ErrImagePull", told: map[string]string{"PackageErroring": "ErrImagePull"}},
	"full":    {env: "SIM_OUTCOME: reject", told: map[string]string{"AttemptReplaced": "OutOfcpu"}},
	"affine":  {env: "SIM_OUTCOME: reject, SIM_REASON: NodeAffinity", told: map[string]string{"AttemptReplaced": "NodeAffinity"}},
	"unexp":   {env: "SIM_OUTCOME: reject, SIM_REASON: UnexpectedAdmissionError", told: map[string]string{"AttemptReplaced": "UnexpectedAdmissionError"}},
	"press":   {env: "SIM_OUTCOME: reject, SIM_REASON: Evicted", told: map[string]string{"AttemptReplaced": "Evicted"}},
	"down":    {env: "SIM_OUTCOME: reject, SIM_REASON: NodeShutdown", told: map[string]string{"AttemptReplaced": "NodeShutdown"}},
	"fails":   {env: "SIM_OUTCOME: fail", told: map[string]string{"AttemptFailed": "exit code 1"}, failures: 1},
	"podgone": {env: "SIM_OUTCOME: hang, SIM_TERM: ignore", told: map[string]string{"AttemptReplaced": "PodDeleted"}},
	"jobgone": {env: "SIM_OUTCOME: hang", told: map[string]string{"JobCreatedAgain": "stage apply"}},
}

// longHead begins the manifest of NodeWright long.
const longHead = "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata: {name: long}\nspec:\n  packages:\n"

func startManifest(version string) string {
	env := map[string]string{}
	for name, trouble := range startTrouble {
		env[name] = `SIM_ATTEMPTS: "1", SIM_STAGES: apply, ` + trouble.env
	}
	return longManifest(version, env)
}

// longManifest is NodeWright long with packages of one version, which have these
// variables, each as "NAME: value, NAME: value".
func longManifest(version string, env map[string]string) string {
	var out strings.Builder
	out.WriteString(longHead)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&out, "    %s:\n      version: %s\n      image: nodewright.example/%s\n      env:\n", name, version, name)
		for knob := range strings.SplitSeq(env[name], ", ") {
			key, value, _ := strings.Cut(knob, ": ")
			fmt.Fprintf(&out, "      - {name: %s, value: %s}\n", key, value)
		}
	}
	return out.String()
}

// TestStarts: whatever keeps a stage from starting, or takes it away from outside,
// is told once, is on the record of the node and in a condition as long as it is
// waited for, is no failure of the package, and leaves nothing behind
// (JB-01, JB-02, JB-07, JB-11).
func TestStarts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b := startBed(ctx, t, badInputConfiguration)
	b.createNodes(ctx, t, 1)
	c := newClient(t, b.cp.Config())
	node := b.nodes[0]
	b.start(t)

	// Pods are not let in, and nothing but events of the Jobs says so.
	b.quota(ctx, t, "pods", corev1.ResourcePods)
	b.apply(ctx, t, startManifest("1.0.0"))
	b.wantCondition(ctx, t, c, "long", v1alpha1.ConditionErroring, node, "FailedCreate")
	b.wantEntries(ctx, t, node, maps.Keys(startTrouble), "erroring: FailedCreate", func(_ string, e *nodestate.PackageStatus) bool {
		return e.State == nodestate.StateErroring && e.Reason == "FailedCreate" && strings.Contains(e.Message, "exceeded quota") && e.Failures == 0
	})
	for name := range startTrouble {
		b.wantTold(ctx, t, 1, "PackageErroring", "package "+name+" ", "exceeded quota")
	}
	b.deleteQuota(ctx, t, "pods")

	// Then each has its own trouble.
	b.wantEntries(ctx, t, node, maps.Keys(startTrouble), "in its trouble, or over it", func(name string, e *nodestate.PackageStatus) bool {
		want := startTrouble[name].erroring
		return want == "" && e.Reason != "FailedCreate" || e.State == nodestate.StateErroring && e.Reason == want && e.Failures == 0
	})
	b.wantCondition(ctx, t, c, "long", v1alpha1.ConditionErroring, node, "InvalidImageName")
	b.takeAway(ctx, t)
	b.letStart(ctx, t)
	b.wantReady(ctx, t, c)
	rec := nodestate.Decode(b.node(ctx, t, node).Annotations, nil)
	if len(rec.PodReports)+len(rec.JobReports) != 0 {
		t.Errorf("reports are left: %+v %+v", rec.PodReports, rec.JobReports)
	}
	for name, tc := range startTrouble {
		if e := rec.Packages[nodestate.PackageRef{NodeWright: "long", Package: name}]; e.Failures != tc.failures || e.Reason != "" {
			t.Errorf("%s: %d failures (%s), want %d", name, e.Failures, e.Reason, tc.failures)
		}
		for reason, says := range tc.told {
			b.wantTold(ctx, t, 1, reason, "package "+name, says)
		}
	}
	b.wantTold(ctx, t, 1, "NodeComplete", node)

	// The Job itself is refused.
	b.quota(ctx, t, "jobs", "count/jobs.batch")
	b.apply(ctx, t, strings.ReplaceAll(startManifest("1.1.0"), "SIM_STAGES, value: apply", "SIM_STAGES, value: none"))
	b.wantCondition(ctx, t, c, "long", v1alpha1.ConditionBlocked, node, nodestate.SlotJobRefused, "exceeded quota")
	slot := nodestate.Decode(b.node(ctx, t, node).Annotations, nil).Slots["long"]
	if slot.Reason != nodestate.SlotJobRefused || slot.Since == "" || !strings.Contains(slot.Message, "exceeded quota") {
		t.Errorf("the node shows %+v", slot)
	}
	for name := range startTrouble {
		b.wantTold(ctx, t, 1, "JobRefused", "package "+name+",", "exceeded quota")
	}
	b.deleteQuota(ctx, t, "jobs")
	b.wantReady(ctx, t, c)
}

// quota lets nothing more of the resource into the operator's namespace.
func (b *bed) quota(ctx context.Context, t *testing.T, name string, what corev1.ResourceName) {
	t.Helper()
	quotas := b.cs.CoreV1().ResourceQuotas(operator.Namespace)
	_, err := quotas.Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{what: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		q, err := quotas.Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			return "the quota is not in force", nil
		}
		return "", err
	})
}

func (b *bed) deleteQuota(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if err := b.cs.CoreV1().ResourceQuotas(operator.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// takeAway deletes, once they run, the pod of one package and the Job of another.
func (b *bed) takeAway(ctx context.Context, t *testing.T) {
	t.Helper()
	b.withPod(ctx, t, "podgone", func(pod *corev1.Pod) error {
		grace := int64(1)
		return b.cs.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	})
	b.withPod(ctx, t, "jobgone", func(pod *corev1.Pod) error {
		background := metav1.DeletePropagationBackground
		return b.cs.BatchV1().Jobs(pod.Namespace).Delete(ctx, packagejob.JobOf(pod), metav1.DeleteOptions{PropagationPolicy: &background})
	})
	// The same attempt runs again, and would hang again.
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		n, err := b.toldOf(ctx, "JobCreatedAgain", "package jobgone")
		if n == 0 {
			return "the Job that was deleted is not there again", err
		}
		return "", err
	})
}

// letStart lets all pods that cannot start do so, and ends what hangs.
func (b *bed) letStart(ctx context.Context, t *testing.T) {
	t.Helper()
	for name, tc := range startTrouble {
		if tc.erroring == "" && name != "jobgone" {
			continue
		}
		b.withPod(ctx, t, name, func(pod *corev1.Pod) error {
			_, err := b.cs.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"sim.nodewright.nvidia.com/outcome":"succeed"}}}`), metav1.PatchOptions{})
			return err
		})
	}
}

// errNotYet says that the pod is not the one that is waited for.
var errNotYet = errors.New("it is not the pod that is waited for")

// withPod does something to the pod of a package that has not ended.
func (b *bed) withPod(ctx context.Context, t *testing.T, pkg string, do func(*corev1.Pod) error) {
	t.Helper()
	b.withPodOf(ctx, t, pkg, "", do)
}

// withPodOf is withPod for one version of the package; empty for any.
func (b *bed) withPodOf(ctx context.Context, t *testing.T, pkg, version string, do func(*corev1.Pod) error) {
	t.Helper()
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		pods, err := b.cs.CoreV1().Pods(operator.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if id, err := packagejob.Parse(pod); err != nil || id.Package != pkg || version != "" && id.Version != version || pod.DeletionTimestamp != nil ||
				pod.Status.Phase != corev1.PodPending || len(pod.Status.InitContainerStatuses) == 0 {
				continue
			}
			err := do(pod)
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || errors.Is(err, errNotYet) {
				continue
			}
			return "", err
		}
		return "no pod of " + pkg + " is there", nil
	})
}

// wantEntries waits until the entries of the packages are as wanted.
func (b *bed) wantEntries(ctx context.Context, t *testing.T, node string, packages iter.Seq[string], what string,
	as func(name string, e *nodestate.PackageStatus) bool,
) {
	t.Helper()
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		rec, err := b.record(ctx, node)
		if err != nil {
			return "", err
		}
		for name := range packages {
			e := rec.Packages[nodestate.PackageRef{NodeWright: "long", Package: name}]
			if !as(name, &e) {
				return fmt.Sprintf("%s is at %s (%s %s) with %d failures, want it %s", name, place(&e), e.Reason, e.Message, e.Failures, what), nil
			}
		}
		return "", nil
	})
}

// wantTold wants this many events of the reason whose notes say all parts.
func (b *bed) wantTold(ctx context.Context, t *testing.T, want int, reason string, parts ...string) {
	t.Helper()
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		n, err := b.toldOf(ctx, reason, parts...)
		if n < want {
			return fmt.Sprintf("%d events %s that say %q, want %d", n, reason, parts, want), err
		}
		return "", err
	})
	if n, err := b.toldOf(ctx, reason, parts...); err != nil || n != want {
		t.Errorf("%d events %s that say %q (%v), want %d", n, reason, parts, err, want)
	}
}

func (b *bed) toldOf(ctx context.Context, reason string, parts ...string) (n int, err error) {
	events, err := b.cs.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for i := range events.Items {
		e := &events.Items[i]
		if e.Reason != reason || e.Regarding.Kind != v1alpha1.KindNodeWright ||
			slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(e.Note, part) }) {
			continue
		}
		n++
		if e.Series != nil {
			n += int(e.Series.Count) - 1
		}
	}
	return n, nil
}
