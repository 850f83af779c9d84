package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// installation is a rendered kustomization, with the objects that the tests look
// at most.
type installation struct {
	objects    Objects
	namespace  string
	manager    appsv1.Deployment
	service    corev1.Service
	validating admissionregistrationv1.ValidatingWebhookConfiguration
	mutating   admissionregistrationv1.MutatingWebhookConfiguration
}

// render gives an installation whose names begin with prefix.
func render(t *testing.T, dir, namespace, prefix string) *installation {
	t.Helper()
	objects, err := Render(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return &installation{
		objects: objects, namespace: namespace,
		manager:    get[appsv1.Deployment](t, objects, "Deployment", prefix+"manager"),
		service:    get[corev1.Service](t, objects, "Service", prefix+"webhook-service"),
		validating: get[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration", prefix+"validating-webhook-configuration"),
		mutating:   get[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration", prefix+"mutating-webhook-configuration"),
	}
}

func renderDefault(t *testing.T) *installation {
	t.Helper()
	return render(t, Default, "nodewright-system", "nodewright-")
}

func get[T any](t *testing.T, objects Objects, kind string, name ...string) T {
	t.Helper()
	object, err := As[T](objects, kind, name...)
	if err != nil {
		t.Fatal(err)
	}
	return *object
}

// field reads a string deep in an object.
func field(t *testing.T, object *unstructured.Unstructured, path ...string) string {
	t.Helper()
	value, found, err := unstructured.NestedString(object.Object, path...)
	if err != nil || !found {
		t.Fatalf("%s %s has no %v: %v", object.GetKind(), object.GetName(), path, err)
	}
	return value
}

// named is the object of a kind and name.
func (i *installation) named(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range i.objects.Kind(kind) {
		if object.GetName() == name {
			return object
		}
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

// installations are the kustomizations that ship, and one that a user makes with
// names of his own.
func installations() map[string]func(t *testing.T) *installation {
	return map[string]func(t *testing.T) *installation{
		"default": renderDefault,
		"dev":     shipped("config/overlays/dev"),
		"ha":      shipped("config/overlays/ha"),
		"other namespace and prefix": func(t *testing.T) *installation {
			return render(t, renamed(t), "gpu-ops", "east-nodewright-")
		},
	}
}

func shipped(dir string) func(t *testing.T) *installation {
	return func(t *testing.T) *installation { return render(t, dir, "nodewright-system", "nodewright-") }
}

// renamed writes the kustomization that config/default describes for another
// namespace and prefix, with all components.
func renamed(t *testing.T, components ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	config, err := filepath.Rel(dir, filepath.Join(root, "config"))
	if err != nil {
		t.Fatal(err)
	}
	outer := "resources: [parts]\ncomponents:\n"
	for _, component := range append(components, "names") {
		outer += fmt.Sprintf("- %s/%s\n", config, component)
	}
	for file, content := range map[string]string{
		"kustomization.yaml":       outer,
		"parts/kustomization.yaml": fmt.Sprintf("namespace: gpu-ops\nnamePrefix: east-\nresources: [../%s/default]\n", config),
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Overlays differ in what their names promise.
func TestReplicas(t *testing.T) {
	cases := map[string]struct {
		replicas int32
		// budget is how many stay in a drain; 0 means that there is no budget.
		budget int32
		// apart says that two replicas never share a node.
		apart bool
	}{
		"default": {replicas: 2, budget: 1},
		"dev":     {replicas: 1},
		"ha":      {replicas: 3, budget: 2, apart: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			i := installations()[name](t)
			spec := i.manager.Spec
			if *spec.Replicas != tc.replicas {
				t.Errorf("%d replicas, want %d", *spec.Replicas, tc.replicas)
			}
			affinity := spec.Template.Spec.Affinity
			if apart := affinity != nil && len(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) == 1; apart != tc.apart {
				t.Errorf("replicas are kept apart: %t, want %t", apart, tc.apart)
			}
			if tc.replicas > 1 {
				terms := affinity.PodAntiAffinity
				if len(terms.RequiredDuringSchedulingIgnoredDuringExecution)+len(terms.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
					t.Errorf("anti-affinity is %+v, want one term", terms)
				}
				// A rollout goes on also where no node is free for one more.
				if rolling := spec.Strategy.RollingUpdate; tc.apart == (rolling.MaxUnavailable.IntValue() == 0) {
					t.Errorf("rollout with %s unavailable, %s more", rolling.MaxUnavailable, rolling.MaxSurge)
				}
			}
			if tc.budget == 0 {
				if budgets := i.objects.Kind("PodDisruptionBudget"); len(budgets) != 0 {
					t.Errorf("a budget keeps the only replica's node from being drained: %v", budgets[0].Object["spec"])
				}
				return
			}
			budget := get[policyv1.PodDisruptionBudget](t, i.objects, "PodDisruptionBudget")
			if got := budget.Spec.MinAvailable.IntVal; got != tc.budget || got >= tc.replicas {
				t.Errorf("%d replicas stay in a drain, want %d", got, tc.budget)
			}
		})
	}
}
