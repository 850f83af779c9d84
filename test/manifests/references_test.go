package manifests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	configv1alpha1 "github.com/nodewright/nodewright/apis/config/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
)

// Whatever namespace and prefix are chosen, what names something names a thing
// that is there.
func TestNamesAgree_CE05(t *testing.T) {
	checks := map[string]func(*testing.T, *installation){
		"namespaces":      checkNamespaces,
		"selectors":       checkSelectors,
		"webhooks":        checkWebhooks,
		"certificates":    checkCertificates,
		"injection":       checkInjection,
		"service account": checkServiceAccounts,
		"bindings":        checkBindings,
		"configuration":   checkConfiguration,
	}
	for name, render := range installations() {
		t.Run(name, func(t *testing.T) {
			i := render(t)
			for name, check := range checks {
				t.Run(name, func(t *testing.T) { check(t, i) })
			}
		})
	}
}

func checkNamespaces(t *testing.T, i *installation) {
	if got := get[corev1.Namespace](t, i.objects, "Namespace").Name; got != i.namespace {
		t.Errorf("the namespace is called %s, want %s", got, i.namespace)
	}
	clusterScoped := []string{
		"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding",
		"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
	}
	for _, object := range i.objects {
		want := i.namespace
		if slices.Contains(clusterScoped, object.GetKind()) {
			want = ""
		}
		if got := object.GetNamespace(); got != want {
			t.Errorf("%s %s is in namespace %q, want %q", object.GetKind(), object.GetName(), got, want)
		}
	}
}

// What selects pods selects the manager's.
func checkSelectors(t *testing.T, i *installation) {
	pod := labels.Set(i.manager.Spec.Template.Labels)
	selectors := map[string]*metav1.LabelSelector{"Deployment": i.manager.Spec.Selector}
	for _, s := range i.objects.Kind("Service") {
		service := get[corev1.Service](t, i.objects, "Service", s.GetName())
		selectors["Service "+s.GetName()] = &metav1.LabelSelector{MatchLabels: service.Spec.Selector}
	}
	for _, p := range i.objects.Kind("PodDisruptionBudget") {
		selectors["PodDisruptionBudget"] = get[policyv1.PodDisruptionBudget](t, i.objects, "PodDisruptionBudget", p.GetName()).Spec.Selector
	}
	prefix := strings.TrimSuffix(i.manager.Name, "manager")
	policy := get[networkingv1.NetworkPolicy](t, i.objects, "NetworkPolicy", prefix+"manager")
	selectors["NetworkPolicy"] = &policy.Spec.PodSelector
	spec := i.manager.Spec.Template.Spec
	for n := range spec.TopologySpreadConstraints {
		selectors["spread"] = spec.TopologySpreadConstraints[n].LabelSelector
	}
	if spec.Affinity != nil {
		terms := slices.Clone(spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		for _, weighted := range spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(terms, weighted.PodAffinityTerm)
		}
		for n := range terms {
			selectors["anti-affinity"] = terms[n].LabelSelector
		}
	}
	for name, s := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		if selector.Empty() || !selector.Matches(pod) {
			t.Errorf("selector %q of %s does not select pods with %v", selector, name, pod)
		}
	}
	packages := get[networkingv1.NetworkPolicy](t, i.objects, "NetworkPolicy", prefix+"packages")
	if selector, err := metav1.LabelSelectorAsSelector(&packages.Spec.PodSelector); err != nil || selector.Matches(pod) {
		t.Errorf("the policy of package pods selects the manager too: %v", err)
	}
	var ports []string
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			ports = append(ports, port.Port.StrVal)
		}
	}
	for _, port := range spec.Containers[0].Ports {
		if !slices.Contains(ports, port.Name) {
			t.Errorf("the policy lets nobody reach port %s", port.Name)
		}
	}
}

// clients are the client configurations of all webhooks, by name.
func (i *installation) clients() map[string]admissionregistrationv1.WebhookClientConfig {
	out := map[string]admissionregistrationv1.WebhookClientConfig{}
	for n := range i.validating.Webhooks {
		out[i.validating.Webhooks[n].Name] = i.validating.Webhooks[n].ClientConfig
	}
	for n := range i.mutating.Webhooks {
		out[i.mutating.Webhooks[n].Name] = i.mutating.Webhooks[n].ClientConfig
	}
	return out
}

// Webhooks lead over the Service to the port that the manager listens on.
func checkWebhooks(t *testing.T, i *installation) {
	var defaults configv1alpha1.ManagerConfiguration
	configv1alpha1.SetDefaults(&defaults)
	wantPaths := map[string]string{
		"vnode.nodewright.nvidia.com":             "/validate-v1-node",
		"mnode.nodewright.nvidia.com":             "/mutate-v1-node",
		"vnodewright.nodewright.nvidia.com":       "/validate-nodewright-nvidia-com-v1alpha1-nodewright",
		"mnodewright.nodewright.nvidia.com":       "/mutate-nodewright-nvidia-com-v1alpha1-nodewright",
		"vdeploymentpolicy.nodewright.nvidia.com": "/validate-nodewright-nvidia-com-v1alpha1-deploymentpolicy",
	}
	clients := i.clients()
	for name, want := range wantPaths {
		client, ok := clients[name]
		if !ok || client.Service == nil {
			t.Errorf("no webhook %s of a service", name)
			continue
		}
		if *client.Service.Path != want {
			t.Errorf("%s is asked at %s, want %s", name, *client.Service.Path, want)
		}
		if client.Service.Name != i.service.Name || client.Service.Namespace != i.service.Namespace {
			t.Errorf("%s leads to %s/%s, the service is %s/%s", name,
				client.Service.Namespace, client.Service.Name, i.service.Namespace, i.service.Name)
		}
		port := i.service.Spec.Ports[0]
		if *client.Service.Port != port.Port {
			t.Errorf("%s leads to port %d, the service has %d", name, *client.Service.Port, port.Port)
		}
		if client.CABundle != nil {
			t.Errorf("%s has a caBundle in the manifest: it would take back what cert-manager injects", name)
		}
	}
	if len(clients) != len(wantPaths) {
		t.Errorf("%d webhooks, want %d", len(clients), len(wantPaths))
	}
	for _, port := range i.manager.Spec.Template.Spec.Containers[0].Ports {
		if port.Name == i.service.Spec.Ports[0].TargetPort.StrVal {
			if port.ContainerPort != *defaults.Webhook.Port {
				t.Errorf("the service leads to %d, the manager listens on %d", port.ContainerPort, *defaults.Webhook.Port)
			}
			return
		}
	}
	t.Errorf("the manager has no port %s", i.service.Spec.Ports[0].TargetPort.String())
}

// The chain from a self-signed root to the files that the manager serves.
func checkCertificates(t *testing.T, i *installation) {
	var defaults configv1alpha1.ManagerConfiguration
	configv1alpha1.SetDefaults(&defaults)
	prefix := strings.TrimSuffix(i.manager.Name, "manager")
	serving := i.named(t, "Certificate", prefix+"serving-cert")
	names, _, err := unstructured.NestedStringSlice(serving.Object, "spec", "dnsNames")
	if err != nil {
		t.Fatal(err)
	}
	host := i.service.Name + "." + i.service.Namespace + ".svc"
	if want := []string{host, host + ".cluster.local"}; !slices.Equal(names, want) {
		t.Errorf("the certificate is for %v, want %v", names, want)
	}
	issuer := i.named(t, "Issuer", field(t, serving, "spec", "issuerRef", "name"))
	root := i.named(t, "Certificate", prefix+"ca-cert")
	if got, want := field(t, issuer, "spec", "ca", "secretName"), field(t, root, "spec", "secretName"); got != want {
		t.Errorf("the issuer signs with Secret %s, the root is in %s", got, want)
	}
	if isCA, _, _ := unstructured.NestedBool(root.Object, "spec", "isCA"); !isCA {
		t.Error("the root is no certificate authority")
	}
	if got := field(t, root, "spec", "privateKey", "rotationPolicy"); got != "Never" {
		t.Errorf("the root's key has rotation policy %s: a renewal breaks trust", got)
	}
	selfSigned := i.named(t, "Issuer", field(t, root, "spec", "issuerRef", "name"))
	if _, found, _ := unstructured.NestedMap(selfSigned.Object, "spec", "selfSigned"); !found {
		t.Errorf("the root is signed by %v", selfSigned.Object["spec"])
	}

	secret := field(t, serving, "spec", "secretName")
	pod := i.manager.Spec.Template.Spec
	for _, volume := range pod.Volumes {
		if volume.Secret == nil || volume.Secret.SecretName != secret {
			continue
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			if mount.Name == volume.Name && mount.MountPath == defaults.Webhook.CertDir {
				return
			}
		}
	}
	t.Errorf("Secret %s is not mounted at %s", secret, defaults.Webhook.CertDir)
}

func checkInjection(t *testing.T, i *installation) {
	const annotation = "cert-manager.io/inject-ca-from"
	prefix := strings.TrimSuffix(i.manager.Name, "manager")
	want := i.namespace + "/" + prefix + "serving-cert"
	for _, object := range []metav1.Object{&i.validating, &i.mutating} {
		if got := object.GetAnnotations()[annotation]; got != want {
			t.Errorf("the CA of %s comes from %q, want %q", object.GetName(), got, want)
		}
	}
	// CE-06: applied again, the manifests must not empty what cert-manager filled.
	if secrets := i.objects.Kind("Secret"); len(secrets) != 0 {
		t.Errorf("%d Secrets in the manifests", len(secrets))
	}
}

// The operator's own user name stands in match conditions.
func checkServiceAccounts(t *testing.T, i *installation) {
	account := i.manager.Spec.Template.Spec.ServiceAccountName
	i.named(t, "ServiceAccount", account)
	want := fmt.Sprintf("request.userInfo.username == 'system:serviceaccount:' + '%s' + ':' + '%s'", i.namespace, account)
	var told bool
	for n := range i.validating.Webhooks {
		for _, condition := range i.validating.Webhooks[n].MatchConditions {
			if strings.Contains(condition.Expression, "userInfo") {
				told = true
				if !strings.Contains(condition.Expression, want) {
					t.Errorf("condition %s of %s does not know the operator as %s", condition.Name, i.validating.Webhooks[n].Name, want)
				}
			}
		}
	}
	if !told {
		t.Error("no match condition knows the operator: its good writes would need its own webhook")
	}

	env := i.manager.Spec.Template.Spec.Containers[0].Env
	n := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "PACKAGE_SERVICE_ACCOUNT" })
	if n < 0 {
		t.Fatal("the manager is not told the service account of package pods")
	}
	packages := get[corev1.ServiceAccount](t, i.objects, "ServiceAccount", env[n].Value)
	if packages.AutomountServiceAccountToken == nil || *packages.AutomountServiceAccountToken {
		t.Errorf("SE-01: package pods get a token of %s", packages.Name)
	}
}

func checkBindings(t *testing.T, i *installation) {
	for _, kind := range []string{"RoleBinding", "ClusterRoleBinding"} {
		for _, object := range i.objects.Kind(kind) {
			var ref rbacv1.RoleRef
			var subjects []rbacv1.Subject
			if kind == "RoleBinding" {
				b := get[rbacv1.RoleBinding](t, i.objects, kind, object.GetName())
				ref, subjects = b.RoleRef, b.Subjects
			} else {
				b := get[rbacv1.ClusterRoleBinding](t, i.objects, kind, object.GetName())
				ref, subjects = b.RoleRef, b.Subjects
			}
			i.named(t, ref.Kind, ref.Name)
			manager := rbacv1.Subject{
				Kind: rbacv1.ServiceAccountKind, Name: i.manager.Spec.Template.Spec.ServiceAccountName, Namespace: i.namespace,
			}
			if len(subjects) != 1 || subjects[0] != manager {
				t.Errorf("%s %s gives rights to %v, want the manager alone", kind, object.GetName(), subjects)
			}
		}
	}
}

// The configuration that ships is one that the manager takes.
func checkConfiguration(t *testing.T, i *installation) {
	for _, volume := range i.manager.Spec.Template.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		data := get[corev1.ConfigMap](t, i.objects, "ConfigMap", volume.ConfigMap.Name).Data["manager.yaml"]
		c, err := configv1alpha1.Load([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if errs := validation.ManagerConfiguration(c); len(errs) > 0 {
			t.Error(errs.ToAggregate())
		}
		_, version, _ := strings.Cut(i.manager.Spec.Template.Spec.Containers[0].Image, ":")
		if want := "nodewright/agent:" + version; version == "" || c.AgentImage != want {
			t.Errorf("the agent is %s, want the manager's version %s", c.AgentImage, want)
		}
		return
	}
	t.Error("no ConfigMap is mounted")
}
