package manifests

import (
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Metrics and alerts follow the installation that they watch.
func TestPrometheusComponent(t *testing.T) {
	i := render(t, renamed(t, "prometheus"), "gpu-ops", "east-nodewright-")
	monitor := i.named(t, "ServiceMonitor", "nodewright-manager")
	rules := i.named(t, "PrometheusRule", "nodewright")
	for _, object := range []*unstructured.Unstructured{monitor, rules} {
		if object.GetNamespace() != i.namespace {
			t.Errorf("%s is in namespace %q", object.GetKind(), object.GetNamespace())
		}
	}
	namespaces, _, err := unstructured.NestedStringSlice(monitor.Object, "spec", "namespaceSelector", "matchNames")
	if err != nil || len(namespaces) != 1 || namespaces[0] != i.namespace {
		t.Errorf("services are looked for in %v: %v", namespaces, err)
	}
	wanted, _, err := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
	if err != nil {
		t.Fatal(err)
	}
	service := i.named(t, "Service", "east-nodewright-metrics-service")
	for key, value := range wanted {
		if service.GetLabels()[key] != value {
			t.Errorf("the service has %s=%q, the monitor wants %q", key, service.GetLabels()[key], value)
		}
	}
	// The label job of the alerts.
	if job := service.GetLabels()[field(t, monitor, "spec", "jobLabel")]; job != "nodewright" {
		t.Errorf("series get job=%q", job)
	}

	want := map[string]string{
		"NodeWrightDown":                `namespace="gpu-ops", job="nodewright"`,
		"NodeWrightWithoutLeader":       `namespace="gpu-ops", job="nodewright"`,
		"NodeWrightWebhookFails":        `error_type!="no_error"`,
		"NodeWrightWebhookPassedOver":   `fail_open_count`,
		"NodeWrightMatchConditionFails": `match_condition_evaluation_errors_total`,
		"NodeWrightWritesRefused":       `error_type="no_error"`,
		"NodeWrightCertificateExpires":  `name="east-nodewright-serving-cert"`,
	}
	names := regexp.MustCompile(`name=~"([^"]+)"`)
	clients := i.clients()
	for _, rule := range alerts(t, rules) {
		expr := rule["expr"].(string)
		if part, ok := want[rule["alert"].(string)]; !ok || !strings.Contains(expr, part) {
			t.Errorf("alert %s asks %s", rule["alert"], expr)
		}
		delete(want, rule["alert"].(string))
		// Names of webhooks are a regular expression that fits at least one of ours.
		for _, m := range names.FindAllStringSubmatch(expr, -1) {
			pattern, fits := regexp.MustCompile("^(?:"+m[1]+")$"), false
			for name := range clients {
				fits = fits || pattern.MatchString(name)
			}
			if !fits {
				t.Errorf("alert %s watches %s: no webhook is called so", rule["alert"], m[1])
			}
		}
	}
	if len(want) != 0 {
		t.Errorf("no alert %v", want)
	}
}

func alerts(t *testing.T, rules *unstructured.Unstructured) []map[string]any {
	t.Helper()
	groups, _, err := unstructured.NestedSlice(rules.Object, "spec", "groups")
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for _, group := range groups {
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			out = append(out, rule.(map[string]any))
		}
	}
	return out
}

// What runs outside of the cluster needs no Deployment and no webhooks.
func TestDevcluster(t *testing.T) {
	objects, err := Render(t.Context(), "config/overlays/devcluster")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]int{
		"Namespace": 1, "CustomResourceDefinition": 2, "ServiceAccount": 1, "ClusterRoleBinding": 1, "RoleBinding": 1, "Deployment": 0,
	} {
		if got := len(objects.Kind(kind)); got != want {
			t.Errorf("%d objects of kind %s, want %d", got, kind, want)
		}
	}
}
