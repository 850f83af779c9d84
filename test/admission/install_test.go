package admission

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodewright/nodewright/test/manifests"
)

// CE-06: who applies the manifests again meets no conflict, and takes nothing
// away that cert-manager put in.
func TestAppliedTwice_CE06(t *testing.T) {
	versions := func() map[string]string {
		api := bed.admin.AdmissionregistrationV1()
		v, err := api.ValidatingWebhookConfigurations().Get(t.Context(), validatingName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := api.MutatingWebhookConfigurations().Get(t.Context(), mutatingName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range v.Webhooks {
			if len(v.Webhooks[i].ClientConfig.CABundle) == 0 {
				t.Errorf("%s has lost its CA", v.Webhooks[i].Name)
			}
		}
		for i := range m.Webhooks {
			if len(m.Webhooks[i].ClientConfig.CABundle) == 0 {
				t.Errorf("%s has lost its CA", m.Webhooks[i].Name)
			}
		}
		return map[string]string{validatingName: v.ResourceVersion, mutatingName: m.ResourceVersion}
	}
	before := versions()
	for range 2 {
		said, err := bed.apply(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(said, "conflict") || strings.Contains(said, "Warning") {
			t.Error(said)
		}
	}
	if diff := cmp.Diff(before, versions()); diff != "" {
		t.Errorf("configurations changed (-before +after):\n%s", diff)
	}
}

// SE-03: what the API server lets the operator's account do is what its roles in
// the manifests say, and nothing that comes from elsewhere.
func TestRights_SE03(t *testing.T) {
	cluster, err := manifests.As[rbacv1.ClusterRole](bed.objects, "ClusterRole", "nodewright-manager-role")
	if err != nil {
		t.Fatal(err)
	}
	role, err := manifests.As[rbacv1.Role](bed.objects, "Role", "nodewright-manager-role")
	if err != nil {
		t.Fatal(err)
	}
	nobody := func(name string) identity {
		return identity{"system:serviceaccount:" + namespace + ":" + name, operator.groups}
	}
	basic := rights(t, nobody("nobody"), namespace)
	wanted := slices.Concat(basic, granted(cluster.Rules))
	cases := map[string]struct {
		who       identity
		namespace string
		want      []string
	}{
		"the operator in its namespace": {operator, namespace, slices.Concat(wanted, granted(role.Rules))},
		"the operator elsewhere":        {operator, "kube-system", wanted},
		// SE-01: whoever takes over a node finds no token, and this account has no rights.
		"package pods": {nobody("nodewright-packages"), namespace, basic},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			slices.Sort(tc.want)
			if diff := cmp.Diff(slices.Compact(tc.want), rights(t, tc.who, tc.namespace)); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
		})
	}
	for name, attributes := range map[string]authorizationv1.ResourceAttributes{
		"create nodes":            {Verb: "create", Resource: "nodes"},
		"patch nodes/status":      {Verb: "patch", Resource: "nodes", Subresource: "status"},
		"read secrets":            {Verb: "get", Resource: "secrets", Namespace: "kube-system"},
		"list all secrets":        {Verb: "list", Resource: "secrets"},
		"read its own secrets":    {Verb: "get", Resource: "secrets", Namespace: namespace},
		"exec":                    {Verb: "create", Resource: "pods", Subresource: "exec", Namespace: namespace},
		"mint tokens":             {Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: namespace},
		"impersonate":             {Verb: "impersonate", Resource: "users"},
		"escalate":                {Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		"bind":                    {Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		"break the glass":         {Verb: "override", Group: "nodewright.nvidia.com", Resource: "nodewrights", Subresource: "nodestate"},
		"change webhooks (WH-10)": {Verb: "patch", Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
	} {
		t.Run("may not "+name, func(t *testing.T) {
			review, err := bed.admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: operator.user, Groups: operator.groups, ResourceAttributes: &attributes},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed {
				t.Errorf("the operator may: %s", review.Status.Reason)
			}
		})
	}
}

// rights is what kubectl auth can-i --list shows, one line per verb.
func rights(t *testing.T, who identity, in string) []string {
	t.Helper()
	config := bed.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: who.user, Groups: who.groups}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(context.Background(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: in},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if review.Status.Incomplete {
		t.Fatalf("the list is incomplete: %s", review.Status.EvaluationError)
	}
	var lines []string
	for _, r := range review.Status.ResourceRules {
		lines = append(lines, lineOf(r.Verbs, r.APIGroups, r.Resources, r.ResourceNames)...)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func granted(rules []rbacv1.PolicyRule) []string {
	var lines []string
	for _, r := range rules {
		lines = append(lines, lineOf(r.Verbs, r.APIGroups, r.Resources, r.ResourceNames)...)
	}
	return lines
}

func lineOf(verbs, groups, resources, names []string) []string {
	var lines []string
	for _, verb := range verbs {
		for _, group := range groups {
			for _, resource := range resources {
				lines = append(lines, verb+" "+resource+"."+group+" "+strings.Join(names, ","))
			}
		}
	}
	return lines
}
