package system

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// driver reboots its nodes; limits stands on it and takes no interrupt.
const lifeManifest = `
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: long
spec:
  packages:
    driver:
      version: 1.0.0
      image: nodewright.example/driver
      interrupt: {type: reboot}
      uninstall: {enabled: true, apply: %[1]t}
    agentd:
      version: 1.0.0
      image: nodewright.example/agentd
      interrupt: {type: service, services: [agentd.service]}
      configMap: {agentd.conf: "%[2]s", motd: "%[3]s"}
      configInterrupts: {"*.conf": {type: service, services: [agentd.service]}}
`

// TestLife leads nodes through interrupts, a drain that a budget blocks, changes of
// a configMap, an uninstall and the deletion.
func TestLife(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	b := startBed(ctx, t, managerConfiguration)
	b.createNodes(ctx, t, 2)
	c := newClient(t, b.cp.Config())
	boots := map[string]string{}
	for _, name := range b.nodes {
		boots[name] = b.node(ctx, t, name).Status.NodeInfo.BootID
	}
	b.serve(ctx, t, b.nodes[0], "web")
	b.guard(ctx, t, "web")
	b.start(t)
	b.apply(ctx, t, fmt.Sprintf(lifeManifest, false, "a", "hello"))

	// Without a budget nodes are interrupted one at a time, the first one waits.
	b.wantCondition(ctx, t, c, "long", v1alpha1.ConditionDrainBlocked, b.nodes[0], "web", "PodDisruptionBudget")
	if n := b.node(ctx, t, b.nodes[0]); !n.Spec.Unschedulable || n.Status.NodeInfo.BootID != boots[b.nodes[0]] {
		t.Error("a node that cannot be drained is not cordoned, or was rebooted")
	}
	if err := b.cs.PolicyV1().PodDisruptionBudgets("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range b.nodes {
		b.wantEntry(ctx, t, name, "driver", nodestate.StagePostInterrupt, nodestate.StateComplete)
		b.wantEntry(ctx, t, name, "agentd", nodestate.StagePostInterrupt, nodestate.StateComplete)
	}
	b.wantWord(ctx, t, c, nodestate.StatusComplete)
	if _, err := b.cs.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod that had to go is still there: %v", err)
	}
	for _, name := range b.nodes {
		if n := b.node(ctx, t, name); n.Spec.Unschedulable || n.Status.NodeInfo.BootID == boots[name] {
			t.Errorf("node %s: cordoned %t, boot %s after %s", name, n.Spec.Unschedulable, n.Status.NodeInfo.BootID, boots[name])
		}
		boots[name] = b.node(ctx, t, name).Status.NodeInfo.BootID
	}
	if got, want := b.stages(ctx, t, b.nodes[0]), []string{
		"agentd apply", "agentd config", "agentd post-interrupt",
		"driver apply", "driver config", "driver interrupt", "driver post-interrupt",
	}; !slices.Equal(got, want) {
		t.Errorf("stages that ran: %q, want %q: both packages share the reboot", got, want)
	}

	b.changeConfig(ctx, t, c, boots)
	b.takeOff(ctx, t, c, boots)
}

// changeConfig: a key that no configInterrupts means is only configured, another
// one restarts the service, and none reboots.
func (b *bed) changeConfig(ctx context.Context, t *testing.T, c client.Client, boots map[string]string) {
	t.Helper()
	for _, step := range []struct {
		conf, motd string
		stages     []string
	}{
		{"a", "good day", []string{"agentd config"}},
		{"b", "good day", []string{"agentd config", "agentd interrupt", "agentd post-interrupt"}},
	} {
		before := b.stages(ctx, t, b.nodes[0])
		b.apply(ctx, t, fmt.Sprintf(lifeManifest, false, step.conf, step.motd))
		b.wantReady(ctx, t, c)
		got := b.stages(ctx, t, b.nodes[0])
		for _, s := range before {
			if i := slices.Index(got, s); i >= 0 {
				got = slices.Delete(got, i, i+1)
			}
		}
		if !slices.Equal(got, step.stages) {
			t.Errorf("after another configMap %+v: stages %q, want %q", step, got, step.stages)
		}
		if n := b.node(ctx, t, b.nodes[0]); n.Spec.Unschedulable || n.Status.NodeInfo.BootID != boots[n.Name] {
			t.Error("a change of the configMap rebooted the node, or left it cordoned")
		}
	}
}

// takeOff uninstalls by request and by deletion; what is left is nothing.
func (b *bed) takeOff(ctx context.Context, t *testing.T, c client.Client, boots map[string]string) {
	t.Helper()
	b.apply(ctx, t, fmt.Sprintf(lifeManifest, true, "b", "good day"))
	b.wantReady(ctx, t, c)
	for _, name := range b.nodes {
		n := b.node(ctx, t, name)
		rec := nodestate.Decode(n.Annotations, nil)
		if _, there := rec.Packages[nodestate.PackageRef{NodeWright: "long", Package: "driver"}]; there || n.Spec.Unschedulable || n.Status.NodeInfo.BootID == boots[name] {
			t.Errorf("node %s after the uninstall: recorded %t, cordoned %t, boot %s after %s", name, there, n.Spec.Unschedulable,
				n.Status.NodeInfo.BootID, boots[name])
		}
	}
	if got := b.stages(ctx, t, b.nodes[1]); !slices.Contains(got, "driver uninstall") || !slices.Contains(got, "driver uninstall-interrupt") {
		t.Errorf("stages that ran: %q", got)
	}
	// Back again, then off with the NodeWright.
	b.apply(ctx, t, fmt.Sprintf(lifeManifest, false, "b", "good day"))
	b.wantReady(ctx, t, c)
	if _, err := b.op.Kubectl(ctx, "delete", "nodewright", "long", "--wait=false"); err != nil {
		t.Fatal(err)
	}
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKey{Name: "long"}, &v1alpha1.NodeWright{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "the NodeWright is still there", err
	})
	for _, name := range b.nodes {
		n := b.node(ctx, t, name)
		for key := range n.Annotations {
			if strings.HasPrefix(key, nodestate.Prefix) && strings.Contains(key, "long") {
				t.Errorf("node %s: %s is left", name, key)
			}
		}
		if n.Spec.Unschedulable {
			t.Errorf("node %s is left cordoned", name)
		}
		uninstalls := 0
		for _, s := range b.stages(ctx, t, name) {
			if s == "driver uninstall" {
				uninstalls++
			}
		}
		if uninstalls != 2 {
			t.Errorf("node %s: driver was uninstalled %d times, want 2", name, uninstalls)
		}
	}
}

// serve runs a pod on the node until it is evicted.
func (b *bed) serve(ctx context.Context, t *testing.T, node, name string) {
	t.Helper()
	_, err := b.cs.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{Name: "serve", Image: "nodewright.example/serve"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		pod, err := b.cs.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("pod %s does not run", name), err
		}
		return "", nil
	})
}

// guard lets none of the pods go.
func (b *bed) guard(ctx context.Context, t *testing.T, app string) {
	t.Helper()
	all := metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	one := intstr.FromInt32(1)
	_, err := b.cs.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &all},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// stages are those of all Jobs on the node, with their packages, sorted.
func (b *bed) stages(ctx context.Context, t *testing.T, node string) []string {
	t.Helper()
	var out []string
	for _, job := range b.jobs(ctx, t) {
		if id, err := packagejob.Parse(&job); err == nil && id.Node == node {
			out = append(out, id.Package+" "+string(id.Stage))
		}
	}
	slices.Sort(out)
	return out
}

func (b *bed) wantEntry(ctx context.Context, t *testing.T, node, pkg string, stage nodestate.Stage, state nodestate.State) {
	t.Helper()
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		rec, err := b.record(ctx, node)
		if err != nil {
			return "", err
		}
		e := rec.Packages[nodestate.PackageRef{NodeWright: "long", Package: pkg}]
		if e.Stage != stage || e.State != state {
			return fmt.Sprintf("node %s: %s is at %s (%s %s), slot %+v", node, pkg, place(&e), e.Reason, e.Message, rec.Slots["long"]), nil
		}
		return "", nil
	})
}

// wantReady waits until the NodeWright is complete for its spec of now.
func (b *bed) wantReady(ctx context.Context, t *testing.T, c client.Client) {
	t.Helper()
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		var nw v1alpha1.NodeWright
		if err := c.Get(ctx, client.ObjectKey{Name: "long"}, &nw); err != nil {
			return "", err
		}
		for _, cond := range nw.Status.Conditions {
			if cond.Type == v1alpha1.ConditionReady && cond.Status == metav1.ConditionTrue && cond.ObservedGeneration == nw.Generation {
				return "", nil
			}
		}
		return fmt.Sprintf("not ready: %s %+v", nw.Status.Status, nw.Status.Conditions), nil
	})
}
