package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// workload are two pods, of which one has to be there. They run on the machine's
// network as all pods here do.
func workload() string {
	return `apiVersion: apps/v1
kind: Deployment
metadata:
  name: workload
  namespace: default
spec:
  replicas: 2
  selector: {matchLabels: {app: workload}}
  template:
    metadata: {labels: {app: workload}}
    spec:
      hostNetwork: true
      terminationGracePeriodSeconds: 1
      containers:
      - name: sleep
        image: ` + bed.images.workload.Name + `
        imagePullPolicy: Never
        command: [/bin/sh, -c, "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"]
        resources: {requests: {cpu: 10m, memory: 16Mi}}
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            preference:
              matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [` + second + `]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: workload
  namespace: default
spec:
  minAvailable: 1
  selector: {matchLabels: {app: workload}}
`
}

// serve starts the workload on the second node, and takes it away with the test.
func serve(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		api := bed.admin
		for _, err := range []error{
			api.AppsV1().Deployments("default").Delete(ctx, "workload", metav1.DeleteOptions{}),
			api.PolicyV1().PodDisruptionBudgets("default").Delete(ctx, "workload", metav1.DeleteOptions{}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	apply(t, workload())
	eventually(t, "the workload is on "+second, func(ctx context.Context) error {
		where, err := served(ctx)
		if err == nil && !slices.Equal(where, []string{second, second}) {
			err = fmt.Errorf("it is on %q", where)
		}
		return err
	})
}

// served are the nodes that ready pods of the workload run on.
func served(ctx context.Context) ([]string, error) {
	list, err := bed.admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=workload"})
	if err != nil {
		return nil, err
	}
	var where []string
	for i := range list.Items {
		p := &list.Items[i]
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				where = append(where, p.Spec.NodeName)
			}
		}
	}
	slices.Sort(where)
	return where, nil
}

// service is an interrupt.
const service = "{type: service, services: [e2e.service]}"

// interrupting is the manifest of a NodeWright that interrupts the second node.
func interrupting(interrupt string) string {
	return `apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: interrupting
spec:
  nodeSelectors: {matchLabels: {kubernetes.io/hostname: ` + second + `}}
  interruptionBudget: {count: 1}
  packages:
    alpha:
      version: 1.0.0
      image: registry.invalid/e2e/alpha
      interrupt: ` + interrupt + `
`
}

// An interrupt of type service: the workload leaves under its budget, systemctl
// is called on the host, and the node takes pods again.
func TestServiceInterrupt(t *testing.T) {
	lease(t, second)
	fresh(t, second)
	serve(t)
	install(t, "interrupting", interrupting(service))
	wantComplete(t, second, "interrupting", "alpha", "1.0.0", nodestate.StagePostInterrupt)
	wantReady(t, "interrupting")
	wantFile(t, second, "var/lib/e2e/calls", "systemctl daemon-reload\nsystemctl restart e2e.service")
	wantDrained(t)
	wantOpen(t, second)
}

// A reboot: the machine goes down once, comes up under another boot ID, and only
// that counts. What an uninstall said can be read when its record is gone (JB-18).
func TestReboot(t *testing.T) {
	lease(t, second)
	fresh(t, second)
	serve(t)
	before, err := bed.admin.CoreV1().Nodes().Get(t.Context(), second, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	boots := bed.machines[second].rebooted()
	install(t, "interrupting", interrupting("{type: reboot}")+"      uninstall: {enabled: true}\n")
	wantComplete(t, second, "interrupting", "alpha", "1.0.0", nodestate.StagePostInterrupt)
	wantReady(t, "interrupting")
	after, err := bed.admin.CoreV1().Nodes().Get(t.Context(), second, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.Status.NodeInfo.BootID == before.Status.NodeInfo.BootID {
		t.Errorf("the boot ID is still %s", after.Status.NodeInfo.BootID)
	}
	if got := bed.machines[second].rebooted() - boots; got != 1 {
		t.Errorf("the machine was rebooted %d times", got)
	}
	calls, err := file(second, "var/lib/e2e/calls")
	if err != nil || strings.TrimSpace(calls) != "reboot" {
		t.Errorf("called on the host: %q (%v)", calls, err)
	}
	wantDrained(t)
	wantOpen(t, second)

	// Uninstalling interrupts as well.
	forget(t, second)
	kubectl(t, "patch", "nodewright", "interrupting", "--type=merge", "-p", `{"spec":{"packages":{"alpha":{"uninstall":{"apply":true}}}}}`)
	eventually(t, "the record of the package is gone", func(ctx context.Context) error {
		_, r, err := record(ctx, second)
		if err == nil && len(r.Packages) > 0 {
			err = fmt.Errorf("there is %+v", r.Packages)
		}
		return err
	})
	wantNoFile(t, second, "etc/e2e/alpha")
	if lines := journal(t, second, "alpha"); len(lines) == 0 || lines[0] != "1.0.0 uninstall begin" {
		t.Errorf("the uninstall ran %q", lines)
	}
	if got := bed.machines[second].rebooted() - boots; got != 2 {
		t.Errorf("with the uninstall the machine was rebooted %d times", got)
	}
	wantLog(t, "interrupting", "alpha-uninstall", "uninstall of alpha 1.0.0")
	wantOpen(t, second)
}

// wantDrained: pods of the workload were evicted from the second node, and two
// serve again.
func wantDrained(t *testing.T) {
	t.Helper()
	eventually(t, "the workload serves", func(ctx context.Context) error {
		where, err := served(ctx)
		if err == nil && len(where) != 2 {
			err = fmt.Errorf("it is on %q", where)
		}
		return err
	})
	list, err := bed.admin.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Kind == "Pod" && strings.HasPrefix(e.Regarding.Name, "workload-") && e.Reason == "Killing" {
			return
		}
	}
	t.Error("no pod of the workload was ended")
}

// wantOpen: the node takes pods.
func wantOpen(t *testing.T, name string) {
	t.Helper()
	eventually(t, name+" takes pods", func(ctx context.Context) error {
		node, err := bed.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && node.Spec.Unschedulable {
			err = fmt.Errorf("it is cordoned")
		}
		return err
	})
}
