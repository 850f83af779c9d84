package envtest

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
)

// JB-31: the API server takes the Job of every stage as it is built, and what
// it stores is what the agent gets.
func TestStageJobsAreAccepted(t *testing.T) {
	t.Parallel()
	c := admin(t)
	namespace := dnsName(t) + "-" + nodestate.FormatSeq(names.Add(1))
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	node := createNode(t, nil)
	settings := &stagejob.Settings{
		Namespace: namespace, AgentImage: "registry.example.com/agent:7.0.0", ImagePullSecret: "pull",
		CopyDirRoot: "/var/lib/skyhook", AgentLogRoot: "/var/log/skyhook", HostRoot: "/",
		Tolerated: []corev1.Taint{{Key: "nodewright.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}},
	}
	pkg := v1alpha1.Package{
		Version: "1.0.0", Image: "registry.example.com/driver",
		Env: []corev1.EnvVar{{Name: "MODE", Value: "fast"}, {Name: "NODEWRIGHT_BOOT_ID", Value: "theirs"}},
	}
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: testNodeWright, UID: "no-uid"}}
	nw.Spec.Packages = map[string]v1alpha1.Package{"driver": pkg}
	for _, stage := range nodestate.Stages() {
		t.Run(string(stage), func(t *testing.T) {
			id := identityOn(node, "driver")
			id.Stage = stage
			req := &stagejob.Request{
				Identity: id, NodeWright: nw, Package: &pkg, Image: pkg.Image, SpecHash: "abc",
				DeadlineSeconds: ptr.To[int64](3600), BootID: "boot-1",
				Labels: node.Labels, Annotations: node.Annotations,
			}
			if id.Interrupts() {
				req.Interrupt = &nodestate.Interrupt{Type: "service", Services: []string{"kubelet.service"}}
			}
			job, _, err := stagejob.Build(settings, req)
			if err != nil {
				t.Fatal(err)
			}
			built := job.DeepCopy()
			if err := c.Create(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			var stored batchv1.Job
			if err := c.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: id.JobName()}, &stored); err != nil {
				t.Fatal(err)
			}
			compareContainers(t, built.Spec.Template.Spec.InitContainers, stored.Spec.Template.Spec.InitContainers)
			compareContainers(t, built.Spec.Template.Spec.Containers, stored.Spec.Template.Spec.Containers)
			if id.Interrupts() {
				args := stored.Spec.Template.Spec.InitContainers[0].Args
				data, err := base64.StdEncoding.DecodeString(args[len(args)-1])
				if want := `{"services":["kubelet.service"],"type":"service_restart"}`; err != nil || string(data) != want {
					t.Errorf("the agent is told %s (%v), want %s", data, err, want)
				}
			}
			// Later patches of the deadline must not be refused for what is in the Job.
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"activeDeadlineSeconds":60}}`))
			if err := c.Patch(t.Context(), &stored, patch); err != nil {
				t.Errorf("change the deadline: %v", err)
			}
		})
	}
}

// compareContainers checks that nothing that matters was dropped or changed.
func compareContainers(t *testing.T, built, stored []corev1.Container) {
	t.Helper()
	type essence struct {
		Name, Image   string
		Command, Args []string
		Env           []corev1.EnvVar
		Resources     corev1.ResourceRequirements
	}
	of := func(all []corev1.Container) []essence {
		var out []essence
		for i := range all {
			out = append(out, essence{all[i].Name, all[i].Image, all[i].Command, all[i].Args, all[i].Env, all[i].Resources})
		}
		return out
	}
	if diff := cmp.Diff(of(built), of(stored)); diff != "" {
		t.Errorf("containers (-built +stored):\n%s", diff)
	}
}
