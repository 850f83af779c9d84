package e2e

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/webhooks"
	"github.com/nodewright/nodewright/test/manifests"
)

// fit fits what config/overlays/dev renders to this machine: servers listen on
// the loopback, the API server is not behind a Service, images are those that were
// built, and hosts are trees.
func (c *cluster) fit(objects manifests.Objects) error {
	var webhookPort, healthPort int
	for _, port := range []*int{&webhookPort, &healthPort} {
		var err error
		if *port, err = controlplane.FreePort(); err != nil {
			return err
		}
	}
	if _, err := webhooks.Redirect(objects, webhookPort); err != nil {
		return err
	}
	if err := c.configure(objects, webhookPort, healthPort); err != nil {
		return err
	}
	for _, object := range objects.Kind("Deployment") {
		d := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d); err != nil {
			return err
		}
		if err := c.fitManager(&d.Spec.Template.Spec, webhookPort, healthPort); err != nil {
			return err
		}
		var err error
		if object.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(d); err != nil {
			return err
		}
	}
	return nil
}

// fitManager fits the one pod.
func (c *cluster) fitManager(pod *corev1.PodSpec, webhookPort, healthPort int) error {
	server, err := url.Parse(c.cp.Config().Host)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(server.Host)
	if err != nil {
		return err
	}
	pod.HostNetwork = true
	pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		// A rule, not a must: the manager leaves its node when that is drained.
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{first},
			}}},
		}},
	}}
	manager := &pod.Containers[0]
	manager.Image = c.images.manager.Name
	manager.ImagePullPolicy = corev1.PullNever
	manager.Env = append(manager.Env,
		corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: host}, corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: port})
	ports := map[string]int{"webhook": webhookPort, "health": healthPort}
	var kept []corev1.ContainerPort
	for _, p := range manager.Ports {
		if number, ok := ports[p.Name]; ok {
			p.ContainerPort, p.HostPort = int32(number), int32(number)
			kept = append(kept, p)
		}
	}
	manager.Ports = kept
	for _, probe := range []*corev1.Probe{manager.StartupProbe, manager.LivenessProbe, manager.ReadinessProbe} {
		probe.HTTPGet.Host = "127.0.0.1"
	}
	return nil
}

// configure writes the configuration of the manager.
func (c *cluster) configure(objects manifests.Objects, webhookPort, healthPort int) error {
	for _, object := range objects.Kind("ConfigMap") {
		if !strings.HasPrefix(object.GetName(), "nodewright-manager-config") {
			continue
		}
		object.Object["data"] = map[string]any{"manager.yaml": fmt.Sprintf(`apiVersion: config.nodewright.nvidia.com/v1alpha1
kind: ManagerConfiguration
agentImage: %s
hostRoot: %s
retry: {limit: 1}
podStartGracePeriod: 5s
metrics: {bindAddress: "0"}
health: {bindAddress: "127.0.0.1:%d"}
webhook: {host: 127.0.0.1, port: %d}
`, c.images.agent.Name, hostRoot, healthPort, webhookPort)}
		return nil
	}
	return fmt.Errorf("there is no ConfigMap of the manager")
}
