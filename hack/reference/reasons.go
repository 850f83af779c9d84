package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const reasonsFile = "reasons.md"

// section is one table of the page of reasons: the constants of one kind.
type section struct {
	title, intro string
	sources      []source
}

// source is a file, and how the names of its constants begin.
type source struct{ file, prefix string }

var reasonSections = []section{
	{
		"What a node waits for", "In `reason` of the annotation `nodewright.nvidia.com/slot_<nodewright>` of a node, with `message` and `since` for what it waits for.",
		[]source{{"apis/nodestate/reports.go", "Slot"}},
	},
	{
		"Conditions of a NodeWright", "Types of the conditions in its status.",
		[]source{{"apis/nodewright/v1alpha1/conditions.go", "Condition"}},
	},
	{
		"Reasons of conditions", "They say of all nodes what holds for one at least; `status.problems` has up to 10 nodes of each kind, each with a reason of its own.",
		[]source{{"apis/nodewright/v1alpha1/conditions.go", "Reason"}, {"controllers/rollout/plan/member.go", "Reason"}},
	},
	{
		"Packages on a node, and events", "In `reason` of the annotation `nodewright.nvidia.com/nodeState_<nodewright>_<package>`, and of events. " +
			"A reason that is in no table is the kubelet's, such as `ImagePullBackOff`. Reasons of the tables above stand here as well.",
		[]source{
			{"controllers/node/plan/reasons.go", "Reason"}, {"controllers/node/events.go", "event"}, {"controllers/job/events.go", "Event"},
			{"controllers/job/plan/evidence.go", "Reason"}, {"controllers/rollout/events.go", "reason"}, {"apis/nodestate/reports.go", "Pod"},
		},
	},
}

// constant is a string with a meaning.
type constant struct{ name, value, doc string }

// renderReasons makes the page. A constant without a comment is an error.
func renderReasons(root string) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n# Reasons\n\nWhat nodes, conditions and events give as reason, and what to do where that does not pass by itself.\n", generatedNote)
	var errs []error
	for _, s := range reasonSections {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| Reason | Meaning |\n|---|---|\n", s.title, s.intro)
		var all []constant
		for _, from := range s.sources {
			found, err := readConstants(filepath.Join(root, from.file), from.prefix)
			if err == nil && len(found) == 0 {
				err = fmt.Errorf("%s has no constant %s*", from.file, from.prefix)
			}
			errs = append(errs, err)
			all = append(all, found...)
		}
		slices.SortFunc(all, func(a, b constant) int { return strings.Compare(a.value, b.value) })
		for _, c := range slices.Compact(all) {
			fmt.Fprintf(&out, "| `%s` | %s |\n", c.value, cell(c.doc))
		}
	}
	return out.String(), errors.Join(errs...)
}

// readConstants reads the strings of a file whose names begin so. Constants of
// another type, and those that repeat one of another file, are left out.
func readConstants(name, prefix string) ([]constant, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse file: %w", err)
	}
	var out []constant
	var errs []error
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.CONST {
			continue
		}
		for _, spec := range general.Specs {
			c, ok := constantOf(spec.(*ast.ValueSpec), prefix)
			if !ok {
				continue
			}
			if c.doc == "" && !general.Lparen.IsValid() {
				c.doc = meaning(c.name, general.Doc)
			}
			if c.doc == "" {
				errs = append(errs, fmt.Errorf("%s: constant %s has no comment", filepath.Base(name), c.name))
			}
			out = append(out, c)
		}
	}
	return out, errors.Join(errs...)
}

func constantOf(spec *ast.ValueSpec, prefix string) (c constant, ok bool) {
	if len(spec.Names) != 1 || len(spec.Values) != 1 || spec.Type != nil || !strings.HasPrefix(spec.Names[0].Name, prefix) {
		return constant{}, false
	}
	literal, isLiteral := spec.Values[0].(*ast.BasicLit)
	if !isLiteral || literal.Kind != token.STRING {
		return constant{}, false
	}
	value, err := strconv.Unquote(literal.Value)
	name := spec.Names[0].Name
	return constant{name, value, meaning(name, spec.Doc)}, err == nil
}

// meaning is the comment of a constant without its name.
func meaning(name string, doc *ast.CommentGroup) string {
	text := strings.TrimPrefix(prose(doc), name)
	text = strings.TrimPrefix(strings.TrimPrefix(text, ":"), " is")
	return strings.TrimSpace(text)
}
