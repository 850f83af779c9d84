package stagejob

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// interrupting asks for the Job of an interrupt.
func interrupting(stage nodestate.Stage, i *nodestate.Interrupt) *Request {
	r := request()
	r.Identity.Stage, r.Interrupt = stage, i
	return r
}

// Existing agents depend on every line of this Job.
func TestInterruptGolden(t *testing.T) {
	golden(t, "interrupt.yaml", build(t, settings(), interrupting(nodestate.StageInterrupt, &nodestate.Interrupt{
		Type: "service", Services: []string{"containerd.service", "kubelet.service"},
	})))
}

// What agents that exist are told, byte for byte: a key that a type does not
// take makes them fail.
func TestInterruptArguments(t *testing.T) {
	tests := map[string]struct {
		interrupt nodestate.Interrupt
		want      string
	}{
		"reboot":               {nodestate.Interrupt{Type: "reboot"}, `{"type":"node_restart"}`},
		"service":              {nodestate.Interrupt{Type: "service", Services: []string{"b", "a"}}, `{"services":["b","a"],"type":"service_restart"}`},
		"service without any":  {nodestate.Interrupt{Type: "service"}, `{"services":[],"type":"service_restart"}`},
		"restartAllServices":   {nodestate.Interrupt{Type: "restartAllServices"}, `{"type":"restart_all_services"}`},
		"noop":                 {nodestate.Interrupt{Type: "noop"}, `{"type":"no_op"}`},
		"services of a reboot": {nodestate.Interrupt{Type: "reboot", Services: []string{"a"}}, `{"type":"node_restart"}`},
	}
	for name, tc := range tests {
		for _, stage := range []nodestate.Stage{nodestate.StageInterrupt, nodestate.StageUninstallInterrupt} {
			t.Run(name+"/"+string(stage), func(t *testing.T) {
				spec := build(t, settings(), interrupting(stage, &tc.interrupt)).Spec.Template.Spec
				if len(spec.InitContainers) != 1 {
					t.Fatalf("%d init containers, want the agent's alone", len(spec.InitContainers))
				}
				want := []string{
					"interrupt", "/root", "/var/lib/skyhook/gpu-hosts/tuning-1.2.3-nw-uid-9",
					base64.StdEncoding.EncodeToString([]byte(tc.want)),
				}
				if diff := cmp.Diff(want, spec.InitContainers[0].Args); diff != "" {
					t.Fatalf("arguments (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// JB-31: an image of a package that cannot be pulled holds up no interrupt,
// nor does its configuration.
func TestInterruptNeedsTheAgentOnly_JB31(t *testing.T) {
	for _, stage := range []nodestate.Stage{nodestate.StageInterrupt, nodestate.StageUninstallInterrupt} {
		r := interrupting(stage, &nodestate.Interrupt{Type: "reboot"})
		r.Package.AgentImageOverride = "old/agent:6.4"
		template := build(t, settings(), r).Spec.Template
		for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
			if c.Image != "old/agent:6.4" && c.Image != settings().AgentImage {
				t.Errorf("stage %s: container %s has image %s", stage, c.Name, c.Image)
			}
		}
		for _, v := range template.Spec.Volumes {
			if v.HostPath == nil {
				t.Errorf("stage %s: volume %s is not the host", stage, v.Name)
			}
		}
		for key, value := range template.Annotations {
			if strings.Contains(value, r.Image) {
				t.Errorf("stage %s: annotation %s names the image of the package", stage, key)
			}
		}
		if template.Labels[packagejob.LabelInterrupt] != packagejob.InterruptTrue {
			t.Errorf("stage %s: labels %v do not mark the interrupt", stage, template.Labels)
		}
	}
}

// JB-25: the agent of an interrupt has limits of its own, whatever the package
// asks for.
func TestInterruptResources_JB25(t *testing.T) {
	r := interrupting(nodestate.StageInterrupt, &nodestate.Interrupt{Type: "noop"})
	got := build(t, settings(), r).Spec.Template.Spec.InitContainers[0].Resources
	if diff := cmp.Diff(fixedResources("500m", "64Mi"), got); diff != "" {
		t.Fatalf("resources (-want +got):\n%s", diff)
	}
}

// The baseline of a reboot reaches the agent, and no package can replace it.
func TestInterruptBootID(t *testing.T) {
	r := interrupting(nodestate.StageInterrupt, &nodestate.Interrupt{Type: "reboot"})
	r.Package.Env[0].Name = "NODEWRIGHT_BOOT_ID"
	var got []string
	for _, e := range build(t, settings(), r).Spec.Template.Spec.InitContainers[0].Env {
		if e.Name == "NODEWRIGHT_BOOT_ID" {
			got = append(got, e.Value)
		}
	}
	if diff := cmp.Diff([]string{"boot-1"}, got); diff != "" {
		t.Fatalf("boot IDs (-want +got):\n%s", diff)
	}
}

// A Job that does not say what it does to the host, or says it in a stage that
// does nothing to it, is never built.
func TestInterruptsThatAreRefused(t *testing.T) {
	reboot := &nodestate.Interrupt{Type: "reboot"}
	tests := map[string]struct {
		stage     nodestate.Stage
		interrupt *nodestate.Interrupt
		want      string
	}{
		"none":                       {nodestate.StageInterrupt, nil, "no interrupt was decided on"},
		"none in an uninstall":       {nodestate.StageUninstallInterrupt, nil, "no interrupt was decided on"},
		"no type":                    {nodestate.StageInterrupt, &nodestate.Interrupt{}, `type "" is not known`},
		"the agent's word":           {nodestate.StageInterrupt, &nodestate.Interrupt{Type: "node_restart"}, `type "node_restart" is not known`},
		"type in capitals":           {nodestate.StageInterrupt, &nodestate.Interrupt{Type: "Reboot"}, `type "Reboot" is not known`},
		"stage apply":                {nodestate.StageApply, reboot, "stage apply does not interrupt"},
		"stage after the interrupt":  {nodestate.StagePostInterrupt, reboot, "stage post-interrupt does not interrupt"},
		"stage before the interrupt": {nodestate.StageUninstall, reboot, "stage uninstall does not interrupt"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job, _, err := Build(settings(), interrupting(tc.stage, tc.interrupt))
			if err == nil || !strings.Contains(err.Error(), tc.want) || job != nil {
				t.Fatalf("job %v, error %v, want %q", job != nil, err, tc.want)
			}
		})
	}
}

// JB-15: the longest names fit.
func TestInterruptLongNames_JB15(t *testing.T) {
	r := interrupting(nodestate.StageUninstallInterrupt, &nodestate.Interrupt{Type: "noop"})
	r.Identity.Package = strings.Repeat("p", nodestate.MaxPackageNameLength)
	for _, c := range build(t, settings(), r).Spec.Template.Spec.InitContainers {
		if errs := validation.IsDNS1123Label(c.Name); len(errs) != 0 {
			t.Errorf("container name %q: %v", c.Name, errs)
		}
	}
}
