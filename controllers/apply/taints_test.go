package apply

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is sent names the list that was looked at, and touches only what changes.
func TestTaintPatch(t *testing.T) {
	ours := corev1.Taint{Key: "a.example.com/k", Value: "v", Effect: corev1.TaintEffectNoSchedule}
	other := corev1.Taint{Key: "b", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}}
	theirs := ours
	theirs.Value = "w"
	evicting := ours
	evicting.Effect = corev1.TaintEffectNoExecute
	dated := ours
	dated.TimeAdded = other.TimeAdded
	const (
		oursJSON  = `{"effect":"NoSchedule","key":"a.example.com/k","value":"v"}`
		otherJSON = `{"effect":"NoExecute","key":"b","timeAdded":"2026-01-01T12:00:00Z"}`
		uid       = `{"op":"test","path":"/metadata/uid","value":"u"}`
		version   = `{"op":"test","path":"/metadata/resourceVersion","value":"7"}`
		list      = `{"op":"test","path":"/spec/taints","value":`
	)
	tests := map[string]struct {
		taints []corev1.Taint
		change TaintChange
		want   string
	}{
		"nothing to do":              {[]corev1.Taint{other}, TaintChange{}, ""},
		"remove what is not there":   {[]corev1.Taint{other}, TaintChange{Remove: []corev1.Taint{ours}}, ""},
		"remove another value":       {[]corev1.Taint{theirs}, TaintChange{Remove: []corev1.Taint{ours}}, ""},
		"remove another effect":      {[]corev1.Taint{evicting}, TaintChange{Remove: []corev1.Taint{ours}}, ""},
		"put what is there":          {[]corev1.Taint{other, ours}, TaintChange{Put: &ours}, ""},
		"put beside another value":   {[]corev1.Taint{theirs}, TaintChange{Put: &ours}, ""},
		"put on none":                {nil, TaintChange{Put: &ours}, `[` + uid + `,` + list + `null},` + version + `,{"op":"add","path":"/spec/taints","value":[` + oursJSON + `]}]`},
		"put behind others":          {[]corev1.Taint{other}, TaintChange{Put: &ours}, `[` + uid + `,` + list + `[` + otherJSON + `]},` + version + `,{"op":"add","path":"/spec/taints/-","value":` + oursJSON + `}]`},
		"remove the only one":        {[]corev1.Taint{ours}, TaintChange{Remove: []corev1.Taint{ours}}, `[` + uid + `,` + list + `[` + oursJSON + `]},{"op":"remove","path":"/spec/taints/0"}]`},
		"remove whenever it came":    {[]corev1.Taint{dated, other}, TaintChange{Remove: []corev1.Taint{ours}}, `[` + uid + `,` + list + `[{"effect":"NoSchedule","key":"a.example.com/k","timeAdded":"2026-01-01T12:00:00Z","value":"v"},` + otherJSON + `]},{"op":"remove","path":"/spec/taints/0"}]`},
		"remove several, last first": {[]corev1.Taint{ours, other, evicting}, TaintChange{Remove: []corev1.Taint{ours, evicting}}, `[` + uid + `,` + list + `[` + oursJSON + `,` + otherJSON + `,{"effect":"NoExecute","key":"a.example.com/k","value":"v"}]},{"op":"remove","path":"/spec/taints/2"},{"op":"remove","path":"/spec/taints/0"}]`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u", ResourceVersion: "7"}}
			node.Spec.Taints = tc.taints
			body, err := tc.change.patch(node)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if body != nil {
					t.Fatalf("patch %s, want none", body)
				}
				return
			}
			var got, want any
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}
