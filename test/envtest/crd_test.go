package envtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// strictClient knows no types, and has fields that the schema does not know
// refused, as kubectl has.
func strictClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	crds, err := crenvtest.InstallCRDs(cluster.Config(), crenvtest.CRDInstallOptions{
		Paths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfPathMissing: true,
	})
	if err != nil || len(crds) != 2 {
		t.Fatalf("install CRDs: %d, %v, want two", len(crds), err)
	}
	c, err := client.New(cluster.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return client.WithFieldValidation(c, "Strict")
}

// parseManifest reads one object in YAML.
func parseManifest(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// nodeWright is a manifest with more lines of spec and of its package.
func nodeWright(spec, pkg string) string {
	return "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata: {name: schema}\nspec:\n" +
		"  packages:\n    alpha:\n      version: 1.0.0\n      image: registry.example/alpha\n" + indent(6, pkg) + indent(2, spec)
}

func policy(strategy, budget string) string {
	return "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: DeploymentPolicy\nmetadata: {name: schema}\nspec:\n" +
		"  default: {budget: {count: 1}, strategy: {fixed: {}}}\n  compartments:\n" +
		"  - name: production\n    selector: {matchLabels: {env: production}}\n" +
		"    budget: " + budget + "\n    strategy: " + strategy + "\n"
}

func indent(n int, text string) string {
	if text == "" {
		return ""
	}
	space := strings.Repeat(" ", n)
	return space + strings.ReplaceAll(text, "\n", "\n"+space) + "\n"
}

// TestSchemaRefuses has neighbours on both sides of each limit. An empty want
// is: admitted.
func TestSchemaRefuses(t *testing.T) {
	c := strictClient(t)
	all := "resources: {cpuRequest: 500m, cpuLimit: 4000m, memoryRequest: 64Mi, memoryLimit: 1Gi}"
	for name, tc := range map[string]struct{ manifest, want string }{
		"least":                     {nodeWright("", ""), ""},
		"stageTimeout 0":            {nodeWright("", `stageTimeout: "0"`), ""},
		"stageTimeout 1s":           {nodeWright("", "stageTimeout: 1s"), ""},
		"stageTimeout 999ms":        {nodeWright("", "stageTimeout: 999ms"), "from 1s to 2147483647s"},
		"stageTimeout, longest":     {nodeWright("stageTimeout: 2147483647s", ""), ""},
		"stageTimeout, too long":    {nodeWright("stageTimeout: 2147483648s", ""), "from 1s to 2147483647s"},
		"stageTimeout in days":      {nodeWright("", "stageTimeout: 1d"), "there is no unit for days, write 24h"},
		"stageTimeout without unit": {nodeWright("", `stageTimeout: "90"`), "must be a duration with units"},
		"stageTimeout, a number":    {nodeWright("", "stageTimeout: 90"), "must be of type string"},
		"stageTimeout negative":     {nodeWright("", "stageTimeout: -5s"), "must be a duration with units"},
		"stageTimeout overflows":    {nodeWright("", "stageTimeout: 99999999999h"), "should match"},
		"jobTTL 1m":                 {nodeWright("jobTTL: {succeeded: 1m, failed: 60s}", ""), ""},
		"jobTTL 59s":                {nodeWright("jobTTL: {succeeded: 59s}", ""), "from 1m to 2147483647s"},
		"jobTTL 0 is not off":       {nodeWright(`jobTTL: {failed: "0"}`, ""), "from 1m to 2147483647s"},
		"retry limit 0":             {nodeWright("retry: {limit: 0}", ""), ""},
		"retry limit 101":           {nodeWright("retry: {limit: 101}", ""), "less than or equal to 100"},
		"priority 1":                {nodeWright("priority: 1", ""), ""},
		"priority 0":                {nodeWright("priority: 0", ""), "greater than or equal to 1"},
		"sequencing":                {nodeWright("sequencing: none", ""), "Unsupported value"},
		"budget of 0":               {nodeWright("interruptionBudget: {percent: 0}", ""), ""},
		"budget of 101 percent":     {nodeWright("interruptionBudget: {percent: 101}", ""), "less than or equal to 100"},
		"both budgets":              {nodeWright("interruptionBudget: {percent: 5, count: 1}", ""), "percent or count, not both"},
		"null is no budget":         {nodeWright("interruptionBudget: {percent: null, count: 1}", ""), ""},
		"policy and budget":         {nodeWright("deploymentPolicy: p\ninterruptionBudget: {count: 1}", ""), "cannot be used together"},
		"policy and no budget":      {nodeWright("deploymentPolicy: p\ninterruptionBudget: {}", ""), ""},
		"drain in both forms":       {nodeWright("drain: {}\ndrainConfig: {}", ""), "use drain only"},
		"drain of earlier form":     {nodeWright("drainConfig: {timeout: null, gracePeriod: 30s}", ""), ""},
		"own name":                  {nodeWright("", "name: alpha"), ""},
		"other name":                {nodeWright("", "name: beta"), "same as its key"},
		"depends on unknown":        {nodeWright("", "dependsOn: {zeta: 1.0.0}"), "not in packages"},
		"depends on itself":         {nodeWright("", "dependsOn: {alpha: 1.0.0}"), "not in packages"},
		"version, tag of no number": {nodeWright("", "version: latest"), "spec.packages.alpha.version"},
		"resources":                 {nodeWright("", all), ""},
		"resources, some":           {nodeWright("", "resources: {cpuRequest: 1}"), "or none"},
		"quantity of fraction":      {nodeWright("", strings.Replace(all, "500m", "1e1.5", 1)), "should match"},
		"quantity in env":           {nodeWright("", "env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1e1.5}}}]"), "divisor"},
		"uninstall":                 {nodeWright("", "uninstall: {apply: true}"), "apply needs enabled"},
		"unknown field":             {nodeWright("", "vresion: 1"), "unknown field"},
		"longest package name":      {nodeWright("", "") + "    " + strings.Repeat("a", 43) + ": {version: \"1\", image: a}\n", ""},
		"too long package name":     {nodeWright("", "") + "    " + strings.Repeat("a", 44) + ": {version: \"1\", image: a}\n", "2 to 43 characters"},
		"package name with dot":     {nodeWright("", "") + "    a.b: {version: \"1\", image: a}\n", "2 to 43 characters"},
		"policy":                    {policy("{exponential: {growthFactor: 2}}", "{percent: 1}"), ""},
		"two strategies":            {policy("{fixed: {}, linear: {}}", "{percent: 1}"), "exactly one of fixed"},
		"no strategy":               {policy("{}", "{percent: 1}"), "exactly one of fixed"},
		"growth of 1":               {policy("{exponential: {growthFactor: 1}}", "{percent: 1}"), "greater than or equal to 2"},
		"no budget":                 {policy("{fixed: {}}", "{}"), "exactly one of percent"},
		"percent of 0":              {policy("{fixed: {}}", "{percent: 0}"), "greater than or equal to 1"},
		"reserved name":             {strings.Replace(policy("{fixed: {}}", "{count: 1}"), "production", "__default__", 1), "reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), parseManifest(t, tc.manifest), client.DryRunAll)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestEarlierManifestsApply applies what users of an earlier operator have, and
// the samples, and decodes what came of it.
func TestEarlierManifestsApply(t *testing.T) {
	c := strictClient(t)
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "samples", "*_*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("samples: %v, %v", files, err)
	}
	files = append(files, filepath.Join("testdata", "earlier_manifest.yaml"))
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			object := parseManifest(t, string(text))
			if err := c.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			var into any = &v1alpha1.NodeWright{}
			if object.GetKind() == v1alpha1.KindDeploymentPolicy {
				into = &v1alpha1.DeploymentPolicy{}
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
				t.Errorf("decode: %v", err)
			}
		})
	}
}
