package v1alpha1

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// durationHint says how a duration is written; errors about one end with it.
const durationHint = "write a number with a unit, such as 90s, 30m or 1h30m; there is no unit for days, write 24h"

// checkTree finds what the decoder would pass over or name badly: keys that are
// there twice, aliases, and durations it cannot read.
func checkTree(root *yaml.Node) error {
	t := tree{}
	t.check(root, reflect.TypeFor[ManagerConfiguration](), "")
	return errors.Join(t.errs...)
}

type tree struct{ errs []error }

func (t *tree) complain(node *yaml.Node, format string, args ...any) {
	t.errs = append(t.errs, fmt.Errorf("line %d: %s", node.Line, fmt.Sprintf(format, args...)))
}

// check walks node beside the type that it will be decoded into; typ is nil
// where the type does not matter.
func (t *tree) check(node *yaml.Node, typ reflect.Type, path string) {
	for typ != nil && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ == reflect.TypeFor[metav1.Duration]() {
		t.duration(node, path)
		return
	}
	switch node.Kind {
	case yaml.MappingNode:
		t.mapping(node, typ, path)
	case yaml.SequenceNode:
		if typ != nil && typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		} else {
			typ = nil
		}
		for i, item := range node.Content {
			t.check(item, typ, path+"["+strconv.Itoa(i)+"]")
		}
	case yaml.AliasNode:
		t.complain(node, "%s: aliases are not supported: write the value out", path)
	}
}

func (t *tree) mapping(node *yaml.Node, typ reflect.Type, path string) {
	lines := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := join(path, key.Value)
		if first, ok := lines[key.Value]; ok {
			t.complain(key, "%s: is there already, in line %d: remove one of the two", at, first)
			continue
		}
		lines[key.Value] = key.Line
		t.check(value, fieldType(typ, key.Value), at)
	}
}

func (t *tree) duration(node *yaml.Node, path string) {
	if node.Tag == "!!null" {
		return
	}
	if node.Kind != yaml.ScalarNode {
		t.complain(node, "%s: must be a duration: %s", path, durationHint)
		return
	}
	// 0 needs no unit, whether it is quoted or not.
	if _, err := time.ParseDuration(node.Value); err != nil || (node.Tag != "!!str" && node.Value != "0") {
		t.complain(node, "%s: %q is not a duration: %s", path, node.Value, durationHint)
		return
	}
	if node.Tag != "!!str" {
		t.complain(node, "%s: write %q in quotes", path, node.Value)
	}
}

// fieldType is the type of the field that has the name in JSON, nil if there is
// none.
func fieldType(typ reflect.Type, name string) reflect.Type {
	if typ == nil || typ.Kind() != reflect.Struct {
		return nil
	}
	for f := range typ.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name && tag != "" {
			return f.Type
		}
	}
	return nil
}

// withLines puts the line before errors that name a field in quotes.
func withLines(root *yaml.Node, errs []error) []error {
	lines := map[string]int{}
	collectLines(root, "", lines)
	out := make([]error, 0, len(errs))
	for _, err := range errs {
		parts := strings.Split(err.Error(), `"`)
		if len(parts) < 2 || lines[parts[1]] == 0 {
			out = append(out, err)
			continue
		}
		out = append(out, fmt.Errorf("line %d: %w: remove it, or look for a typing error", lines[parts[1]], err))
	}
	return out
}

func collectLines(node *yaml.Node, path string, lines map[string]int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			at := join(path, node.Content[i].Value)
			lines[at] = node.Content[i].Line
			collectLines(node.Content[i+1], at, lines)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			collectLines(item, path+"["+strconv.Itoa(i)+"]", lines)
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
