package admission

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	validatesNodeWright = "vnodewright.nodewright.nvidia.com"
	validatesPolicy     = "vdeploymentpolicy.nodewright.nvidia.com"
)

// rule is what no schema sees: an object that its webhook refuses, and the
// nearest that it admits.
type rule struct {
	wrong, right string
	// says are words of the refusal: the field, what is wrong, what to do.
	says []string
}

// onePackage is the spec of a NodeWright with a package, and more of both. What is
// given of the package comes in place of its version and image.
func onePackage(more string, pkg ...string) string {
	given := strings.Join(pkg, ", ")
	for _, field := range []string{"version: 1.0.0", "image: registry.example/pa"} {
		name, _, _ := strings.Cut(field, " ")
		if !strings.HasPrefix(given, name) && !strings.Contains(given, ", "+name) {
			given = field + ", " + given
		}
	}
	return "{nodeSelectors: {matchLabels: {pool: none}}, " + more + "packages: {pa: {" + strings.TrimSuffix(given, ", ") + "}}}"
}

// graph is the spec of a NodeWright with three packages, of which each depends on
// what is given.
func graph(pa, pb, pc string) string {
	p := func(name, on string) string {
		return name + ": {version: 1.0.0, image: registry.example/" + name + ", dependsOn: {" + on + "}}"
	}
	return "{nodeSelectors: {matchLabels: {pool: none}}, packages: {" + p("pa", pa) + ", " + p("pb", pb) + ", " + p("pc", pc) + "}}"
}

func compartment(selector string) string {
	return "{default: {budget: {count: 1}, strategy: {fixed: {}}}, compartments: [{name: a, budget: {count: 1}, selector: " + selector + "}]}"
}

func nodeWrightRules() map[string]rule {
	const sha = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	at := "spec.packages[pa]."
	return map[string]rule{
		"WH-07 another tag":         {onePackage("", "image: 'r/p:1.0'"), onePackage("", "image: 'r/p:1.0.0'"), []string{at + "image", "write image: r/p"}},
		"WH-07 digest":              {onePackage("", "image: 'r/p@"+sha+"'"), onePackage("", "image: r/p", "containerSHA: '"+sha+"'"), []string{at + "image", "containerSHA"}},
		"WH-07 port and tag":        {onePackage("", "image: 'localhost:5000/p:1'"), onePackage("", "image: 'localhost:5000/p'"), []string{at + "image", "write image: localhost:5000/p"}},
		"WH-07 upper case":          {onePackage("", "image: r/P"), onePackage("", "image: r/p"), []string{at + "image", "lower-case"}},
		"WH-07 agent image":         {onePackage("", "agentImageOverride: 'r/agent@sha256:1'"), onePackage("", "agentImageOverride: 'r/agent@"+sha+"'"), []string{at + "agentImageOverride", "64 hexadecimal digits"}},
		"WH-09 circle":              {graph("pb: 1.0.0", "pc: 1.0.0", "pa: 1.0.0"), graph("pb: 1.0.0, pc: 1.0.0", "pc: 1.0.0", ""), []string{"spec.packages", "pa -> pb -> pc -> pa", "remove one"}},
		"dependency, version":       {graph("pb: 2.0.0", "", ""), graph("pb: v1.0", "", ""), []string{at + "dependsOn[pb]", "asks for version 2.0.0", "make them the same"}},
		"limit below request":       {onePackage("", "resources: {cpuRequest: 300m, cpuLimit: 200m, memoryRequest: 1Gi, memoryLimit: 1Gi}"), onePackage("", "resources: {cpuRequest: 200m, cpuLimit: '0.2', memoryRequest: 1Gi, memoryLimit: 1024Mi}"), []string{at + "resources.cpuLimit", "at least the request"}},
		"resources of 0":            {onePackage("", "resources: {cpuRequest: 0, cpuLimit: 200m, memoryRequest: 1Gi, memoryLimit: 1Gi}"), onePackage("", "resources: {cpuRequest: 1m, cpuLimit: 200m, memoryRequest: 1Gi, memoryLimit: 1Gi}"), []string{at + "resources.cpuRequest", "more than 0"}},
		"configInterrupts":          {onePackage("", "configMap: {b.conf: x}, configInterrupts: {'a*': {type: noop}}"), onePackage("", "configMap: {ab.conf: x}, configInterrupts: {'a*': {type: noop}}"), []string{at + "configInterrupts[a*]", "matches no key of configMap"}},
		"configMap key":             {onePackage("", "configMap: {a/b: x}"), onePackage("", "configMap: {a..b: x}"), []string{at + "configMap[a/b]"}},
		"service is an option":      {onePackage("", "interrupt: {type: service, services: ['--force']}"), onePackage("", "interrupt: {type: service, services: [a-b.service]}"), []string{at + "interrupt.services[0]", "systemd unit"}},
		"selector":                  {strings.Replace(onePackage(""), "matchLabels: {pool: none}", "matchExpressions: [{key: a, operator: In}]", 1), strings.Replace(onePackage(""), "matchLabels: {pool: none}", "matchExpressions: [{key: a, operator: Exists}]", 1), []string{"spec.nodeSelectors.matchExpressions[0].values"}},
		"selector of pods":          {onePackage("podNonInterruptLabels: {matchLabels: {a: 'b c'}}, "), onePackage("podNonInterruptLabels: {matchLabels: {a: b-c}}, "), []string{"spec.podNonInterruptLabels.matchLabels"}},
		"SE-05 key of a toleration": {onePackage("additionalTolerations: [{key: foo bar, operator: Exists}], "), onePackage("additionalTolerations: [{key: foo/bar, operator: Exists}], "), []string{"spec.additionalTolerations[0].key"}},
		"tag with build metadata":   {onePackage("", "version: 1.0.0+b1"), onePackage("", "version: 1.0.0+b1", "containerSHA: '"+sha+"'"), []string{at + "version", "leave the build metadata out", "containerSHA"}},
		"variable from nowhere":     {onePackage("", "env: [{name: A, valueFrom: {}}]"), onePackage("", "env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]"), []string{at + "env[0].valueFrom", "exactly one"}},
		"variable from two":         {onePackage("", "env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}, secretKeyRef: {name: s, key: k}}}]"), onePackage("", "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"), []string{at + "env[0].valueFrom", "2 are set"}},
		"variable from no secret":   {onePackage("", "env: [{name: A, valueFrom: {secretKeyRef: {key: k}}}]"), onePackage("", "env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: k}}}]"), []string{at + "env[0].valueFrom.secretKeyRef.name"}},
		"variable from no key":      {onePackage("", "env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: a/b}}}]"), onePackage("", "env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: a.b}}}]"), []string{at + "env[0].valueFrom.configMapKeyRef.key"}},
		"variable from a file":      {onePackage("", "env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]"), onePackage("", "env: [{name: A, value: b}]"), []string{at + "env[0].valueFrom.fileKeyRef", "volume"}},
		"toleration above a number": {onePackage("additionalTolerations: [{key: a, operator: Gt, value: '5'}], "), onePackage("additionalTolerations: [{key: a, operator: Equal, value: '5'}], "), []string{"spec.additionalTolerations[0].operator", "Exists"}},
		"variable from no field":    {onePackage("", "env: [{name: A, valueFrom: {fieldRef: {fieldPath: foo}}}]"), onePackage("", "env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a']\"}}}]"), []string{at + "env[0].valueFrom.fieldRef.fieldPath", "spec.nodeName"}},
		"variable from no resource": {onePackage("", "env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.gpu}}}]"), onePackage("", "env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]"), []string{at + "env[0].valueFrom.resourceFieldRef.resource", "requests.memory"}},
		"variable":                  {onePackage("", "env: [{name: A=B}]"), onePackage("", "env: [{name: A.B}]"), []string{at + "env[0].name"}},
	}
}

// WH-10: each rule that no schema holds is held by the webhook as it ships, and
// its refusal tells a user of the field and of what to do.
func TestRulesAsUsersSeeThem_WH10(t *testing.T) {
	c := objectsClient(t)
	for name, r := range nodeWrightRules() {
		t.Run(name, func(t *testing.T) {
			tryRule(t, c, "NodeWright", validatesNodeWright, r)
		})
	}
	for name, r := range map[string]rule{
		"selector of a compartment": {compartment("{matchExpressions: [{key: a, operator: In}]}"), compartment("{matchExpressions: [{key: a, operator: In, values: [b]}]}"),
			[]string{"spec.compartments[0].selector.matchExpressions[0].values"}},
		"label of a compartment": {compartment("{matchLabels: {a b: c}}"), compartment("{matchLabels: {a-b: c}}"), []string{"spec.compartments[0].selector.matchLabels"}},
	} {
		t.Run(name, func(t *testing.T) {
			tryRule(t, c, "DeploymentPolicy", validatesPolicy, r)
		})
	}
}

// tryRule asks on trial whether a rule refuses and admits what it should.
func tryRule(t *testing.T, c client.Client, kind, webhook string, r rule) {
	t.Helper()
	try := func(spec string) error {
		return c.Create(t.Context(), object(t, kind, "rule", spec), client.DryRunAll)
	}
	if err := try(r.right); err != nil {
		t.Errorf("refused, though it is legal: %v", err)
	}
	err := try(r.wrong)
	if err == nil {
		t.Fatal("admitted")
	}
	for _, word := range append(r.says, webhook, `"rule"`) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal is %q, want it to say %q", err, word)
		}
	}
}
