package validation

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const (
	// The status has room for one more, the default one.
	maxCompartments    = v1alpha1.MaxCompartments - 1
	maxCompartmentName = 253
	maxNamedUsers      = 10
	// maxCount is the most of what is counted here, the largest number of the
	// schema.
	maxCount = math.MaxInt32
)

// DeploymentPolicy checks a policy and finds all that is wrong at once, sorted
// by field. It holds all rules, those of the schema too.
func DeploymentPolicy(policy *v1alpha1.DeploymentPolicy) field.ErrorList {
	path, s := field.NewPath("spec"), &policy.Spec
	errs := deploymentBudget(path.Child("default", "budget"), &s.Default.Budget)
	if at := path.Child("default", "strategy"); s.Default.Strategy == nil {
		errs = append(errs, field.Required(at, "one of fixed, linear and exponential"))
	} else {
		errs = append(errs, strategy(at, s.Default.Strategy)...)
	}
	compartments := path.Child("compartments")
	if n := len(s.Compartments); n > maxCompartments {
		errs = append(errs, field.TooMany(compartments, n, maxCompartments))
	}
	seen := map[string]bool{}
	for i := range s.Compartments {
		c, at := &s.Compartments[i], compartments.Index(i)
		errs = append(errs, compartmentName(at.Child("name"), c.Name, seen)...)
		errs = append(errs, selector(at.Child("selector"), &c.Selector)...)
		errs = append(errs, deploymentBudget(at.Child("budget"), &c.Budget)...)
		if c.Strategy != nil {
			errs = append(errs, strategy(at.Child("strategy"), c.Strategy)...)
		}
	}
	sortErrors(errs)
	return errs
}

func compartmentName(path *field.Path, name string, seen map[string]bool) field.ErrorList {
	defer func() { seen[name] = true }()
	switch {
	case name == "":
		return field.ErrorList{field.Required(path, "a name to speak of the compartment")}
	case len(name) > maxCompartmentName:
		return field.ErrorList{field.TooLong(path, "", maxCompartmentName)}
	case name == v1alpha1.DefaultCompartment:
		return field.ErrorList{field.Invalid(path, name, "is reserved for the nodes that no compartment selects")}
	case seen[name]:
		return field.ErrorList{field.Duplicate(path, name)}
	}
	return nil
}

func deploymentBudget(path *field.Path, b *v1alpha1.DeploymentBudget) field.ErrorList {
	var errs field.ErrorList
	if (b.Percent == nil) == (b.Count == nil) {
		errs = append(errs, field.Forbidden(path, "set exactly one of percent and count"))
	}
	errs = append(errs, inRange(path.Child("percent"), b.Percent, 1, 100)...)
	return append(errs, inRange(path.Child("count"), b.Count, 1, maxCount)...)
}

// strategy checks that exactly one is set, and its parameters: 0 is never taken
// for left out.
func strategy(path *field.Path, s *v1alpha1.DeploymentStrategy) field.ErrorList {
	var errs field.ErrorList
	set := 0
	if f := s.Fixed; f != nil {
		set++
		errs = append(errs, batches(path.Child("fixed"), f.InitialBatch, f.BatchThreshold, f.FailureThreshold, f.SafetyLimit)...)
	}
	if l := s.Linear; l != nil {
		set++
		at := path.Child("linear")
		errs = append(errs, batches(at, l.InitialBatch, l.BatchThreshold, l.FailureThreshold, l.SafetyLimit)...)
		errs = append(errs, inRange(at.Child("delta"), l.Delta, 1, maxCount)...)
	}
	if e := s.Exponential; e != nil {
		set++
		at := path.Child("exponential")
		errs = append(errs, batches(at, e.InitialBatch, e.BatchThreshold, e.FailureThreshold, e.SafetyLimit)...)
		errs = append(errs, inRange(at.Child("growthFactor"), e.GrowthFactor, 2, maxCount)...)
	}
	if set != 1 {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("set exactly one of fixed, linear and exponential; %d are set", set)))
	}
	return errs
}

func batches(path *field.Path, initial, threshold, failures, safety *int32) field.ErrorList {
	errs := inRange(path.Child("initialBatch"), initial, 1, maxCount)
	errs = append(errs, inRange(path.Child("batchThreshold"), threshold, 1, 100)...)
	errs = append(errs, inRange(path.Child("failureThreshold"), failures, 1, maxCount)...)
	return append(errs, inRange(path.Child("safetyLimit"), safety, 1, 100)...)
}

func inRange(path *field.Path, v *int32, least, most int32) field.ErrorList {
	if v == nil || *v >= least && *v <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *v, fmt.Sprintf("must be %d to %d; leave it out for the default", least, most))}
}

// DeploymentPolicyDelete refuses to delete a policy that NodeWrights name: their
// rollouts would stop. users are the names of these.
func DeploymentPolicyDelete(name string, users []string) field.ErrorList {
	if len(users) == 0 {
		return nil
	}
	users = slices.Sorted(slices.Values(users))
	named, more := users, ""
	if len(users) > maxNamedUsers {
		named, more = users[:maxNamedUsers], fmt.Sprintf(" and %d more", len(users)-maxNamedUsers)
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "name"), fmt.Sprintf(
		"DeploymentPolicy %s is named in spec.deploymentPolicy of NodeWright %s%s, whose rollout would stop: name another policy there first",
		name, strings.Join(named, ", "), more))}
}
