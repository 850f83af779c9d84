package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readSource(t *testing.T, source string) (types, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "types.go"), []byte("package x\n"+source), 0o600); err != nil {
		t.Fatal(err)
	}
	return readTypes(dir)
}

func TestRows(t *testing.T) {
	read, err := readSource(t, "import metav1 \"m\"\n"+`
// Root is it.
type Root struct {
	metav1.TypeMeta `+"`json:\",inline\"`"+`
	// name of it,
	// in two lines.
	//
	// +optional
	Name Word `+"`json:\"name,omitempty\"`"+`
	// parts by name | or not.
	Parts map[string]Part `+"`json:\"parts\"`"+`
	// more of them.
	More []Part `+"`json:\"more\"`"+`
}
// Word is a word.
type Word string
// Part has parts.
type Part struct {
	// after some time.
	After *metav1.Duration `+"`json:\"after\"`"+`
	// inner parts.
	Inner *Part `+"`json:\"inner\"`"+`
}
`)
	if err != nil {
		t.Fatal(err)
	}
	text, err := (&page{title: "T", root: "Root"}).render(read)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(text, "|---|---|---|\n")
	want := "| `name` | string | name of it, in two lines. |\n" +
		"| `parts` | object by name | parts by name \\| or not. |\n" +
		"| `parts.*.after` | duration | after some time. |\n" +
		"| `parts.*.inner` | object | inner parts. |\n" +
		"| `more` | list of object | more of them. |\n" +
		"| `more[].after` | duration | after some time. |\n" +
		"| `more[].inner` | object | inner parts. |\n"
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("table differs (-want +got):\n%s", diff)
	}
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct{ source, want string }{
		"field without comment": {"type Root struct {\n\tA string `json:\"a\"`\n}\n", "field a has no comment"},
		"foreign type":          {"type Root struct {\n\t// a.\n\tA other.Type `json:\"a\"`\n}\n", "other.Type"},
		"unknown type":          {"type Root struct {\n\t// a.\n\tA Missing `json:\"a\"`\n}\n", "Missing"},
		"no root":               {"type Other struct{}\n", "type Root is not in"},
		"no struct":             {"type Root string\n", "no struct"},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := readSource(t, tc.source)
			if err == nil {
				_, err = (&page{root: "Root"}).render(read)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
