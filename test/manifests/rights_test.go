package manifests

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

var update = flag.Bool("update", false, "write the golden file anew")

// What the manager may do, as a file: every new right is seen in review.
func TestRightsOfTheManager_SE03(t *testing.T) {
	const golden = "testdata/manager_rights.txt"
	i := renderDefault(t)
	cluster := get[rbacv1.ClusterRole](t, i.objects, "ClusterRole", "nodewright-manager-role").Rules
	namespaced := get[rbacv1.Role](t, i.objects, "Role", "nodewright-manager-role").Rules
	got := "everywhere\n" + list(cluster) + "in namespace " + i.namespace + "\n" + list(namespaced)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("rights of the manager; -update writes them anew (-want +got):\n%s", diff)
	}

	forbidden := map[string]struct {
		rules          []rbacv1.PolicyRule
		verb, resource string
	}{
		"create nodes":           {cluster, "create", "nodes"},
		"update nodes":           {cluster, "update", "nodes"},
		"delete nodes":           {cluster, "delete", "nodes"},
		"patch nodes/status":     {cluster, "patch", "nodes/status"},
		"read secrets":           {cluster, "get", "secrets"},
		"list secrets":           {cluster, "list", "secrets"},
		"exec":                   {cluster, "create", "pods/exec"},
		"exec in the namespace":  {namespaced, "create", "pods/exec"},
		"create pods":            {cluster, "create", "pods"},
		"watch all pods":         {cluster, "watch", "pods"},
		"patch pods":             {cluster, "patch", "pods"},
		"change budgets":         {cluster, "patch", "poddisruptionbudgets"},
		"delete budgets":         {cluster, "delete", "poddisruptionbudgets"},
		"create pods here":       {namespaced, "create", "pods"},
		"escalate":               {cluster, "escalate", "clusterroles"},
		"bind":                   {cluster, "bind", "clusterroles"},
		"impersonate":            {cluster, "impersonate", "users"},
		"mint tokens":            {namespaced, "create", "serviceaccounts/token"},
		"write webhooks (WH-10)": {cluster, "update", "validatingwebhookconfigurations"},
		"patch webhooks (WH-10)": {cluster, "patch", "validatingwebhookconfigurations"},
		"write CRDs":             {cluster, "patch", "customresourcedefinitions"},
		"write specs":            {cluster, "update", "nodewrights"},
		"override":               {cluster, "override", "nodewrights/nodestate"},
	}
	for name, tc := range forbidden {
		if grants(tc.rules, tc.verb, tc.resource) {
			t.Errorf("the manager may %s", name)
		}
	}
}

func grants(rules []rbacv1.PolicyRule, verb, resource string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return (slices.Contains(r.Verbs, verb) || slices.Contains(r.Verbs, "*")) &&
			(slices.Contains(r.Resources, resource) || slices.Contains(r.Resources, "*"))
	})
}

// list is one line per resource, sorted.
func list(rules []rbacv1.PolicyRule) string {
	var lines []string
	for _, r := range rules {
		verbs := slices.Sorted(slices.Values(r.Verbs))
		for _, resource := range r.Resources {
			for _, group := range r.APIGroups {
				name := resource
				if group != "" {
					resource, sub, found := strings.Cut(resource, "/")
					name = resource + "." + group
					if found {
						name += "/" + sub
					}
				}
				lines = append(lines, "  "+name+": "+strings.Join(verbs, " ")+"\n")
			}
		}
		for _, url := range r.NonResourceURLs {
			lines = append(lines, "  "+url+": "+strings.Join(verbs, " ")+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// SE-02: whoever may write a NodeWright is root on nodes. No role that is given
// away per namespace may bring that along.
func TestRolesForPeople_SE02(t *testing.T) {
	i := renderDefault(t)
	const aggregate = "rbac.authorization.k8s.io/aggregate-to-"
	for _, object := range i.objects.Kind("ClusterRole") {
		role := get[rbacv1.ClusterRole](t, i.objects, "ClusterRole", object.GetName())
		for label := range role.Labels {
			into, aggregated := strings.CutPrefix(label, aggregate)
			if !aggregated {
				continue
			}
			if role.Name != "nodewright-viewer" || into != "view" {
				t.Errorf("%s becomes part of %s", role.Name, into)
			}
			for _, verb := range []string{"create", "update", "patch", "delete", "override", "*"} {
				if slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Verbs, verb) }) {
					t.Errorf("%s becomes part of %s and may %s", role.Name, into, verb)
				}
			}
		}
	}
	override := get[rbacv1.ClusterRole](t, i.objects, "ClusterRole", "nodewright-node-state-override").Rules
	if got, want := list(override), "  nodewrights.nodewright.nvidia.com/nodestate: override\n"; got != want {
		t.Errorf("break-glass gives %q, want %q", got, want)
	}
	editor := get[rbacv1.ClusterRole](t, i.objects, "ClusterRole", "nodewright-editor").Rules
	if !grants(editor, "create", "nodewrights") || grants(editor, "override", "nodewrights/nodestate") ||
		grants(editor, "patch", "nodewrights/status") {
		t.Errorf("the editor role is\n%s", list(editor))
	}
}
