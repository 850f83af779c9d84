package validation

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// podGracePeriod is what pods get that do not say otherwise.
const podGracePeriod = 30 * time.Second

// NodeWrightWarnings says what is legal in a NodeWright and may not be meant, in
// a fixed order. Clients cut a warning at 256 bytes: the point comes first.
func NodeWrightWarnings(nw *v1alpha1.NodeWright) []string {
	s := &nw.Spec
	var out []string
	if len(s.NodeSelectors.MatchLabels)+len(s.NodeSelectors.MatchExpressions) == 0 {
		out = append(out, "spec.nodeSelectors is empty: packages go to every node of the cluster, its control plane included")
	}
	out = append(out, budgetWarnings(s)...)
	if s.DeploymentPolicy == "" && s.DeploymentPolicyOptions != nil {
		out = append(out, "spec.deploymentPolicyOptions means nothing without deploymentPolicy")
	}
	if s.AutoTaintNewNodes && !s.RuntimeRequired {
		out = append(out, "spec.autoTaintNewNodes means nothing without runtimeRequired: true")
	}
	if d := s.DrainSettings(); d.Timeout > 0 {
		grace, whose := podGracePeriod, "what pods get that set no terminationGracePeriodSeconds"
		if d.GracePeriodSeconds != nil {
			grace, whose = time.Duration(*d.GracePeriodSeconds)*time.Second, "the grace period set here"
		}
		if d.Timeout <= grace {
			out = append(out, fmt.Sprintf("the drain's timeout, %s, is not above %s, %s: a drain can time out before a pod that uses its time is gone", d.Timeout, grace, whose))
		}
	}
	for _, name := range s.PackageNames() {
		p := s.Packages[name]
		out = append(out, packageWarnings("spec.packages["+name+"]", &p)...)
		if p.Uninstalls() {
			out = append(out, dependentWarnings(s, name)...)
		}
	}
	return out
}

// dependentWarnings is for a package that is to be taken off nodes, on which
// packages depend that stay.
func dependentWarnings(s *v1alpha1.NodeWrightSpec, name string) []string {
	var stay []string
	for _, other := range s.PackageNames() {
		p := s.Packages[other]
		if _, depends := p.DependsOn[name]; depends && other != name && !p.Uninstalls() {
			stay = append(stay, other)
		}
	}
	if len(stay) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("spec.packages[%s] is uninstalled although others depend on it: they stay on nodes without it, and start there no more: %s",
		name, strings.Join(stay, ", "))}
}

// budgetWarnings are about how many nodes are interrupted at once.
func budgetWarnings(s *v1alpha1.NodeWrightSpec) []string {
	b := s.InterruptionBudget
	limited := b != nil && (b.Percent != nil || b.Count != nil)
	if limited && (b.Percent != nil && *b.Percent == 0 || b.Count != nil && *b.Count == 0) {
		return []string{"spec.interruptionBudget is 0: no node is ever interrupted, so packages with interrupts never start"}
	}
	if limited || s.DeploymentPolicy != "" {
		return nil
	}
	for _, name := range s.PackageNames() {
		if p := s.Packages[name]; p.Interrupts() {
			return []string{fmt.Sprintf("spec.packages[%s] interrupts nodes, and there is neither interruptionBudget nor deploymentPolicy: one node at a time is worked on", name)}
		}
	}
	return nil
}

func packageWarnings(at string, p *v1alpha1.Package) []string {
	var out []string
	if p.Interrupt != nil {
		out = append(out, interruptWarnings(at+".interrupt", p.Interrupt)...)
	}
	if p.AgentImageOverride != "" {
		if _, tag, digest := SplitImage(p.AgentImageOverride); tag == "" && digest == "" {
			out = append(out, at+".agentImageOverride has neither tag nor digest: what runs as root on nodes is whatever latest is")
		}
	}
	return out
}

func interruptWarnings(at string, i *v1alpha1.Interrupt) []string {
	switch isService := i.Type == v1alpha1.InterruptService; {
	case isService && len(i.Services) == 0:
		return []string{at + " is of type service and names no services: nothing is restarted"}
	case !isService && len(i.Services) > 0:
		return []string{fmt.Sprintf("%s.services (%s) means nothing with type %s", at, strings.Join(i.Services, ", "), i.Type)}
	}
	return nil
}
