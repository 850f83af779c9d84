package support

import (
	"cmp"
	"fmt"
	"slices"
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

// The features that are not built, in the plural.
const (
	featurePolicies   = "deployment policies"
	featureInterrupts = "interrupts"
	featureUninstall  = "uninstalls"
	featureSequencing = "waits for other nodes"
)

// maxNamed is how many gaps a sentence names.
const maxNamed = 3

// Gaps lists the fields of the NodeWright that ask for what this version does
// not have, sorted by path. Settings of such a feature that do nothing alone,
// as drain without an interrupt, are not among them.
func Gaps(nw *v1alpha1.NodeWright) []Gap {
	var gaps []Gap
	add := func(missing bool, feature, format string, args ...any) {
		if missing {
			gaps = append(gaps, Gap{Field: fmt.Sprintf(format, args...), Feature: feature})
		}
	}
	s := &nw.Spec
	add(s.DeploymentPolicy != "", featurePolicies, "spec.deploymentPolicy")
	add(s.SequencingOrDefault() == v1alpha1.SequencingAll, featureSequencing, "spec.sequencing")
	for name, p := range s.Packages {
		add(p.Interrupt != nil, featureInterrupts, "spec.packages[%s].interrupt", name)
		add(len(p.ConfigInterrupts) > 0, featureInterrupts, "spec.packages[%s].configInterrupts", name)
		add(p.Uninstall != nil && p.Uninstall.Enabled, featureUninstall, "spec.packages[%s].uninstall.enabled", name)
		add(p.Uninstall != nil && p.Uninstall.Apply, featureUninstall, "spec.packages[%s].uninstall.apply", name)
	}
	slices.SortFunc(gaps, func(a, b Gap) int { return cmp.Compare(a.Field, b.Field) })
	return gaps
}

// Held says in a sentence why the NodeWright is held and what to do about it;
// it is empty for one that this version carries out. It names at most 3 fields,
// so that it fits in a message of a condition.
func Held(nw *v1alpha1.NodeWright) string {
	gaps := Gaps(nw)
	if len(gaps) == 0 {
		return ""
	}
	var named []string
	for _, g := range gaps[:min(len(gaps), maxNamed)] {
		named = append(named, fmt.Sprintf("%s (%s)", g.Field, g.Feature))
	}
	more := ""
	if n := len(gaps) - maxNamed; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("this version of the operator does not support %s%s: no stage is started until the spec is without",
		strings.Join(named, ", "), more)
}

// Obstacle says why nothing of the NodeWright can start on any node, and what
// to do about it: what Held says, else a dependency that can never be met. It is
// empty for a NodeWright that can be carried out.
func Obstacle(nw *v1alpha1.NodeWright) string {
	return cmp.Or(Held(nw), validation.DependencyProblem(nw.Spec.Packages))
}
