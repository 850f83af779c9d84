package validation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const minPriority = 1

// Rules are what a NodeWright has to keep to besides its own form.
type Rules struct {
	// AllowedRegistries are prefixes of image repositories; empty: all.
	AllowedRegistries []string
}

// NodeWright checks a NodeWright and finds all that is wrong at once, sorted by
// field. It holds all rules, those of the schema too, so that it is enough for
// an object that never was at an API server.
func NodeWright(nw *v1alpha1.NodeWright, rules Rules) field.ErrorList {
	path, s := field.NewPath("spec"), &nw.Spec
	errs := selectors(path, s)
	errs = append(errs, budget(path, s)...)
	errs = append(errs, drain(path, s)...)
	errs = append(errs, attempts(path, s)...)
	for i := range s.AdditionalTolerations {
		errs = append(errs, toleration(path.Child("additionalTolerations").Index(i), &s.AdditionalTolerations[i])...)
	}
	if p := s.PriorityOrDefault(); p < minPriority {
		errs = append(errs, field.Invalid(path.Child("priority"), p, "must be at least 1; left out it is 200, and lower runs first"))
	}
	if m := s.SequencingOrDefault(); m != v1alpha1.SequencingNode && m != v1alpha1.SequencingAll {
		errs = append(errs, field.NotSupported(path.Child("sequencing"), m, []v1alpha1.SequencingMode{v1alpha1.SequencingAll, v1alpha1.SequencingNode}))
	}
	packages := path.Child("packages")
	if n := len(s.Packages); n > v1alpha1.MaxPackages {
		errs = append(errs, field.TooMany(packages, n, v1alpha1.MaxPackages))
	}
	for _, name := range s.PackageNames() {
		p := s.Packages[name]
		errs = append(errs, packageErrors(packages.Key(name), name, &p, rules)...)
	}
	errs = append(errs, dependencies(packages, s.Packages)...)
	sortErrors(errs)
	return errs
}

func selectors(path *field.Path, s *v1alpha1.NodeWrightSpec) field.ErrorList {
	errs := selector(path.Child("nodeSelectors"), &s.NodeSelectors)
	return append(errs, selector(path.Child("podNonInterruptLabels"), &s.PodNonInterruptLabels)...)
}

func selector(path *field.Path, s *metav1.LabelSelector) field.ErrorList {
	return validation.ValidateLabelSelector(s, validation.LabelSelectorValidationOptions{}, path)
}

func budget(path *field.Path, s *v1alpha1.NodeWrightSpec) field.ErrorList {
	b := s.InterruptionBudget
	if b == nil {
		return nil
	}
	path = path.Child("interruptionBudget")
	var errs field.ErrorList
	if b.Percent != nil {
		errs = append(errs, countOrPercent(path.Child("percent"), intstr.FromString(fmt.Sprintf("%d%%", *b.Percent)))...)
	}
	if b.Count != nil {
		errs = append(errs, countOrPercent(path.Child("count"), intstr.FromInt32(*b.Count))...)
	}
	if b.Percent != nil && b.Count != nil {
		errs = append(errs, field.Forbidden(path, "set percent or count, not both"))
	}
	if s.DeploymentPolicy != "" && (b.Percent != nil || b.Count != nil) {
		errs = append(errs, field.Forbidden(path, "cannot be used together with deploymentPolicy: the policy has budgets of its own, remove one of the two"))
	}
	return errs
}

func drain(path *field.Path, s *v1alpha1.NodeWrightSpec) field.ErrorList {
	var errs field.ErrorList
	if d := s.Drain; d != nil {
		at := path.Child("drain")
		errs = append(errs, upToMax(at.Child("timeout"), d.Timeout)...)
		if g := d.GracePeriodSeconds; g != nil && (*g < 0 || *g > MaxSeconds) {
			errs = append(errs, field.Invalid(at.Child("gracePeriodSeconds"), *g, fmt.Sprintf("must be 0 to %d; 0 kills pods at once", MaxSeconds)))
		}
	}
	if d := s.DrainConfig; d != nil {
		at := path.Child("drainConfig")
		errs = append(errs, upToMax(at.Child("timeout"), d.Timeout)...)
		errs = append(errs, upToMax(at.Child("gracePeriod"), d.GracePeriod)...)
		if s.Drain != nil {
			errs = append(errs, field.Forbidden(at, "drain and drainConfig are two names of the same settings: use drain only"))
		}
	}
	return errs
}

// attempts checks what bounds attempts and their Jobs.
func attempts(path *field.Path, s *v1alpha1.NodeWrightSpec) field.ErrorList {
	var errs field.ErrorList
	if s.StageTimeout != nil {
		errs = append(errs, StageTimeout(path.Child("stageTimeout"), s.StageTimeout.Duration)...)
	}
	if ttl := s.JobTTL; ttl != nil && ttl.Succeeded != nil {
		errs = append(errs, JobTTL(path.Child("jobTTL", "succeeded"), ttl.Succeeded.Duration)...)
	}
	if ttl := s.JobTTL; ttl != nil && ttl.Failed != nil {
		errs = append(errs, JobTTL(path.Child("jobTTL", "failed"), ttl.Failed.Duration)...)
	}
	if s.Retry != nil && s.Retry.Limit != nil {
		errs = append(errs, RetryLimit(path.Child("retry", "limit"), *s.Retry.Limit)...)
	}
	return errs
}

// upToMax checks a duration that may be 0.
func upToMax(path *field.Path, d *metav1.Duration) field.ErrorList {
	if d != nil && (d.Duration < 0 || d.Duration > MaxDuration) {
		return invalid(path, d.Duration, fmt.Sprintf("must be 0s to %ds", MaxSeconds))
	}
	return nil
}

// toleration checks by the rules that pods have to keep to: a Job with a wrong
// one could never be made.
func toleration(path *field.Path, t *corev1.Toleration) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, validation.ValidateLabelName(t.Key, path.Child("key"))...)
	} else if t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Invalid(path.Child("operator"), t.Operator, "must be Exists when key is empty, which tolerates all taints"))
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty when operator is Exists"))
		}
	case "", corev1.TolerationOpEqual:
		for _, problem := range utilvalidation.IsValidLabelValue(t.Value) {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, problem))
		}
	default:
		// Lt and Gt too: only API servers with TaintTolerationComparisonOperators
		// take pods with them, and the taints of nodes here are words.
		errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator, []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	switch t.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		errs = append(errs, field.NotSupported(path.Child("effect"), t.Effect,
			[]corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule}))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Invalid(path.Child("effect"), t.Effect, "must be NoExecute when tolerationSeconds is set"))
	}
	return errs
}
