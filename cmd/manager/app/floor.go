package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// minimumVersion is the oldest Kubernetes that works: match conditions of
// admission webhooks are stable from there on.
var minimumVersion = version.MustParseGeneric("1.30.0")

// keptSince says since when an API server keeps a field of Jobs by default.
var keptSince = map[string]string{
	"spec.podFailurePolicy":     "1.26",
	"spec.podReplacementPolicy": "1.29",
}

// errBelowFloor says that the API server cannot do what is needed: to ask again
// does not help.
var errBelowFloor = errors.New("the API server cannot run NodeWright")

// floorRetry is the pause after a question that the API server did not answer.
const floorRetry = time.Second

// waitForFloor is checkFloor with patience: an API server that starts, or is
// away for a moment, is no reason to end. It returns the last error when ctx
// ends.
func waitForFloor(ctx context.Context, cs kubernetes.Interface, namespace string) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, floorRetry, true, func(ctx context.Context) (bool, error) {
		if last = checkFloor(ctx, cs, namespace); errors.Is(last, errBelowFloor) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// checkFloor refuses an API server that cannot do what the operator relies on.
// An API server drops fields that it does not know without a word, so a Job is
// created there as a trial (nothing is stored) and looked at.
func checkFloor(ctx context.Context, cs kubernetes.Interface, namespace string) error {
	info, err := cs.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	have, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	if have.LessThan(minimumVersion) {
		return fmt.Errorf("%w: it is %s, Kubernetes %s or later is needed: upgrade the control plane first",
			errBelowFloor, info.GitVersion, minimumVersion)
	}
	answer, err := cs.BatchV1().Jobs(namespace).Create(ctx, trialJob(namespace), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("create a Job on trial in namespace %s: %w", namespace, err)
	}
	return fieldsKept(&answer.Spec, info.GitVersion)
}

func fieldsKept(spec *batchv1.JobSpec, serverVersion string) error {
	for _, f := range []struct {
		field string
		kept  bool
	}{
		{"spec.podFailurePolicy", spec.PodFailurePolicy != nil && len(spec.PodFailurePolicy.Rules) > 0},
		{"spec.podReplacementPolicy", spec.PodReplacementPolicy != nil && *spec.PodReplacementPolicy == batchv1.Failed},
	} {
		if !f.kept {
			return fmt.Errorf("%w: it (%s) drops %s of Jobs, without which two executors could share a host: "+
				"Kubernetes keeps it from %s on unless the feature is switched off",
				errBelowFloor, serverVersion, f.field, keptSince[f.field])
		}
	}
	return nil
}

func trialJob(namespace string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "nodewright-trial-", Namespace: namespace},
		Spec: batchv1.JobSpec{
			BackoffLimit:         ptr.To[int32](0),
			Suspend:              ptr.To(true),
			PodReplacementPolicy: ptr.To(batchv1.Failed),
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			}}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "trial", Image: "trial"}},
			}},
		},
	}
}
