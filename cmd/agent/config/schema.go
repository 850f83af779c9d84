package config

import (
	"bytes"
	_ "embed" // the schema
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Versions of the schema that are known.
var Versions = []string{"v1"}

//go:embed v1.json
var schemaV1 []byte

const schemaURL = "https://nodewright.nvidia.com/schemas/package/v1.json"

// schema holds the compiled schema and its text, in which each field says what
// would be valid.
var schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaV1))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
})

// validate gives the object beside Problems as well, unless it is of a version of
// which nothing more can be said.
func validate(data []byte) (map[string]any, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", len(data), MaxSize)
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", place(data, err))
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, Problems{{Is: "is not an object", Want: "an object as in schema v1"}}
	}
	// Of another version nothing else can be said.
	if version, ok := object["schema_version"].(string); ok && !slices.Contains(Versions, version) {
		return nil, Problems{{
			Field: "schema_version", Is: fmt.Sprintf("%.100q is not known", version),
			Want: "one of " + strings.Join(Versions, ", "),
		}}
	}
	if problems := longNumbers(object, nil); len(problems) > 0 {
		return object, problems
	}
	s, err := schema()
	if err != nil {
		return nil, fmt.Errorf("compile the schema: %w", err)
	}
	err = s.Validate(tree)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		return object, problemsOf(s, object, invalid)
	}
	return object, err
}

const (
	// maxDigits is how long a number may be, and maxExponent its exponent. The
	// validator computes exactly, which takes a second for 1e999999.
	maxDigits   = 40
	maxExponent = 3
)

// longNumbers finds the numbers that nobody means.
func longNumbers(tree any, at []string) (found Problems) {
	switch t := tree.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(t)) {
			found = append(found, longNumbers(t[name], append(at, name))...)
		}
	case []any:
		for i, value := range t {
			found = append(found, longNumbers(value, append(at, strconv.Itoa(i)))...)
		}
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(t.String()), "e")
		if len(t) > maxDigits || len(strings.TrimLeft(exponent, "+-0")) > maxExponent {
			found = append(found, Problem{Field: Field(at), Is: fmt.Sprintf("%.100q is not valid", t), Want: "a number of a few digits"})
		}
	}
	return found
}

// problemsOf gives the leaves of the error, each field once, in the order of
// their names.
func problemsOf(s *jsonschema.Schema, tree map[string]any, err *jsonschema.ValidationError) Problems {
	found := map[string]Problem{}
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) > 0 {
			for _, cause := range e.Causes {
				walk(cause)
			}
			return
		}
		for _, p := range leaf(s, tree, e) {
			found[p.Field] = p
		}
	}
	walk(err)
	var out Problems
	for _, field := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[field])
	}
	return out
}

// leaf says in the words of a package's author what one failed keyword means.
func leaf(s *jsonschema.Schema, tree map[string]any, e *jsonschema.ValidationError) []Problem {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return each(s, at, k.Missing, "is missing")
	case *kind.AdditionalProperties:
		valid := slices.Sorted(maps.Keys(find(s, at).Properties))
		var out []Problem
		for _, name := range k.Properties {
			out = append(out, Problem{Field: Field(append(slices.Clone(at), name)), Is: "is not known", Want: "one of " + strings.Join(valid, ", ")})
		}
		return out
	case *kind.Type:
		return []Problem{{Field: Field(at), Is: "is of type " + k.Got, Want: want(s, at)}}
	case *kind.MinItems:
		return []Problem{{Field: Field(at), Is: "is empty", Want: want(s, at)}}
	default:
		return []Problem{{Field: Field(at), Is: fmt.Sprintf("%.100q is not valid", fmt.Sprint(value(tree, at))), Want: want(s, at)}}
	}
}

func each(s *jsonschema.Schema, at, names []string, is string) []Problem {
	var out []Problem
	for _, name := range names {
		here := append(slices.Clone(at), name)
		out = append(out, Problem{Field: Field(here), Is: is, Want: want(s, here)})
	}
	return out
}

func want(s *jsonschema.Schema, at []string) string {
	if found := find(s, at); found != nil && found.Description != "" {
		return found.Description
	}
	return "a value as in schema v1"
}

// find gives the part of the schema that is about the value at a place, nil if
// there is none.
func find(s *jsonschema.Schema, at []string) *jsonschema.Schema {
	for s != nil && s.Ref != nil {
		s = s.Ref
	}
	if s == nil || len(at) == 0 {
		return s
	}
	if next, ok := s.Properties[at[0]]; ok {
		return find(next, at[1:])
	}
	if s.Items2020 != nil {
		return find(s.Items2020, at[1:])
	}
	if next, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		return find(next, at[1:])
	}
	return nil
}

// Field writes a place as modes.apply[0].path.
func Field(at []string) string {
	var b strings.Builder
	for i, part := range at {
		switch {
		case part != "" && strings.Trim(part, "0123456789") == "":
			fmt.Fprintf(&b, "[%s]", part)
		case i > 0:
			b.WriteString("." + part)
		default:
			b.WriteString(part)
		}
	}
	return b.String()
}

func value(tree any, at []string) any {
	for _, part := range at {
		switch t := tree.(type) {
		case map[string]any:
			tree = t[part]
		case []any:
			var i int
			if _, err := fmt.Sscanf(part, "%d", &i); err != nil || i < 0 || i >= len(t) {
				return nil
			}
			tree = t[i]
		default:
			return nil
		}
	}
	return tree
}
