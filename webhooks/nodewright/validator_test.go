package nodewright

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
	"github.com/nodewright/nodewright/webhooks/answer"
)

// world is the cluster as the webhook sees it.
type world struct {
	nodes []corev1.Node
	// cached and live are the policies that the cache and the API server have.
	cached, live map[string]bool
	lists, gets  int
	err          error
}

func (w *world) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	w.lists++
	list.(*corev1.NodeList).Items = w.nodes
	return w.err
}

// policies are one of the sources of policies.
type policies struct {
	have map[string]bool
	gets *int
	err  error
}

func (p policies) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	*p.gets++
	if p.err != nil {
		return p.err
	}
	if !p.have[key.Name] {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("deploymentpolicies").GroupResource(), key.Name)
	}
	return nil
}

// validate asks the handler that is registered.
func validate(t testing.TB, w *world, req admission.Request) admission.Response {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cached := 0
	v := &validator{
		nodes: w, policies: policies{have: w.cached, gets: &cached}, live: policies{w.live, &w.gets, w.err},
		rules: validation.Rules{AllowedRegistries: []string{"r"}},
	}
	return hook(scheme, v).Handle(t.Context(), req)
}

// object is a NodeWright in JSON with this package, and more of a spec.
func object(pkg, more string) string {
	return `{"apiVersion":"nodewright.nvidia.com/v1alpha1","kind":"NodeWright","metadata":{"name":"gpu"},"spec":{` +
		`"nodeSelectors":{"matchLabels":{"a":"b"}},"packages":{"pa":{"image":"r/p",` + pkg + `}}` + more + `}}`
}

func holding(names ...string) []corev1.Node {
	key := nodestate.NewPackageKey(nodestate.KindNodeState, "gpu", "pa").String()
	var out []corev1.Node
	for _, name := range names {
		out = append(out, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{key: "{}"}}})
	}
	return append(out, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
}

func TestValidator(t *testing.T) {
	const removable = `"version":"2.0.0","uninstall":{"enabled":true}`
	without := strings.Replace(object("", ""), `"packages":{"pa":{"image":"r/p",}}`, `"packages":{}`, 1)
	tests := map[string]struct {
		req   admission.Request
		world world
		// want are words of the refusal, warn of a warning.
		want, warn string
		// lists of nodes, and live reads of a policy.
		lists, gets int
	}{
		"create":                      {req: request(admissionv1.Create, object(`"version":"1.0.0"`, ""), "")},
		"create a wrong one":          {req: request(admissionv1.Create, object(`"version":"x"`, ""), ""), want: "spec.packages[pa].version"},
		"update":                      {req: request(admissionv1.Update, object(`"version":"2.0.0"`, ""), object(`"version":"1.0.0"`, ""))},
		"update to a wrong one":       {req: request(admissionv1.Update, object(`"version":"x"`, ""), object(`"version":"1.0.0"`, "")), want: "spec.packages[pa].version"},
		"same spec, wrong since ever": {req: request(admissionv1.Update, object(`"version":"x"`, ""), object(`"version":"x"`, ""))},
		"delete a wrong one":          {req: request(admissionv1.Delete, "", object(`"version":"x"`, ""))},
		"registry that is not allowed": {
			req:  request(admissionv1.Create, strings.Replace(object(`"version":"1.0.0"`, ""), "r/p", "q/p", 1), ""),
			want: "allowedRegistries",
		},
		"WH-17 removal": {
			req:   request(admissionv1.Update, without, object(removable, "")),
			world: world{nodes: holding("n1", "n2")}, want: "2 nodes: n1, n2", lists: 1,
		},
		"WH-17 removal, no node has it": {
			req: request(admissionv1.Update, without, object(removable, "")), world: world{nodes: holding()}, lists: 1,
		},
		"WH-17 nodes are unknown": {
			req: request(admissionv1.Update, without, object(removable, "")), world: world{err: errors.New("away")}, want: "away", lists: 1,
		},
		"UP-13 downgrade": {
			req:   request(admissionv1.Update, object(`"version":"1.0.0","uninstall":{"enabled":true}`, ""), object(removable, "")),
			world: world{nodes: holding("n1")}, want: "from 2.0.0 down to 1.0.0", lists: 1,
		},
		"cancel": {
			req:  request(admissionv1.Update, object(removable, ""), object(`"version":"2.0.0","uninstall":{"enabled":true,"apply":true}`, "")),
			warn: "cancelled",
		},
		// An earlier schema admitted it: whoever mends it must not be held up.
		"stored form cannot be read": {
			req:  request(admissionv1.Update, object(`"version":"1.0.0"`, ""), object(`"version":"1.0.0"`, `,"stageTimeout":"1d"`)),
			warn: "only what is to be stored",
		},
		"stored form cannot be read, nor is the new one right": {
			req:  request(admissionv1.Update, object(`"version":"x"`, ""), object(`"version":"1.0.0"`, `,"stageTimeout":"1d"`)),
			want: "spec.packages[pa].version", warn: "only what is to be stored",
		},
		"neither form can be read": {
			req:  request(admissionv1.Update, object(`"version":"2.0.0"`, `,"stageTimeout":"1d"`), object(`"version":"1.0.0"`, `,"stageTimeout":"1d"`)),
			want: "correct the field",
		},
		"policy in the cache": {
			req:   request(admissionv1.Create, object(`"version":"1.0.0"`, `,"deploymentPolicy":"p"`), ""),
			world: world{cached: map[string]bool{"p": true}}, warn: "does not support",
		},
		"ST-23 policy that the cache does not know yet": {
			req:   request(admissionv1.Create, object(`"version":"1.0.0"`, `,"deploymentPolicy":"p"`), ""),
			world: world{live: map[string]bool{"p": true}}, warn: "does not support", gets: 1,
		},
		"ST-23 policy that comes later": {
			req:  request(admissionv1.Create, object(`"version":"1.0.0"`, `,"deploymentPolicy":"p"`), ""),
			warn: "there is no DeploymentPolicy p", gets: 1,
		},
		"policy cannot be read": {
			req:   request(admissionv1.Create, object(`"version":"1.0.0"`, `,"deploymentPolicy":"p"`), ""),
			world: world{err: errors.New("away")}, warn: "does not support", gets: 1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			resp := validate(t, &tc.world, tc.req)
			text := fmt.Sprint(resp.Result)
			if resp.Allowed != (tc.want == "") || !strings.Contains(text, tc.want) {
				t.Errorf("allowed %t, %s; want a refusal that says %q", resp.Allowed, text, tc.want)
			}
			if warnings := strings.Join(resp.Warnings, "\n"); tc.warn != "" && !strings.Contains(warnings, tc.warn) || tc.warn == "" && warnings != "" {
				t.Errorf("warnings %q, want one that says %q", warnings, tc.warn)
			}
			if tc.world.lists != tc.lists || tc.world.gets != tc.gets {
				t.Errorf("%d lists of nodes and %d live reads, want %d and %d", tc.world.lists, tc.world.gets, tc.lists, tc.gets)
			}
		})
	}
}

// All errors come at once, as the API server's own do: kind, name, and a cause
// for each field.
func TestRefusalIsInvalid(t *testing.T) {
	resp := validate(t, &world{}, request(admissionv1.Create, object(`"version":"x","name":"pb","containerSHA":"y"`, `,"priority":0`), ""))
	if resp.Result == nil || resp.Result.Reason != metav1.StatusReasonInvalid || resp.Result.Code != 422 || resp.Result.Details == nil {
		t.Fatalf("result %v, want an Invalid", resp.Result)
	}
	var got []string
	for _, c := range resp.Result.Details.Causes {
		got = append(got, c.Field)
	}
	want := "spec.packages[pa].containerSHA spec.packages[pa].name spec.packages[pa].version spec.priority"
	if strings.Join(got, " ") != want || resp.Result.Details.Kind != "NodeWright" || resp.Result.Details.Name != "gpu" {
		t.Errorf("%s %s: fields %v, want %s", resp.Result.Details.Kind, resp.Result.Details.Name, got, want)
	}
}

func TestDecisionsAreCounted(t *testing.T) {
	count := func(operation, decision string) float64 {
		return testutil.ToFloat64(decisions.WithLabelValues(webhookValidate, operation, decision))
	}
	refused, admitted := count("CREATE", answer.Refused), count("CREATE", answer.Admitted)
	validate(t, &world{}, request(admissionv1.Create, object(`"version":"x"`, ""), ""))
	validate(t, &world{}, request(admissionv1.Create, object(`"version":"1"`, ""), ""))
	if count("CREATE", answer.Refused) != refused+1 || count("CREATE", answer.Admitted) != admitted+1 {
		t.Errorf("refused %v to %v, admitted %v to %v", refused, count("CREATE", answer.Refused), admitted, count("CREATE", answer.Admitted))
	}
}
