package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const crdHead = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  schema:\n"

func TestBound(t *testing.T) {
	for name, tc := range map[string]struct {
		schema string
		want   map[string]any
	}{
		"quantity gets the narrow pattern": {
			schema: "{anyOf: [{type: integer}, {type: string}], pattern: wide, x-kubernetes-int-or-string: true}",
			want: map[string]any{
				"anyOf":                      []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}},
				"pattern":                    quantityPattern,
				"x-kubernetes-int-or-string": true,
			},
		},
		"time gets a pattern": {
			schema: "{type: string, format: date-time}",
			want:   map[string]any{"type": "string", "format": "date-time", "pattern": timePattern},
		},
		"32-bit number gets both bounds": {
			schema: "{type: integer, format: int32}",
			want:   map[string]any{"type": "integer", "format": "int32", "minimum": -2147483648.0, "maximum": 2147483647.0},
		},
		"32-bit number keeps a bound of its own": {
			schema: "{type: integer, format: int32, minimum: 1}",
			want:   map[string]any{"type": "integer", "format": "int32", "minimum": 1.0, "maximum": 2147483647.0},
		},
		"others stay": {
			schema: "{type: integer, format: int64}",
			want:   map[string]any{"type": "integer", "format": "int64"},
		},
		"items and properties are reached": {
			schema: "{type: array, items: {type: object, properties: {format: {type: string, format: date-time}}}}",
			want: map[string]any{"type": "array", "items": map[string]any{"type": "object", "properties": map[string]any{
				"format": map[string]any{"type": "string", "format": "date-time", "pattern": timePattern},
			}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			once, err := bound([]byte(crdHead + "    x: " + tc.schema + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Spec struct {
					Schema struct {
						X map[string]any `json:"x"`
					} `json:"schema"`
				} `json:"spec"`
			}
			if err := yaml.Unmarshal(once, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Spec.Schema.X); diff != "" {
				t.Errorf("bound() differs (-want +got):\n%s", diff)
			}
			twice, err := bound(once)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(once), string(twice)); diff != "" {
				t.Errorf("second bound() differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct {
		files   []string
		wantErr string
	}{
		"no file":      {wantErr: "no files given"},
		"missing file": {files: []string{filepath.Join(dir, "missing")}, wantErr: "read CRD"},
		"other kind":   {files: []string{write("a.yaml", "kind: Pod\n")}, wantErr: "kind is Pod"},
		"no YAML":      {files: []string{write("b.yaml", "a: b: c\n")}, wantErr: "parse YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(tc.files)
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("run() = %v, want %q", err, tc.wantErr)
			}
		})
	}
}
