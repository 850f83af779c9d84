package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

const generatedNote = "<!-- Written by hack/reference from the comments of the Go types. Do not edit: run make generate. -->\n"

// external names the types of other packages that fields have, as a user would.
var external = map[string]string{
	"metav1.Duration":      "duration",
	"metav1.LabelSelector": "label selector",
	"metav1.Condition":     "condition",
	"metav1.Time":          "time",
	"corev1.Toleration":    "toleration",
	"corev1.EnvVar":        "environment variable",
	"resource.Quantity":    "quantity",
	"intstr.IntOrString":   "number or percentage",
	"nodestate.StatusWord": "string",
	"nodestate.Stage":      "string",
}

var basic = map[string]string{
	"string": "string", "bool": "true or false", "int32": "number", "int64": "number",
}

type renderer struct {
	types types
	out   strings.Builder
	rows  []row
}

type row struct{ path, kind, doc string }

func (p *page) render(t types) (string, error) {
	root, ok := t.structs[p.root]
	if !ok {
		return "", fmt.Errorf("type %s is not in %s", p.root, p.dir)
	}
	r := &renderer{types: t}
	fmt.Fprintf(&r.out, "%s\n# %s\n\n%s\n\n%s\n", generatedNote, p.title, root.doc, p.intro)
	r.out.WriteString("| Field | Type | Meaning |\n|---|---|---|\n")
	for _, f := range root.fields {
		if err := r.field(f.name, f, nil); err != nil {
			return "", err
		}
	}
	for _, row := range r.rows {
		fmt.Fprintf(&r.out, "| `%s` | %s | %s |\n", row.path, row.kind, cell(row.doc))
	}
	return r.out.String(), nil
}

// field adds the row of a field and of those below it. above are the structs
// that it is in.
func (r *renderer) field(path string, f fieldType, above []string) error {
	if f.doc == "" {
		return fmt.Errorf("field %s has no comment", path)
	}
	kind, suffix, below, err := r.describe(f.expr)
	if err != nil {
		return fmt.Errorf("field %s: %w", path, err)
	}
	r.rows = append(r.rows, row{path, kind, f.doc})
	if below == "" || slices.Contains(above, below) {
		return nil
	}
	for _, child := range r.types.structs[below].fields {
		if err := r.field(path+suffix+"."+child.name, child, append(slices.Clone(above), below)); err != nil {
			return err
		}
	}
	return nil
}

// describe says what a type is for a user, what follows its path to reach its
// fields, and which struct has these.
func (r *renderer) describe(expr ast.Expr) (kind, suffix, below string, err error) {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return r.describe(e.X)
	case *ast.ArrayType:
		kind, suffix, below, err = r.describe(e.Elt)
		return "list of " + kind, "[]" + suffix, below, err
	case *ast.MapType:
		kind, suffix, below, err = r.describe(e.Value)
		return kind + " by name", ".*" + suffix, below, err
	case *ast.SelectorExpr:
		name := fmt.Sprintf("%s.%s", e.X, e.Sel)
		if kind, ok := external[name]; ok {
			return kind, "", "", nil
		}
		return "", "", "", fmt.Errorf("type %s has no name for users yet", name)
	case *ast.Ident:
		if kind, ok := basic[e.Name]; ok {
			return kind, "", "", nil
		}
		if other, ok := r.types.others[e.Name]; ok {
			return r.describe(other)
		}
		if _, ok := r.types.structs[e.Name]; ok {
			return "object", "", e.Name, nil
		}
		return "", "", "", fmt.Errorf("type %s is not known", e.Name)
	default:
		return "", "", "", fmt.Errorf("type %T is not known", expr)
	}
}

// cell is text that stays within one cell of a table.
func cell(text string) string {
	return strings.NewReplacer("<", "&lt;", "|", `\|`, "*", `\*`, "_", `\_`, "\n\n", "<br>").Replace(text)
}
