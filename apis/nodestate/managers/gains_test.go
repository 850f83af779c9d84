package managers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

const prefix = "nodewright.nvidia.com/"

// ours are the keys that the tests protect: all of the prefix but notes.
var ours = Protected{Prefix: prefix, Has: func(key string) bool { return !strings.HasSuffix(key, "note") }}

func annotated(keys ...string) string { return fields(keys, nil, false) }

func inV2(e metav1.ManagedFieldsEntry) metav1.ManagedFieldsEntry {
	e.APIVersion = "v2"
	return e
}

func later(e metav1.ManagedFieldsEntry) metav1.ManagedFieldsEntry {
	now := metav1.Now()
	e.Time = &now
	return e
}

func TestGains(t *testing.T) {
	type entries = []metav1.ManagedFieldsEntry
	node := entry("nodewright-node", apply, "", annotated(stateKey, statusKey))
	edit := entry("kubectl-edit", update, "", annotated(stateKey))
	gain := func(m metav1.ManagedFieldsEntry, f Field) Gain { return Gain{Manager: of(&m), Field: f} }
	gitops := entry("gitops", apply, "", annotated(stateKey))
	broken := entry("odd", update, "", `{"f:metadata":{"f:annotations":{"f:`+stateKey)
	v2 := node
	v2.FieldsType = "FieldsV2"
	other := entry("odd", apply, "", annotated("example.com/x"))
	other.FieldsType = "FieldsV2"
	cases := map[string]struct {
		before, after entries
		want          []Gain
		wantErr       string
	}{
		"nothing":             {},
		"only the time":       {before: entries{node}, after: entries{later(node)}},
		"another order":       {before: entries{node, edit}, after: entries{edit, node}},
		"a manager leaves":    {before: entries{node, edit}, after: entries{node}},
		"all managers leave":  {before: entries{node, edit}},
		"a foreign key":       {before: entries{node}, after: entries{node, entry("gitops", apply, "", annotated("example.com/x"))}},
		"a user's key":        {before: entries{node}, after: entries{node, entry("gitops", apply, "", annotated(prefix+"note"))}},
		"an apply":            {before: entries{node}, after: entries{node, gitops}, want: []Gain{gain(gitops, Annotation(stateKey))}},
		"an apply that stood": {before: entries{node, gitops}, after: entries{node, later(gitops)}},
		"an apply that stood and takes more": {
			before: entries{gitops}, after: entries{entry("gitops", apply, "", annotated(stateKey, statusKey, "example.com/x"))},
			want: []Gain{gain(gitops, Annotation(statusKey))},
		},
		"an apply through the status": {
			before: entries{gitops}, after: entries{gitops, entry("gitops", apply, "status", annotated(stateKey))},
			want: []Gain{gain(entry("gitops", apply, "status", ""), Annotation(stateKey))},
		},
		"an apply that lets another go": {before: entries{gitops}, after: entries{entry("argo", apply, "", annotated(stateKey))},
			want: []Gain{gain(entry("argo", apply, "", ""), Annotation(stateKey))}},
		"a label": {before: entries{node}, after: entries{node, entry("gitops", apply, "", fields(nil, []string{statusKey}, false))},
			want: []Gain{gain(gitops, Label(statusKey))}},
		"an update": {before: entries{node}, after: entries{node, edit}, want: []Gain{gain(edit, Annotation(stateKey))}},
		"an update under another name": {before: entries{node, edit},
			after: entries{node, entry("ancient-changes", update, "", annotated(stateKey))}},
		"updates that are folded": {
			before: entries{edit, entry("a", update, "", annotated(statusKey))},
			after:  entries{entry("ancient-changes", update, "", annotated(stateKey, statusKey))},
		},
		"an update under another name and one more": {
			before: entries{edit},
			after:  entries{entry("a", update, "", annotated(stateKey)), entry("b", update, "", annotated(stateKey))},
			want: []Gain{gain(entry("a", update, "", ""), Annotation(stateKey)),
				gain(entry("b", update, "", ""), Annotation(stateKey))},
		},
		"an update in the place of an apply": {before: entries{gitops}, after: entries{edit}, want: []Gain{gain(edit, Annotation(stateKey))}},
		"before the first apply": {
			after: entries{entry("before-first-apply", update, "", annotated(stateKey)), entry("gitops", apply, "", annotated("example.com/x"))},
		},
		"before the first apply, which takes": {
			after: entries{entry("before-first-apply", update, "", annotated(stateKey)), gitops},
			want:  []Gain{gain(gitops, Annotation(stateKey))},
		},
		"before the first apply, by apply": {after: entries{entry("before-first-apply", apply, "", annotated(stateKey))},
			want: []Gain{gain(entry("before-first-apply", apply, "", ""), Annotation(stateKey))}},
		"a stranger who calls himself that": {before: entries{node}, after: entries{node, entry("before-first-apply", update, "", annotated(stateKey))},
			want: []Gain{gain(entry("before-first-apply", update, "", ""), Annotation(stateKey))}},
		"an update where nobody was noted": {after: entries{edit}, want: []Gain{gain(edit, Annotation(stateKey))}},
		"an entry per API version": {
			before: entries{{Manager: "gitops", Operation: apply, APIVersion: "v2", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(annotated(stateKey))}},
			after:  entries{gitops},
		},
		"a key with an escape": {after: entries{entry("gitops", apply, "", strings.ReplaceAll(annotated(stateKey), "nodewright.nvidia.com/nodeState", `nodewright.nvidia.com\u002fnodeState`))},
			want: []Gain{gain(gitops, Annotation(stateKey))}},
		"a key with fields of its own": {
			after: entries{entry("gitops", apply, "", `{"f:metadata":{"f:annotations":{"f:`+stateKey+`":{"f:x":{}}}}}`)},
			want:  []Gain{gain(gitops, Annotation(stateKey))},
		},
		"an entry that cannot be read": {before: entries{node}, after: entries{node, broken, gitops},
			want: []Gain{gain(gitops, Annotation(stateKey))}, wantErr: "odd (Update)"},
		"an entry that could not be read before": {before: entries{node, broken}, after: entries{later(node), broken}},
		"an entry of another form":               {after: entries{v2}, wantErr: "FieldsV1"},
		"an entry of another form without keys":  {after: entries{other}, wantErr: "FieldsV1"},
		"an entry that takes another form":       {before: entries{node}, after: entries{v2}, wantErr: "FieldsV1"},
		"an update under another name, with fields of its own": {
			before: entries{edit}, after: entries{entry("a", update, "", `{"f:metadata":{"f:annotations":{"f:`+stateKey+`":{".":{},"f:x":{}}}}}`)},
		},
		"an update in the place of what is neither": {before: entries{entry("odd", "Other", "", annotated(stateKey))}, after: entries{edit},
			want: []Gain{gain(edit, Annotation(stateKey))}},
		"an apply in two API versions": {before: entries{node}, after: entries{node, gitops, inV2(gitops)}, want: []Gain{gain(gitops, Annotation(stateKey))}},
		"an apply that stood, beside one that could not be read": {
			before: entries{entry("gitops", apply, "", `{"f:`), inV2(gitops)}, after: entries{entry("gitops", apply, "", annotated(stateKey, "example.com/x"))},
		},
		"an entry without keys that cannot be read": {after: entries{
			entry("odd", update, "", `{"f:spec":`)}},
		"reset": {before: entries{node, edit}, after: entries{{}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Gains(tc.before, tc.after, ours)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(Field{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("gains (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFieldKey(t *testing.T) {
	cases := map[string]struct {
		field     Field
		wantKey   string
		wantLabel bool
		wantText  string
	}{
		"annotation": {Annotation(stateKey), stateKey, false, "annotation " + stateKey},
		"label":      {Label(statusKey), statusKey, true, "label " + statusKey},
		"cordon":     {Unschedulable(), "", false, "spec.unschedulable"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.field.Key() != tc.wantKey || tc.field.IsLabel() != tc.wantLabel || tc.field.String() != tc.wantText {
				t.Errorf("%s: key %q, label %t", tc.field, tc.field.Key(), tc.field.IsLabel())
			}
		})
	}
}

// model is who holds which annotation, as a person would note it: an entry per
// manager.
type model map[Manager]map[string]bool

func drawModel(t *rapid.T, name string) model {
	m := model{}
	for range rapid.IntRange(0, 5).Draw(t, name) {
		manager := Manager{
			Name:        rapid.SampledFrom([]string{"a", "b", "nodewright-node", beforeFirstApply, "ancient-changes"}).Draw(t, "manager"),
			Operation:   rapid.SampledFrom([]metav1.ManagedFieldsOperationType{apply, update}).Draw(t, "operation"),
			Subresource: rapid.SampledFrom([]string{"", "status"}).Draw(t, "subresource"),
		}
		keys := map[string]bool{}
		for _, key := range rapid.SliceOf(rapid.SampledFrom([]string{stateKey, statusKey, prefix + "note", "example.com/x"})).Draw(t, "keys") {
			keys[key] = true
		}
		m[manager] = keys
	}
	return m
}

func (m model) entries(t *rapid.T) []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	for manager, keys := range m {
		var held []string
		for key := range keys {
			held = append(held, key)
		}
		slices.Sort(held)
		out = append(out, entry(manager.Name, manager.Operation, manager.Subresource, annotated(held...)))
	}
	slices.SortFunc(out, func(a, b metav1.ManagedFieldsEntry) int { return of(&a).compare(of(&b)) })
	return rapid.Permutation(out).Draw(t, "order")
}

// gained is what the rules say, word by word, at any cost.
func (m model) gained(before model) map[string]bool {
	out := map[string]bool{}
	updates := func(m model, key string) int {
		n := 0
		for manager, keys := range m {
			if manager.Operation == update && keys[key] {
				n++
			}
		}
		return n
	}
	for manager, keys := range m {
		for key := range keys {
			switch {
			case !strings.HasPrefix(key, prefix) || !ours.Has(key) || before[manager][key]:
			case manager.Operation == update && (updates(m, key) <= updates(before, key) ||
				len(before) == 0 && manager.Name == beforeFirstApply):
			default:
				out[manager.String()+" "+key] = true
			}
		}
	}
	return out
}

func TestGainsAreWhatTheRulesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawModel(t, "before"), drawModel(t, "after")
		if rapid.Bool().Draw(t, "most is the same") {
			for manager, keys := range before {
				after[manager] = keys
			}
		}
		old, now := before.entries(t), after.entries(t)
		gains, err := Gains(old, now, ours)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, g := range gains {
			got[g.Manager.String()+" "+g.Field.Key()] = true
		}
		if diff := cmp.Diff(after.gained(before), got); diff != "" {
			t.Fatalf("gains (-want +got):\n%s", diff)
		}
		if gains, err := Gains(now, now, ours); err != nil || len(gains) != 0 {
			t.Fatalf("a write that changes nothing gains %v (%v)", gains, err)
		}
	})
}

// laden has so many managers, each with keys of ours.
func laden(managers, keys int) []metav1.ManagedFieldsEntry {
	var names []string
	for i := range keys {
		names = append(names, fmt.Sprintf("%s%d", stateKey, i))
	}
	var out []metav1.ManagedFieldsEntry
	for i := range managers {
		out = append(out, entry(fmt.Sprintf("manager-%d", i), update, "", annotated(names...)))
	}
	return out
}

// A kubelet can add managers to its node: what they cost must not grow faster
// than they do, and those that did not change are not decoded.
func TestGainsAreLinear(t *testing.T) {
	changed := func(n int) float64 {
		before, after := laden(n, 10), laden(n, 10)
		for i := range after {
			after[i].Manager += "x"
		}
		return testing.AllocsPerRun(5, func() {
			if _, err := Gains(before, after, ours); err != nil {
				t.Fatal(err)
			}
		})
	}
	if small, large := changed(60), changed(600); large > 11*small {
		t.Errorf("60 managers cost %.0f allocations, 600 cost %.0f", small, large)
	}
	same := laden(600, 10)
	one := append(slices.Clone(same), entry("gitops", apply, "", annotated(stateKey)))
	allocs := testing.AllocsPerRun(5, func() {
		if gains, err := Gains(same, one, ours); err != nil || len(gains) != 1 {
			t.Fatal(gains, err)
		}
	})
	if allocs > 3000 {
		t.Errorf("%.0f allocations where 1 of 601 managers changed", allocs)
	}
}

func BenchmarkGains(b *testing.B) {
	same := laden(600, 10)
	one := append(slices.Clone(same), entry("gitops", apply, "", annotated(stateKey)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Gains(same, one, ours); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzGains(f *testing.F) {
	f.Add([]byte(annotated(stateKey)), []byte(annotated(statusKey)))
	f.Add([]byte(`{}`), []byte(`[`))
	f.Add([]byte(`{"f:metadata":{"f:annotations":{"f:`+stateKey+`":{"k:{\"a\":1}":{}}}}}`), []byte(``))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		old := []metav1.ManagedFieldsEntry{entry("a", apply, "", string(before))}
		now := []metav1.ManagedFieldsEntry{entry("a", apply, "", string(after))}
		gains, err := Gains(old, now, ours)
		if err != nil {
			return
		}
		// What is gained is held after the write, and was not before.
		for _, g := range gains {
			if !g.Field.IsLabel() && slices.Equal(before, after) {
				t.Errorf("%v was gained without a change", g)
			}
		}
		if again, err := Gains(now, now, ours); err != nil || len(again) != 0 {
			t.Errorf("a write that changes nothing gains %v (%v)", again, err)
		}
	})
}
