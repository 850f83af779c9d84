package managers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	stateKey  = "nodewright.nvidia.com/nodeState_tuning_driver"
	statusKey = "nodewright.nvidia.com/status_tuning"
	apply     = metav1.ManagedFieldsOperationApply
	update    = metav1.ManagedFieldsOperationUpdate
)

func entry(manager string, op metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: op, Subresource: subresource,
		APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

// fields is what the API server writes for these keys.
func fields(annotations, labels []string, unschedulable bool) string {
	member := func(keys []string) string {
		var parts []string
		for _, k := range keys {
			parts = append(parts, fmt.Sprintf("%q:{}", "f:"+k))
		}
		return strings.Join(parts, ",")
	}
	s := fmt.Sprintf(`{"f:metadata":{"f:annotations":{%s},"f:labels":{%s}}`, member(annotations), member(labels))
	if unschedulable {
		s += `,"f:spec":{"f:unschedulable":{}}`
	}
	return s + "}"
}

func TestOwned(t *testing.T) {
	ours := fields([]string{statusKey, stateKey}, []string{statusKey}, true)
	cases := map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    Fields
		wantErr bool
	}{
		"nothing": {},
		"own apply": {
			entries: []metav1.ManagedFieldsEntry{entry("nodewright-node", apply, "", ours)},
			want:    Fields{Annotations: []string{stateKey, statusKey}, Labels: []string{statusKey}, Unschedulable: true},
		},
		"update under the same name": {
			entries: []metav1.ManagedFieldsEntry{entry("nodewright-node", update, "", ours)},
		},
		"apply of the status": {
			entries: []metav1.ManagedFieldsEntry{entry("nodewright-node", apply, "status", ours)},
		},
		"another manager": {
			entries: []metav1.ManagedFieldsEntry{entry("nodewright-job", apply, "", ours)},
		},
		"two API versions": {
			entries: []metav1.ManagedFieldsEntry{
				entry("nodewright-node", apply, "", fields([]string{stateKey}, nil, false)),
				entry("nodewright-node", apply, "", fields([]string{stateKey, statusKey}, nil, false)),
			},
			want: Fields{Annotations: []string{stateKey, statusKey}},
		},
		"the maps themselves": {
			entries: []metav1.ManagedFieldsEntry{entry("nodewright-node", apply, "",
				`{"f:metadata":{"f:annotations":{".":{},"f:`+stateKey+`":{}}}}`)},
			want: Fields{Annotations: []string{stateKey}},
		},
		"own entry cannot be read": {
			entries: []metav1.ManagedFieldsEntry{entry("nodewright-node", apply, "", `{"f:metadata":`)},
			wantErr: true,
		},
		"own entry of another form": {
			entries: []metav1.ManagedFieldsEntry{{
				Manager: "nodewright-node", Operation: apply, FieldsType: "FieldsV2", FieldsV1: metav1.NewFieldsV1(ours),
			}},
			wantErr: true,
		},
		"entry of another cannot be read": {
			entries: []metav1.ManagedFieldsEntry{
				entry("kubectl-edit", update, "", `]`),
				entry("nodewright-node", apply, "", fields([]string{stateKey}, nil, false)),
			},
			want: Fields{Annotations: []string{stateKey}},
		},
		"entry without fields": {
			entries: []metav1.ManagedFieldsEntry{{Manager: "nodewright-node", Operation: apply}},
		},
		"empty fields": {entries: []metav1.ManagedFieldsEntry{entry("nodewright-node", apply, "", "")}},
		"reset":        {entries: []metav1.ManagedFieldsEntry{{}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Owned(tc.entries, "nodewright-node")
			if (err != nil) != tc.wantErr {
				t.Fatalf("error %v, want error: %t", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("owned fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHolders(t *testing.T) {
	entries := []metav1.ManagedFieldsEntry{
		entry("nodewright-node", apply, "", fields([]string{stateKey, statusKey}, []string{statusKey}, true)),
		entry("kubectl-annotate", update, "", fields([]string{stateKey}, nil, false)),
		entry("kubelet", update, "status", fields([]string{stateKey + "2"}, nil, false)),
		entry("kubelet", update, "", fields(nil, []string{statusKey}, false)),
		entry("kubectl-cordon", update, "", fields(nil, nil, true)),
	}
	broken := append([]metav1.ManagedFieldsEntry{entry("odd", update, "", `{"f:`+stateKey+`"`)}, entries...)
	node := Applier("nodewright-node")
	cases := map[string]struct {
		entries []metav1.ManagedFieldsEntry
		field   Field
		want    []Manager
		wantErr bool
	}{
		"annotation": {
			entries: entries, field: Annotation(stateKey),
			want: []Manager{{Name: "kubectl-annotate", Operation: update}, node},
		},
		"a longer key": {
			entries: entries, field: Annotation(stateKey + "2"),
			want: []Manager{{Name: "kubelet", Operation: update, Subresource: "status"}},
		},
		"label": {
			entries: entries, field: Label(statusKey),
			want: []Manager{{Name: "kubelet", Operation: update}, node},
		},
		"annotation of the same name as a label": {
			entries: entries, field: Annotation(statusKey), want: []Manager{node},
		},
		"cordon": {
			entries: entries, field: Unschedulable(),
			want: []Manager{{Name: "kubectl-cordon", Operation: update}, node},
		},
		"nobody": {entries: entries, field: Label("nodewright.nvidia.com/status_other")},
		"an entry that cannot be read": {
			entries: broken, field: Annotation(stateKey), wantErr: true,
			want: []Manager{{Name: "kubectl-annotate", Operation: update}, node},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Holders(tc.entries, tc.field)
			if (err != nil) != tc.wantErr {
				t.Fatalf("error %v, want error: %t", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManagerString(t *testing.T) {
	cases := map[string]Manager{
		"kubelet (Update of status)": {Name: "kubelet", Operation: update, Subresource: "status"},
		"nodewright-node (Apply)":    Applier("nodewright-node"),
	}
	for want, m := range cases {
		if got := m.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzOwned(f *testing.F) {
	f.Add([]byte(fields([]string{stateKey}, []string{statusKey}, true)))
	f.Add([]byte(`{}`))
	f.Add([]byte(``))
	f.Add([]byte(`null`))
	f.Add([]byte(`[`))
	f.Add([]byte(`{"f:metadata":{"k:{\"a\":1}":{},"v:1":{},"i:0":{}}}`))
	f.Add([]byte(strings.Repeat(`{"f:a":`, 20_000)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e := entry("nodewright-node", apply, "", string(raw))
		owned, err := Owned([]metav1.ManagedFieldsEntry{e}, "nodewright-node")
		if err != nil {
			return
		}
		// What is owned is held.
		for _, key := range owned.Annotations {
			if strings.ContainsAny(key, "\"\\<>&\x00\u2028\u2029\ufffd") || !strings.Contains(string(raw), key) {
				continue // not a key that the API server takes
			}
			holders, err := Holders([]metav1.ManagedFieldsEntry{e}, Annotation(key))
			if err != nil || len(holders) != 1 {
				t.Errorf("%q is owned but held by %v (%v)", key, holders, err)
			}
		}
	})
}

// BenchmarkOwned is the case of each reconcile: one manager with many keys on
// a node that other managers write too.
func BenchmarkOwned(b *testing.B) {
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("%s%d", stateKey, i))
	}
	entries := []metav1.ManagedFieldsEntry{entry("nodewright-node", apply, "", fields(keys, nil, false))}
	for i := range 10 {
		entries = append(entries, entry(fmt.Sprintf("other-%d", i), update, "", fields(keys[:i], nil, false)))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Owned(entries, "nodewright-node"); err != nil {
			b.Fatal(err)
		}
	}
}
