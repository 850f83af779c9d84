package support

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func withPackage(p v1alpha1.Package) v1alpha1.NodeWrightSpec {
	p.Version, p.Image = "1.0.0", "registry.example/driver"
	return v1alpha1.NodeWrightSpec{Packages: map[string]v1alpha1.Package{"driver": p}}
}

func TestGaps(t *testing.T) {
	reboot := v1alpha1.Interrupt{Type: v1alpha1.InterruptReboot}
	tests := map[string]struct {
		spec v1alpha1.NodeWrightSpec
		want []string
	}{
		"plain package": {withPackage(v1alpha1.Package{}), nil},
		"settings that do nothing alone": {v1alpha1.NodeWrightSpec{
			Drain:                   &v1alpha1.Drain{Force: ptr.To(true)},
			PodNonInterruptLabels:   metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			DeploymentPolicyOptions: &v1alpha1.DeploymentPolicyOptions{},
			Sequencing:              v1alpha1.SequencingNode,
			InterruptionBudget:      &v1alpha1.InterruptionBudget{Count: ptr.To[int32](1)},
		}, nil},
		"uninstall switched off": {withPackage(v1alpha1.Package{Uninstall: &v1alpha1.Uninstall{}}), nil},
		"policy":                 {v1alpha1.NodeWrightSpec{DeploymentPolicy: "slow"}, []string{"spec.deploymentPolicy"}},
		"runtime required":       {v1alpha1.NodeWrightSpec{RuntimeRequired: true, AutoTaintNewNodes: true}, nil},
		"sequencing all":         {v1alpha1.NodeWrightSpec{Sequencing: v1alpha1.SequencingAll}, nil},
		"interrupt":              {withPackage(v1alpha1.Package{Interrupt: &reboot}), nil},
		"config interrupt": {
			withPackage(v1alpha1.Package{ConfigInterrupts: map[string]v1alpha1.Interrupt{"a": reboot}}),
			nil,
		},
		"uninstall": {
			withPackage(v1alpha1.Package{Uninstall: &v1alpha1.Uninstall{Enabled: true, Apply: true}}),
			nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nw := &v1alpha1.NodeWright{Spec: tc.spec}
			var got []string
			for _, g := range Gaps(nw) {
				got = append(got, g.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
			held := Held(nw)
			if (held != "") != (len(tc.want) > 0) {
				t.Errorf("held = %q with gaps %v", held, tc.want)
			}
			for _, field := range tc.want {
				if !strings.Contains(held, field) {
					t.Errorf("%q does not name %s", held, field)
				}
			}
		})
	}
}
