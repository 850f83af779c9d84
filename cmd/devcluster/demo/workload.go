package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
)

const (
	workloadName      = "web"
	workloadNamespace = metav1.NamespaceDefault
	// Pods are put on the first workloadNodes nodes, podsPerNode on each.
	workloadNodes = 5
	podsPerNode   = 2
	// awayPercent of the pods, rounded up, may be away at once.
	awayPercent = 20
	// workloadTimeout bounds the start of the workload.
	workloadTimeout = time.Minute
	// bindInterval is how often pods without a node are looked for.
	bindInterval = 200 * time.Millisecond
)

// workload is what serves on the nodes while packages come to them.
type workload struct {
	replicas int
	// placed are the pods on each node in the beginning.
	placed map[string]int
	// spare is the node for pods that come in the place of others. No NodeWright of
	// the samples selects it.
	spare string
}

// mayBeAway is how many pods the budget lets be away at once.
func (l *workload) mayBeAway() int { return (l.replicas*awayPercent + 99) / 100 }

var workloadLabels = map[string]string{"app": workloadName}

// startWorkload creates the ReplicaSet and its budget, puts the pods on the first
// of the nodes and waits until all are ready. From then on, until the context
// ends, pods that come later are put on the spare node: there is no scheduler
// here.
func startWorkload(ctx context.Context, config *rest.Config, reader client.Reader, nodes []string) (*workload, error) {
	spare, err := controlplane.CreateNodes(ctx, config, 1, controlplane.NodeOptions{
		Prefix: "spare-", First: len(nodes), Labels: map[string]string{"example.com/pool": "spare"},
	})
	if err != nil {
		return nil, err
	}
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("start workload: %w", err)
	}
	l := &workload{placed: map[string]int{}, spare: spare[0]}
	var places []string
	for _, name := range nodes[:min(len(nodes), workloadNodes)] {
		l.placed[name] = podsPerNode
		places = append(places, slices.Repeat([]string{name}, podsPerNode)...)
	}
	l.replicas = len(places)
	startCtx, cancel := context.WithTimeout(ctx, workloadTimeout)
	defer cancel()
	if err := l.create(startCtx, cs); err != nil {
		return nil, fmt.Errorf("start workload: %w", err)
	}
	err = wait.PollUntilContextCancel(startCtx, bindInterval, true, func(ctx context.Context) (bool, error) {
		pods, err := workloadPods(ctx, reader)
		if err != nil || len(pods) < l.replicas {
			return false, err
		}
		slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		ready := 0
		for i := range pods {
			bind(ctx, cs, &pods[i], places[i])
			if serves(&pods[i]) {
				ready++
			}
		}
		return ready == l.replicas, nil
	})
	if err != nil {
		return nil, fmt.Errorf("start workload: wait until %d pods are ready: %w", l.replicas, err)
	}
	if err := l.awaitBudget(startCtx, cs); err != nil {
		return nil, fmt.Errorf("start workload: %w", err)
	}
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		// A cache that has synced fails only once the context has ended.
		pods, _ := workloadPods(ctx, reader)
		for i := range pods {
			bind(ctx, cs, &pods[i], l.spare)
		}
	}, bindInterval)
	return l, nil
}

func (l *workload) create(ctx context.Context, cs kubernetes.Interface) error {
	replicas := int32(l.replicas)
	_, err := cs.AppsV1().ReplicaSets(workloadNamespace).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: workloadName},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: workloadLabels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: workloadLabels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "serve", Image: "nodewright.example/serve"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	away := intstr.FromString(fmt.Sprintf("%d%%", awayPercent))
	_, err = cs.PolicyV1().PodDisruptionBudgets(workloadNamespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: workloadName},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &away, Selector: &metav1.LabelSelector{MatchLabels: workloadLabels},
		},
	}, metav1.CreateOptions{})
	return err
}

// awaitBudget waits until the controller of budgets has counted all pods.
func (l *workload) awaitBudget(ctx context.Context, cs kubernetes.Interface) error {
	var healthy, allowed int32
	err := wait.PollUntilContextCancel(ctx, bindInterval, true, func(ctx context.Context) (bool, error) {
		pdb, err := cs.PolicyV1().PodDisruptionBudgets(workloadNamespace).Get(ctx, workloadName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		healthy, allowed = pdb.Status.CurrentHealthy, pdb.Status.DisruptionsAllowed
		return int(healthy) == l.replicas && int(allowed) == l.mayBeAway(), nil
	})
	if err != nil {
		return fmt.Errorf("the PodDisruptionBudget counts %d healthy pods and allows %d evictions, want %d and %d: %w",
			healthy, allowed, l.replicas, l.mayBeAway(), err)
	}
	return nil
}

func workloadPods(ctx context.Context, reader client.Reader) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.InNamespace(workloadNamespace), client.MatchingLabels(workloadLabels)); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return pods.Items, nil
}

// bind puts a pod that has no node on one. Whether that worked is seen on the pod:
// until then it is tried again.
func bind(ctx context.Context, cs kubernetes.Interface, pod *corev1.Pod, node string) {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return
	}
	_ = cs.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// serves tells whether the pod is ready, and goes on being so.
func serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
