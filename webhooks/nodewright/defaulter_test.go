package nodewright

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// request asks a webhook about the object.
func request(operation admissionv1.Operation, object, old string) admission.Request {
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Name: "gpu", Operation: operation}}
	r.Object = runtime.RawExtension{Raw: []byte(object)}
	if old != "" {
		r.OldObject = runtime.RawExtension{Raw: []byte(old)}
	}
	return r
}

// defaulted is what becomes of an object: the patch is applied to its bytes, as
// the API server does.
func defaulted(t rapid.TB, object string) string {
	t.Helper()
	resp := (&defaulter{}).Handle(context.Background(), request(admissionv1.Create, object, ""))
	if !resp.Allowed {
		t.Fatalf("refused: %v", resp.Result)
	}
	if len(resp.Patches) == 0 {
		return object
	}
	for _, p := range resp.Patches {
		if p.Operation != "add" || !strings.HasSuffix(p.Path, "/name") {
			t.Fatalf("patch %s does more than add a name", p.Json())
		}
	}
	ops, err := json.Marshal(resp.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply([]byte(object))
	if err != nil {
		t.Fatalf("the patch %s cannot be applied to %s: %v", ops, object, err)
	}
	return string(out)
}

// WH-14: what the user wrote keeps its bytes, whatever it is spelled like.
func TestDefaultsKeepBytes_WH14(t *testing.T) {
	const head = `{"apiVersion":"nodewright.nvidia.com/v1alpha1","kind":"NodeWright","metadata":{"name":"gpu"},"spec":`
	tests := map[string]struct{ spec, want string }{
		"quantities and durations": {
			`{"stageTimeout":"60m","packages":{"pa":{"version":"1","image":"r/p","resources":{"cpuRequest":"4000m","cpuLimit":"4000m","memoryRequest":"8192Mi","memoryLimit":"8192Mi"},"gracefulShutdown":"90s"}}}`,
			`{"stageTimeout":"60m","packages":{"pa":{"version":"1","image":"r/p","resources":{"cpuRequest":"4000m","cpuLimit":"4000m","memoryRequest":"8192Mi","memoryLimit":"8192Mi"},"gracefulShutdown":"90s","name":"pa"}}}`,
		},
		"name is there":     {`{"packages":{"pa":{"name":"pa","version":"1"}}}`, `{"packages":{"pa":{"name":"pa","version":"1"}}}`},
		"name is another":   {`{"packages":{"pa":{"name":"pb","version":"1"}}}`, `{"packages":{"pa":{"name":"pb","version":"1"}}}`},
		"name is empty":     {`{"packages":{"pa":{"name":"","version":"1"}}}`, `{"packages":{"pa":{"name":"pa","version":"1"}}}`},
		"key is no name":    {`{"packages":{"p/a":{"version":"1"}}}`, `{"packages":{"p/a":{"version":"1"}}}`},
		"entry is null":     {`{"packages":{"pa":null}}`, `{"packages":{"pa":null}}`},
		"no packages":       {`{}`, `{}`},
		"unknown fields":    {`{"more":1}`, `{"more":1}`},
		"other case":        {`{"Packages":{"pa":{"version":"1"}}}`, `{"Packages":{"pa":{"version":"1"}}}`},
		"cannot be decoded": {`{"stageTimeout":"1d","packages":{"pa":{"version":"1"}}}`, `{"stageTimeout":"1d","packages":{"pa":{"version":"1"}}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := defaulted(t, head+tc.spec+"}")
			if !sameJSON(t, got, head+tc.want+"}") {
				t.Errorf("got %s", got)
			}
		})
	}
}

// sameJSON compares values and their spelling, not the order of fields.
func sameJSON(t rapid.TB, a, b string) bool {
	t.Helper()
	read := func(text string) (out any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	return cmp.Equal(read(a), read(b))
}

// WH-15: whoever defaults, and how often, the object is the same.
func TestDefaultsAreIdempotent_WH15(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]any{nil, "", "pa", "1.0", "4000m", "60m", json.Number("1.50"), true, map[string]any{}})
		entry := rapid.MapOfN(rapid.SampledFrom([]string{"name", "version", "image", "stageTimeout", "unknown"}), value, 0, 4)
		packages := rapid.MapOfN(rapid.SampledFrom([]string{"pa", "p-b", "x_y", "a/b", "a~b"}), entry, 0, 4).Draw(t, "packages")
		object, err := json.Marshal(map[string]any{"spec": map[string]any{"packages": packages, "priority": json.Number("1.0")}})
		if err != nil {
			t.Fatal(err)
		}
		once := defaulted(t, string(object))
		if twice := defaulted(t, once); twice != once {
			t.Fatalf("once\n%s\ntwice\n%s", once, twice)
		}
	})
}

// A handler answers whatever it is asked; only what cannot be decoded is an
// error of the one that validates.
func FuzzHandlers(f *testing.F) {
	f.Add([]byte(`{"spec":{"packages":{"pa":{"version":"1.0","image":"r/p"}}}}`), []byte(`{"spec":{"packages":{"pa":{"version":"2.0","image":"r/p","uninstall":{"enabled":true}}}}}`))
	f.Add([]byte(`{"spec":{"packages":{"pa":null}}}`), []byte(`{}`))
	f.Add([]byte(`{"spec":{"stageTimeout":"1d"}}`), []byte(`null`))
	f.Add([]byte(`[`), []byte(``))
	f.Fuzz(func(t *testing.T, object, old []byte) {
		var spec struct {
			Spec json.RawMessage `json:"spec"`
		}
		if json.Unmarshal(object, &spec) == nil {
			defaulted(t, string(object))
		}
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete} {
			resp := validate(t, &world{}, request(operation, string(object), string(old)))
			if resp.Allowed && operation == admissionv1.Create && !json.Valid(object) {
				t.Fatalf("admitted %q", object)
			}
		}
	})
}

// CV-07: what is no duration passes to the schema, with a hint how to write one.
func TestUndecodableGetsAHint_CV07(t *testing.T) {
	for object, want := range map[string]string{
		`{"spec":{"stageTimeout":60}}`:    "spec.stageTimeout: 60",
		`{"spec":{"stageTimeout":"1d"}}`:  "spec.stageTimeout: 1d",
		`{"spec":{"stageTimeout":"60m"}}`: "",
		`{"spec":{"serial":"yes"}}`:       "",
	} {
		resp := (&defaulter{}).Handle(t.Context(), request(admissionv1.Create, object, ""))
		if text := strings.Join(resp.Warnings, "\n"); !resp.Allowed || !strings.HasPrefix(text, want) || want == "" && text != "" {
			t.Errorf("%s: allowed %t, warnings %q", object, resp.Allowed, text)
		}
	}
}
