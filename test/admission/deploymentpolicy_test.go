package admission

import (
	"strings"
	"testing"
)

// A policy is refused for what no schema sees, with all errors at once, as a user
// reads them; and it cannot go while it is named, whoever asks.
func TestDeploymentPolicyAsUsersSeeIt(t *testing.T) {
	c := objectsClient(t)
	const name = "seen"
	policy := object(t, "DeploymentPolicy", name, goodPolicy)
	if err := c.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	nw := object(t, "NodeWright", name, strings.Replace(goodNodeWright, "{", "{deploymentPolicy: "+name+", ", 1))
	if err := c.Create(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	// No cache lies between: the very next request is refused.
	err := c.Delete(t.Context(), policy)
	if err == nil || !strings.Contains(err.Error(), "NodeWright "+name) || !strings.Contains(err.Error(), "name another policy there first") {
		t.Fatalf("error %v, want one that names the NodeWright", err)
	}
	const twice = `{default: {budget: {count: 1}, strategy: {fixed: {initialBatch: 1}}}, compartments: [
		{name: a, budget: {count: 1}, selector: {matchExpressions: [{key: a, operator: In}]}},
		{name: b, budget: {count: 1}, selector: {matchLabels: {"a b": c}}}]}`
	out, err := kubectlApply(t, text(object(t, "DeploymentPolicy", "wrong", twice)), "--server-side", "--dry-run=server")
	if err == nil {
		t.Fatalf("admitted: %s", out)
	}
	for _, word := range []string{"spec.compartments[0].selector.matchExpressions[0].values", "spec.compartments[1].selector.matchLabels", "DeploymentPolicy", "wrong"} {
		if !strings.Contains(out, word) {
			t.Errorf("kubectl says %q, want it to name %q", out, word)
		}
	}
	if err := c.Delete(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), policy); err != nil {
		t.Error(err)
	}
}
