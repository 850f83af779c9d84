package validation

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func TestNodeWrightWarnings(t *testing.T) {
	reboot := pkg(func(p *v1alpha1.Package) { p.Interrupt = &v1alpha1.Interrupt{Type: v1alpha1.InterruptReboot} })
	limit := func(count int32) func(*v1alpha1.NodeWright) {
		return spec(func(s *v1alpha1.NodeWrightSpec) { s.InterruptionBudget = &v1alpha1.InterruptionBudget{Count: &count} })
	}
	drainFor := func(timeout time.Duration, grace *int64) func(*v1alpha1.NodeWright) {
		return spec(func(s *v1alpha1.NodeWrightSpec) {
			s.Drain = &v1alpha1.Drain{Timeout: duration(timeout), GracePeriodSeconds: grace}
		})
	}
	off := &v1alpha1.Uninstall{Enabled: true, Apply: true}
	uninstalled := pkg(func(p *v1alpha1.Package) { p.Uninstall = off })
	// leaf depends on the package, and is taken off with it or not.
	leaf := func(goes bool) func(*v1alpha1.NodeWright) {
		return spec(func(s *v1alpha1.NodeWrightSpec) {
			p := v1alpha1.Package{Version: "1.0.0", Image: "registry.example/leaf", DependsOn: map[string]string{"driver": "1.2.3"}}
			if goes {
				p.Uninstall = off
			}
			s.Packages["leaf"] = p
		})
	}
	type edits = []func(*v1alpha1.NodeWright)
	tests := map[string]struct {
		edits edits
		want  string
	}{
		"sound":              {nil, ""},
		"CV-06 all nodes":    {edits{spec(func(s *v1alpha1.NodeWrightSpec) { s.NodeSelectors = metav1.LabelSelector{} })}, "every node"},
		"RO-02 no budget":    {edits{reboot}, "one node at a time"},
		"RO-02 budget":       {edits{reboot, limit(1)}, ""},
		"RO-02 empty budget": {edits{reboot, spec(func(s *v1alpha1.NodeWrightSpec) { s.InterruptionBudget = &v1alpha1.InterruptionBudget{} })}, "one node at a time"},
		"RO-02 policy":       {edits{reboot, spec(func(s *v1alpha1.NodeWrightSpec) { s.DeploymentPolicy = "p" })}, ""},
		"RO-02 by config":    {edits{configInterrupt("*", "a")}, "one node at a time"},
		"budget of 0":        {edits{limit(0)}, "no node is ever interrupted"},
		"budget of 0 percent": {edits{spec(func(s *v1alpha1.NodeWrightSpec) {
			s.InterruptionBudget = &v1alpha1.InterruptionBudget{Percent: ptr.To[int32](0)}
		})}, "no node is ever interrupted"},
		"DR-27 timeout is the grace period":    {edits{drainFor(30*time.Minute, ptr.To[int64](1800))}, "30m0s, is not above 30m0s"},
		"DR-27 timeout above the grace period": {edits{drainFor(30*time.Minute+time.Second, ptr.To[int64](1800))}, ""},
		"DR-27 timeout is that of pods":        {edits{drainFor(30*time.Second, nil)}, "not above 30s"},
		"DR-27 timeout above that of pods":     {edits{drainFor(31*time.Second, nil)}, ""},
		"DR-27 no timeout":                     {edits{drainFor(0, ptr.To[int64](1800))}, ""},
		"DR-27 in the form of earlier manifests": {edits{spec(func(s *v1alpha1.NodeWrightSpec) {
			s.DrainConfig = &v1alpha1.DrainConfig{Timeout: duration(time.Minute), GracePeriod: duration(time.Minute)}
		})}, "not above 1m0s"},
		"options without policy":      {edits{spec(func(s *v1alpha1.NodeWrightSpec) { s.DeploymentPolicyOptions = &v1alpha1.DeploymentPolicyOptions{} })}, "without deploymentPolicy"},
		"taint without required":      {edits{spec(func(s *v1alpha1.NodeWrightSpec) { s.AutoTaintNewNodes = true })}, "runtimeRequired"},
		"taint and required":          {edits{spec(func(s *v1alpha1.NodeWrightSpec) { s.AutoTaintNewNodes, s.RuntimeRequired = true, true })}, ""},
		"agent without tag":           {edits{pkg(func(p *v1alpha1.Package) { p.AgentImageOverride = "r:5000/agent" })}, "neither tag nor digest"},
		"agent with tag":              {edits{pkg(func(p *v1alpha1.Package) { p.AgentImageOverride = "r:5000/agent:1" })}, ""},
		"uninstall under a dependent": {edits{uninstalled, leaf(false)}, "although others depend on it: they stay on nodes without it, and start there no more: leaf"},
		"uninstall with dependents":   {edits{uninstalled, leaf(true)}, ""},
		"uninstall of nothing":        {edits{leaf(false)}, ""},
		"no services": {edits{limit(1), pkg(func(p *v1alpha1.Package) { p.Interrupt = &v1alpha1.Interrupt{Type: v1alpha1.InterruptService} })},
			"nothing is restarted"},
		"services of a reboot": {edits{limit(1), pkg(func(p *v1alpha1.Package) {
			p.Interrupt = &v1alpha1.Interrupt{Type: v1alpha1.InterruptReboot, Services: []string{"a"}}
		})}, "means nothing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nw := sound(tc.edits...)
			if errs := NodeWright(nw, Rules{}); len(errs) != 0 {
				t.Fatalf("it is refused: %v", errs)
			}
			got := NodeWrightWarnings(nw)
			if tc.want == "" && len(got) != 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
				t.Fatalf("warnings %q, want one that says %q", got, tc.want)
			}
			// Clients may cut at 256.
			for _, text := range got {
				if len(text) > 256 {
					t.Errorf("%d bytes: %s", len(text), text)
				}
			}
		})
	}
}
