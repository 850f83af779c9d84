package apply

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// The body of a request holds the keys, name and UID, and nothing else: a field
// with a zero value would be taken from its owner.
func TestBody_ST29(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", UID: "u1", ResourceVersion: "5",
		Labels: map[string]string{"theirs": "x"}, Annotations: map[string]string{"example.com/theirs": "x"},
	}, Spec: corev1.NodeSpec{ProviderID: "p", Unschedulable: true}}
	cases := map[string]struct {
		want intent
		body string
	}{
		"annotation": {
			intent{annotations: map[string]string{"a": "1"}},
			`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","uid":"u1","annotations":{"a":"1"}}}`,
		},
		"label and cordon": {
			intent{annotations: map[string]string{"a": "1"}, labels: map[string]string{"b": "2"}, unschedulable: true},
			`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","uid":"u1","labels":{"b":"2"},"annotations":{"a":"1"}},"spec":{"unschedulable":true}}`,
		},
		"nothing": {
			intent{},
			`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","uid":"u1"}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			body, err := tc.want.body(node)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.body, string(body)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// awkward holds the characters that JSON has raw and YAML reads otherwise, and
// some that must stay as they are.
const awkward = "a\x7fb\u0080\u0085\u009f\u00a0\u2028\u2029\ufeff\ufffd\ufffe\uffff \U0001f600 \t\n\r\x01 é \\u007f \"'#: "

func FuzzEscapeForYAML(f *testing.F) {
	f.Add(awkward)
	f.Add("")
	f.Add("plain")
	f.Fuzz(func(t *testing.T, value string) {
		text, err := json.Marshal(map[string]string{"k": value})
		if err != nil {
			t.Fatal(err)
		}
		var want, asJSON, asYAML map[string]string
		escaped := EscapeForYAML(text)
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(escaped, &asJSON); err != nil {
			t.Fatalf("not JSON any more: %v", err)
		}
		if err := yaml.Unmarshal(escaped, &asYAML); err != nil {
			t.Fatalf("YAML refuses %q: %v", escaped, err)
		}
		if diff := cmp.Diff(want, asJSON); diff != "" {
			t.Errorf("as JSON (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, asYAML); diff != "" {
			t.Errorf("as YAML (-want +got):\n%s", diff)
		}
	})
}
