package support

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
)

// Gap is a field of a NodeWright that asks for a feature which this version
// does not have.
type Gap struct {
	// Field as a path in the manifest, like spec.packages[driver].interrupt.
	Field string
	// Feature in plain words, in the plural.
	Feature string
}

// featurePolicies is a feature that is not built, in the plural.
const featurePolicies = "deployment policies"

// Gaps lists the fields of the NodeWright that ask for what this version does
// not have, sorted by path.
func Gaps(nw *v1alpha1.NodeWright) []Gap {
	if nw.Spec.DeploymentPolicy == "" {
		return nil
	}
	return []Gap{{Field: "spec.deploymentPolicy", Feature: featurePolicies}}
}

// Held says in a sentence why the NodeWright is held and what to do about it;
// it is empty for one that this version carries out.
func Held(nw *v1alpha1.NodeWright) string {
	var named []string
	for _, g := range Gaps(nw) {
		named = append(named, fmt.Sprintf("%s (%s)", g.Field, g.Feature))
	}
	if len(named) == 0 {
		return ""
	}
	return fmt.Sprintf("this version of the operator does not support %s: no stage is started until the spec is without",
		strings.Join(named, ", "))
}

// Obstacle says why nothing of the NodeWright can start on any node, and what
// to do about it: what Held says, else a dependency that can never be met. It is
// empty for a NodeWright that can be carried out.
func Obstacle(nw *v1alpha1.NodeWright) string {
	return cmp.Or(Held(nw), validation.DependencyProblem(nw.Spec.Packages))
}
