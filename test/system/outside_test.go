package system

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

// refusedBy are ways of a cluster not to take the pods of Jobs, besides a quota:
// what is put on and taken off, and what the API server says then.
var refusedBy = map[string]struct {
	put, remove func(context.Context, *bed) error
	says        string
}{
	"LimitRange": {
		put: func(ctx context.Context, b *bed) error {
			_, err := b.cs.CoreV1().LimitRanges(operator.Namespace).Create(ctx, &corev1.LimitRange{
				ObjectMeta: metav1.ObjectMeta{Name: "pods"},
				Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
					Type: corev1.LimitTypePod, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")},
				}}},
			}, metav1.CreateOptions{})
			return err
		},
		remove: func(ctx context.Context, b *bed) error {
			return b.cs.CoreV1().LimitRanges(operator.Namespace).Delete(ctx, "pods", metav1.DeleteOptions{})
		},
		says: "maximum memory usage per Pod",
	},
	"Pod Security": {
		put:    func(ctx context.Context, b *bed) error { return b.enforce(ctx, `"restricted"`) },
		remove: func(ctx context.Context, b *bed) error { return b.enforce(ctx, `"privileged"`) },
		says:   "violates PodSecurity",
	},
}

// enforce sets the Pod Security level of the operator's namespace.
func (b *bed) enforce(ctx context.Context, level string) error {
	_, err := b.cs.CoreV1().Namespaces().Patch(ctx, operator.Namespace, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%s}}}`, level), metav1.PatchOptions{})
	return err
}

// disruptions are ways to end a pod that runs from outside, by package: the reason
// of its status and that of its condition DisruptionTarget.
var disruptions = map[string]struct {
	status corev1.PodStatus
	target string
}{
	"preempted": {corev1.PodStatus{Message: "Preempted in order to admit critical pod", Reason: "Preempting"}, "TerminationByKubelet"},
	"scheduler": {corev1.PodStatus{}, corev1.PodReasonPreemptionByScheduler},
	"shutdown":  {corev1.PodStatus{Message: "Pod was terminated in response to imminent node shutdown.", Reason: "Terminated"}, corev1.PodReasonTerminationByKubelet},
	"evicted":   {corev1.PodStatus{Message: "The node was low on resource: memory.", Reason: "Evicted"}, corev1.PodReasonTerminationByKubelet},
}

func outsideManifest(version, outcome string) string {
	env := map[string]string{}
	for name := range disruptions {
		env[name] = "SIM_OUTCOME: " + outcome + ", SIM_STAGES: upgrade"
	}
	return longManifest(version, env)
}

// TestEndedAndRefusedFromOutside: what a cluster does to the pods of packages is no
// failure of theirs, whether they are not let in or are ended while they run, and
// it is on the record as long as it is waited for (JB-09, JB-11).
func TestEndedAndRefusedFromOutside(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b := startBed(ctx, t, badInputConfiguration)
	b.createNodes(ctx, t, 1)
	c := newClient(t, b.cp.Config())
	node := b.nodes[0]
	b.start(t)

	for i, name := range slices.Sorted(maps.Keys(refusedBy)) {
		by := refusedBy[name]
		if err := by.put(ctx, b); err != nil {
			t.Fatal(err)
		}
		// Another version has Jobs of its own, which nothing holds back from before.
		b.apply(ctx, t, outsideManifest(fmt.Sprintf("1.0.%d", i), "succeed"))
		b.wantCondition(ctx, t, c, "long", v1alpha1.ConditionErroring, node, "FailedCreate")
		b.wantEntries(ctx, t, node, maps.Keys(disruptions), "erroring for "+name, func(_ string, e *nodestate.PackageStatus) bool {
			return e.Failures == 0 && e.State == nodestate.StateErroring && e.Reason == nodestate.PodFailedCreate && strings.Contains(e.Message, by.says)
		})
		for pkg := range disruptions {
			b.wantTold(ctx, t, 1, "PackageErroring", "package "+pkg+" ", by.says)
		}
		if err := by.remove(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	b.wantReady(ctx, t, c)

	b.apply(ctx, t, outsideManifest("1.1.0", "hang"))
	attempts := map[string]int32{}
	for pkg := range disruptions {
		first := b.disrupt(ctx, t, pkg, "1.1.0")
		b.replace(ctx, t, pkg, "1.1.0", first, attempts)
	}
	b.wantReady(ctx, t, c)
	b.wantEntries(ctx, t, node, maps.Keys(disruptions), "complete in the first attempt", func(_ string, e *nodestate.PackageStatus) bool {
		return e.State == nodestate.StateComplete && e.Failures == 0 && e.Reason == "" && attempts[e.Name] == 1
	})
	for _, reason := range []string{"AttemptFailed", "AttemptReplaced"} {
		if n, err := b.toldOf(ctx, reason); n != 0 || err != nil {
			t.Errorf("%d events %s (%v), and all was disrupted from outside", n, reason, err)
		}
	}
}

// disrupt ends the pod of a package that runs, as kubelet or scheduler do.
func (b *bed) disrupt(ctx context.Context, t *testing.T, pkg, version string) (ended types.UID) {
	t.Helper()
	b.withPodOf(ctx, t, pkg, version, func(pod *corev1.Pod) error {
		d := disruptions[pkg]
		ended = pod.UID
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, d.status.Reason, d.status.Message
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: d.target, LastTransitionTime: metav1.Now(),
		})
		for i := range pod.Status.InitContainerStatuses {
			s := &pod.Status.InitContainerStatuses[i]
			if s.State.Running != nil {
				s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}}
			}
		}
		_, err := b.cs.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
	return ended
}

// replace waits for the pod in the place of one that was ended, and lets it
// succeed.
func (b *bed) replace(ctx context.Context, t *testing.T, pkg, version string, ended types.UID, attempts map[string]int32) {
	t.Helper()
	b.withPodOf(ctx, t, pkg, version, func(pod *corev1.Pod) error {
		if pod.UID == ended {
			return errNotYet
		}
		id, err := packagejob.Parse(pod)
		if err != nil {
			return err
		}
		attempts[pkg] = id.Attempt
		_, err = b.cs.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"sim.nodewright.nvidia.com/outcome":"succeed"}}}`), metav1.PatchOptions{})
		return err
	})
}
