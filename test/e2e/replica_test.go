package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
	"github.com/nodewright/nodewright/cmd/manager/app"
)

// The operator does not drain the node of its last replica. Once another one is
// ready elsewhere it does, moves by that to the other node, and ends there what it
// began: both replicas have one network here, so another pod with the labels of a
// replica stands for the second one.
func TestLastReplica(t *testing.T) {
	fresh(t, first, second)
	t.Cleanup(func() { home(t) })
	install(t, "interrupting", strings.ReplaceAll(interrupting(service), second, first))
	wantWait(t, first, "interrupting", nodestate.SlotLastReplica, "last ready replica")
	wantNoFile(t, first, "var/lib/e2e/calls")
	before, err := manager(t.Context())
	if err != nil || before.Spec.NodeName != first || before.DeletionTimestamp != nil {
		t.Fatalf("the manager is %+v (%v)", before, err)
	}

	replica(t)
	wantComplete(t, first, "interrupting", "alpha", "1.0.0", nodestate.StagePostInterrupt)
	wantFile(t, first, "var/lib/e2e/calls", "systemctl daemon-reload\nsystemctl restart e2e.service")
	eventually(t, "the manager runs on "+second, func(ctx context.Context) error {
		now, err := manager(ctx)
		if err == nil && now.Spec.NodeName != second {
			err = fmt.Errorf("it is on %s", now.Spec.NodeName)
		}
		return err
	})
	wantOpen(t, first)
}

// replica makes a ready pod on the second node that looks like a replica.
func replica(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "replica", Namespace: namespace, Labels: app.ReplicaLabels()},
		Spec: corev1.PodSpec{
			NodeName: second, HostNetwork: true,
			Containers: []corev1.Container{{
				Name: "main", Image: bed.images.workload.Name, ImagePullPolicy: corev1.PullNever,
				Command: []string{"/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"},
			}},
		},
	}
	if _, err := bed.admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := bed.admin.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// manager is the one pod of the Deployment that is ready.
func manager(ctx context.Context) (*corev1.Pod, error) {
	list, err := bed.admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: app.ReplicaLabels()}) + ",pod-template-hash",
	})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if isReady(&list.Items[i]) {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("none of %d pods of the manager is ready", len(list.Items))
}

// home brings the manager back to the first node.
func home(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := operator.Kubectl(ctx, bed.cp, "cordon", second); err != nil {
		t.Error(err)
		return
	}
	defer func() {
		if _, err := operator.Kubectl(ctx, bed.cp, "uncordon", second); err != nil {
			t.Error(err)
		}
	}()
	err := bed.await(ctx, patience, "the manager is on "+first, func(ctx context.Context) error {
		pod, err := manager(ctx)
		if err != nil || pod.Spec.NodeName == first {
			return err
		}
		return errors.Join(fmt.Errorf("it is on %s", pod.Spec.NodeName),
			bed.admin.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}))
	})
	if err != nil {
		t.Error(err)
	}
}
