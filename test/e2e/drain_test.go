package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

// pods is a manifest of pods in the namespace default that run a script. Its
// directory /host is the host's.
type pods struct {
	kind, name, script string
	// spec has more fields of the kind's spec, podSpec of the pods'.
	spec, podSpec string
	// ready is what a shell says whether a pod is ready; empty if it always is.
	ready string
}

func (p pods) String() string {
	indented := strings.ReplaceAll(strings.TrimSpace(p.script), "\n", "\n          ")
	api := "apps/v1"
	if p.kind == "Job" {
		api = "batch/v1"
	}
	selector := "  selector: {matchLabels: {app: " + p.name + "}}\n"
	if p.kind == "Job" {
		selector = ""
	}
	return `apiVersion: ` + api + `
kind: ` + p.kind + `
metadata: {name: ` + p.name + `, namespace: default}
spec:
` + selector + p.spec + `  template:
    metadata: {labels: {app: ` + p.name + `}}
    spec:
      hostNetwork: true
` + p.podSpec + `      containers:
      - name: main
        image: ` + bed.images.workload.Name + `
        imagePullPolicy: Never
        command:
        - /bin/sh
        - -c
        - |
          ` + indented + `
        readinessProbe: {exec: {command: [/bin/sh, -c, "` + p.ready + `"]}, periodSeconds: 1}
        resources: {requests: {cpu: 10m, memory: 16Mi}}
        volumeMounts: [{name: host, mountPath: /host}]
      volumes: [{name: host, hostPath: {path: ` + hostRoot + `}}]
---
`
}

// onSecond lets pods run on the second node only.
const onSecond = "      nodeSelector: {kubernetes.io/hostname: " + second + "}\n"

// start makes pods, and takes them away with the test.
func (p pods) start(t *testing.T, more string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pods.yaml")
	if err := os.WriteFile(file, []byte(p.String()+more), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := operator.Kubectl(ctx, bed.cp, "delete", "-f", file, "--ignore-not-found", "--cascade=foreground", "--timeout=90s"); err != nil {
			t.Error(err)
		}
	})
	kubectl(t, "apply", "-f", file)
}

// podsOf are the pods of that name, on a node, as the API server has them.
func podsOf(ctx context.Context, name, node string) ([]corev1.Pod, error) {
	list, err := bed.admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.Spec.NodeName != node }), nil
}

// wantPod waits until one pod of that name is on a node and as told.
func wantPod(t *testing.T, name, node, what string, as func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, fmt.Sprintf("a pod of %s on %s is %s", name, node, what), func(ctx context.Context) error {
		list, err := podsOf(ctx, name, node)
		if err != nil {
			return err
		}
		for i := range list {
			if as(&list[i]) {
				pod = &list[i]
				return nil
			}
		}
		return fmt.Errorf("there are %d: %+v", len(list), list)
	})
	return pod
}

func isReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func isTerminating(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }

// wantWait waits until a node says that it waits for a reason, with these words.
func wantWait(t *testing.T, node, nw, reason string, parts ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s waits for %s", node, reason), func(ctx context.Context) error {
		_, r, err := record(ctx, node)
		if err != nil {
			return err
		}
		slot := r.Slots[nw]
		if slot.Reason != reason || slot.Since == "" {
			return fmt.Errorf("its slot is %+v", slot)
		}
		for _, part := range parts {
			if !strings.Contains(slot.Message, part) {
				return fmt.Errorf("it does not say %q: %s", part, slot.Message)
			}
		}
		return nil
	})
}

// A pod is gone when its last process has ended, not when it is told to go: the
// interrupt waits for that. DR-02. It does not wait for pods that stay on a node
// whatever happens, also where they happen to end at that time. DR-03.
func TestPodsThatEndLate_DR02_DR03(t *testing.T) {
	lease(t, second)
	fresh(t, second)
	touch(t, second, "run/leave", false)
	touch(t, second, "run/agent-may-go", false)
	static(t, second)
	pods{
		kind: "Deployment", name: "late", spec: "  replicas: 1\n", podSpec: onSecond + "      terminationGracePeriodSeconds: 100\n",
		script: `
trap 'until [ -e /host/run/leave ]; do sleep 0.2; done; echo "workload left" >>/host/var/lib/e2e/calls; exit 0' TERM
while :; do sleep 0.2; done`,
	}.start(t, "")
	pods{
		kind: "DaemonSet", name: "agent", podSpec: onSecond + "      terminationGracePeriodSeconds: 600\n",
		script: "trap : TERM\nuntil [ -e /host/run/agent-may-go ]; do sleep 0.2; done",
	}.start(t, "")
	t.Cleanup(func() { touch(t, second, "run/leave", true); touch(t, second, "run/agent-may-go", true) })
	wantPod(t, "late", second, "ready", isReady)
	agent := wantPod(t, "agent", second, "ready", isReady)
	if err := bed.admin.CoreV1().Pods("default").Delete(t.Context(), agent.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	install(t, "interrupting", interrupting(service))
	late := wantPod(t, "late", second, "terminating", isTerminating)
	wantWait(t, second, "interrupting", nodestate.SlotDraining, late.Name)
	touch(t, second, "run/leave", true)
	wantComplete(t, second, "interrupting", "alpha", "1.0.0", nodestate.StagePostInterrupt)
	wantFile(t, second, "var/lib/e2e/calls", "workload left\nsystemctl daemon-reload\nsystemctl restart e2e.service")
	wantPod(t, "agent", second, "still ending", func(p *corev1.Pod) bool { return p.UID == agent.UID && isTerminating(p) })
	wantPod(t, "static", second, "ready", isReady)
	wantOpen(t, second)
}

// static gives a node a pod that its kubelet has from a file.
func static(t *testing.T, node string) {
	t.Helper()
	const manifest = `apiVersion: v1
kind: Pod
metadata: {name: static, namespace: default, labels: {app: static}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "%s", imagePullPolicy: Never, command: [/bin/sh, -c, "while :; do sleep 1; done"]}]
`
	file := filepath.Join(bed.nodes[node].StaticPods(), "static.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, manifest, bed.images.workload.Name), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	})
	wantPod(t, "static", node, "ready", isReady)
}

// Pods that must not be interrupted are waited for, by name, and leave by
// themselves. DR-25.
func TestPodsThatMustNotBeInterrupted_DR25(t *testing.T) {
	lease(t, second)
	fresh(t, second)
	touch(t, second, "run/trained", false)
	t.Cleanup(func() { touch(t, second, "run/trained", true) })
	pods{
		kind: "Job", name: "training", spec: "  backoffLimit: 0\n", podSpec: onSecond + "      restartPolicy: Never\n",
		script: "until [ -e /host/run/trained ]; do sleep 0.2; done",
	}.start(t, "")
	pod := wantPod(t, "training", second, "ready", isReady)
	install(t, "interrupting", interrupting(service)+"  podNonInterruptLabels: {matchLabels: {app: training}}\n")
	wantWait(t, second, "interrupting", nodestate.SlotNonInterruptPods, pod.Name)
	wantNoFile(t, second, "var/lib/e2e/calls")
	touch(t, second, "run/trained", true)
	wantComplete(t, second, "interrupting", "alpha", "1.0.0", nodestate.StagePostInterrupt)
	wantPod(t, "training", second, "ended well", func(p *corev1.Pod) bool {
		return p.UID == pod.UID && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodSucceeded
	})
	wantOpen(t, second)
}

// A budget that pods keep which crash blocks the drain for as long as they do. The
// node says which pod and budget it is, and what would help. DR-26.
func TestPodsThatCrash_DR26(t *testing.T) {
	lease(t, second)
	fresh(t, second)
	for _, node := range []string{first, second} {
		touch(t, node, "run/sound", node == second)
	}
	const sound = "[ -e /host/run/sound ]"
	pods{
		// What crashes at once is ready for an instant if nobody asks it.
		kind: "Deployment", name: "crashing", spec: "  replicas: 2\n", ready: sound,
		script: sound + " || exit 1\ntrap 'exit 0' TERM\nwhile :; do sleep 0.2; done", podSpec: `      terminationGracePeriodSeconds: 1
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector: {matchLabels: {app: crashing}}
`,
	}.start(t, `apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: crashing, namespace: default}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: crashing}}
`)
	pod := wantPod(t, "crashing", second, "ready", isReady)
	wantPod(t, "crashing", first, "crashing", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].RestartCount > 0
	})
	install(t, "interrupting", interrupting(service))
	wantWait(t, second, "interrupting", nodestate.SlotDrainBlocked, pod.Name, "crashing", "unhealthyPodEvictionPolicy: AlwaysAllow")
	wantEvent(t, "interrupting", "DrainBlocked", second, pod.Name)
	wantNoFile(t, second, "var/lib/e2e/calls")
	touch(t, first, "run/sound", true)
	wantComplete(t, second, "interrupting", "alpha", "1.0.0", nodestate.StagePostInterrupt)
	wantOpen(t, second)
}
