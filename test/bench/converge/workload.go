package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const workloadNamespace = metav1.NamespaceDefault

// startWorkload puts one pod on each node, which a drain has to evict, and waits
// until all run.
func startWorkload(ctx context.Context, config *rest.Config, nodes []string) error {
	config = rest.CopyConfig(config)
	config.QPS = -1
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("start workload: %w", err)
	}
	owner, err := workloadOwner(ctx, cs)
	if err != nil {
		return fmt.Errorf("start workload: %w", err)
	}
	for _, node := range nodes {
		_, err := cs.CoreV1().Pods(workloadNamespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "serve-", OwnerReferences: []metav1.OwnerReference{*owner}},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "serve", Image: "nodewright.example/serve"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("start workload: %w", err)
		}
	}
	limit := time.Minute + time.Duration(len(nodes))*100*time.Millisecond
	err = wait.PollUntilContextTimeout(ctx, time.Second, limit, true, func(ctx context.Context) (bool, error) {
		pods, err := cs.CoreV1().Pods(workloadNamespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Running", Limit: 1})
		return err == nil && len(pods.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("start workload: wait until %d pods run: %w", len(nodes), err)
	}
	return nil
}

// workloadOwner is what the pods belong to: a drain refuses pods that nobody would
// bring back. No controller brings these back, which would be work that the bare
// client does not cause.
func workloadOwner(ctx context.Context, cs kubernetes.Interface) (*metav1.OwnerReference, error) {
	maps := cs.CoreV1().ConfigMaps(workloadNamespace)
	owner, err := maps.Get(ctx, "workload", metav1.GetOptions{})
	if err != nil {
		var errCreate error
		owner, errCreate = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "workload"}}, metav1.CreateOptions{})
		if errCreate != nil {
			return nil, errors.Join(err, errCreate)
		}
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}, nil
}
