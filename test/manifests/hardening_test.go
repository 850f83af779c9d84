package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	configv1alpha1 "github.com/nodewright/nodewright/apis/config/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
	"github.com/nodewright/nodewright/cmd/manager/app"
)

// The manager's pod passes the strictest of the Pod Security standards, although
// its namespace must admit privileged pods.
func TestManagerIsRestricted(t *testing.T) {
	pod := renderDefault(t).manager.Spec.Template.Spec
	c := pod.Containers[0]
	if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || *s.RunAsUser == 0 ||
		s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("security context of the pod: %+v", s)
	}
	if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
		s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
		!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) != 0 {
		t.Errorf("security context of the container: %+v", s)
	}
	// Files of a Secret belong to root: without the group no other user reads a mode
	// that is closed to others.
	for _, volume := range pod.Volumes {
		if volume.Secret != nil && *volume.Secret.DefaultMode&0o004 == 0 && (pod.SecurityContext.FSGroup == nil || *volume.Secret.DefaultMode&0o040 == 0) {
			t.Errorf("volume %s has mode %#o and no fsGroup: the manager cannot read it", volume.Name, *volume.Secret.DefaultMode)
		}
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.InitContainers) != 0 || len(pod.Containers) != 1 {
		t.Error("the pod shares something with its host, or has more than one container")
	}
	for _, volume := range pod.Volumes {
		if volume.HostPath != nil {
			t.Errorf("volume %s is a directory of the host", volume.Name)
		}
	}
}

func TestManagerRuns(t *testing.T) {
	pod := renderDefault(t).manager.Spec.Template.Spec
	c := pod.Containers[0]
	for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Port.StrVal != "health" {
			t.Errorf("%s probe: %+v", name, probe)
		}
	}
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/healthz" {
		t.Errorf("probes ask %s and %s", c.ReadinessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path)
	}
	// A limit that is left out would be that of package pods.
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
		if request.Sign() <= 0 || limit.Cmp(request) < 0 {
			t.Errorf("%s: request %s, limit %s", name, &request, &limit)
		}
	}
	if pod.PriorityClassName != "system-cluster-critical" {
		t.Errorf("priority class %q", pod.PriorityClassName)
	}
	// In a cluster of new nodes only, all of them have such a taint.
	for _, text := range configv1alpha1.DefaultRuntimeRequiredTaints() {
		taint, err := validation.ParseTaint(text)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(pod.Tolerations, func(tol corev1.Toleration) bool {
			return tol.Key == taint.Key && tol.Value == taint.Value && tol.Effect == taint.Effect
		}) {
			t.Errorf("the manager does not tolerate %s", text)
		}
	}
	for _, name := range []string{"POD_NAMESPACE", "POD_SERVICE_ACCOUNT"} {
		if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name && e.ValueFrom != nil && e.ValueFrom.FieldRef != nil }) {
			t.Errorf("%s does not come from the pod", name)
		}
	}
	if image := c.Image; !strings.HasPrefix(image, "nodewright/manager:") || strings.HasSuffix(image, ":latest") {
		t.Errorf("image %s names no version", image)
	}
}

// The selector of a Deployment cannot be changed: an upgrade that did would fail.
// WH-03: the manager knows its replicas by it, under any name and in any
// namespace.
func TestSelectorStays(t *testing.T) {
	want := map[string]string{"app.kubernetes.io/name": "nodewright", "app.kubernetes.io/component": "manager"}
	if diff := cmp.Diff(want, app.ReplicaLabels()); diff != "" {
		t.Errorf("replicas are looked for by other labels (-want +got):\n%s", diff)
	}
	for name, render := range installations() {
		if diff := cmp.Diff(want, render(t).manager.Spec.Selector.MatchLabels); diff != "" {
			t.Errorf("%s: selector (-want +got):\n%s", name, diff)
		}
	}
}

func TestNamespace(t *testing.T) {
	i := renderDefault(t)
	ns := get[corev1.Namespace](t, i.objects, "Namespace")
	if got := ns.Labels["pod-security.kubernetes.io/enforce"]; got != "privileged" {
		t.Errorf("SE-06: Pod Security is %q: package pods would be refused", got)
	}
	limits := get[corev1.LimitRange](t, i.objects, "LimitRange").Spec.Limits
	want := []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer,
		DefaultRequest: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
		Default: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("512Mi")},
	}}
	if diff := cmp.Diff(want, limits); diff != "" {
		t.Errorf("limits of package pods (-want +got):\n%s", diff)
	}
}

// Every webhook says in its manifest how it fails, and none keeps a client
// waiting for longer than clients wait.
func TestWebhooksFailAsTheyShould(t *testing.T) {
	i := renderDefault(t)
	want := map[string]string{
		"vnode.nodewright.nvidia.com": "Fail", "mnode.nodewright.nvidia.com": "Ignore",
		"vnodewright.nodewright.nvidia.com": "Fail", "mnodewright.nodewright.nvidia.com": "Fail",
		"vdeploymentpolicy.nodewright.nvidia.com": "Fail",
	}
	got := map[string]string{}
	check := func(name string, policy string, timeout int32, sideEffects string) {
		got[name] = policy
		if timeout > 5 {
			t.Errorf("%s waits %d s", name, timeout)
		}
		if sideEffects != "None" {
			t.Errorf("%s has side effects %s: dry runs would fail", name, sideEffects)
		}
	}
	for n := range i.validating.Webhooks {
		w := &i.validating.Webhooks[n]
		check(w.Name, string(*w.FailurePolicy), *w.TimeoutSeconds, string(*w.SideEffects))
	}
	for n := range i.mutating.Webhooks {
		w := &i.mutating.Webhooks[n]
		check(w.Name, string(*w.FailurePolicy), *w.TimeoutSeconds, string(*w.SideEffects))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failure policies (-want +got):\n%s", diff)
	}
}
