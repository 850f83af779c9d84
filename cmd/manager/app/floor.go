package app

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
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
		return fmt.Errorf("the API server is %s, NodeWright needs Kubernetes %s or later: upgrade the control plane first",
			info.GitVersion, minimumVersion)
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
			return fmt.Errorf("the API server (%s) drops %s of Jobs, without which two executors could share a host: "+
				"NodeWright needs a server that keeps it, as Kubernetes does from %s on unless the feature is switched off",
				serverVersion, f.field, keptSince[f.field])
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
