package main

import (
	"fmt"
	"math"

	"sigs.k8s.io/yaml"
)

const (
	// quantityPattern admits what resource.Quantity parses: no sign, since no
	// field of ours can be negative, and an exponent that is a small whole number.
	// Up to 2^63-1 the form that a client writes back is admitted as well; it can
	// be longer than what the user wrote, as 115292150460684697600m for .1Ei.
	quantityPattern = `^([0-9]{1,32}([.][0-9]{0,32})?|[.][0-9]{1,32})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
	// timePattern admits RFC 3339. The format date-time alone admits more, such
	// as a time without zone.
	timePattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
)

// bound rewrites one CRD.
func bound(data []byte) ([]byte, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, fmt.Errorf("parse YAML: %w", err)
	}
	if crd["kind"] != "CustomResourceDefinition" {
		return nil, fmt.Errorf("kind is %v, not CustomResourceDefinition", crd["kind"])
	}
	walk(crd["spec"])
	out, err := yaml.Marshal(crd)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return append([]byte("---\n"), out...), nil
}

func walk(v any) {
	switch v := v.(type) {
	case map[string]any:
		boundSchema(v)
		for _, child := range v {
			walk(child)
		}
	case []any:
		for _, child := range v {
			walk(child)
		}
	}
}

// boundSchema bounds v if it is the schema of a value that needs it. A map of
// properties is no such schema: what it holds under these names are maps.
func boundSchema(v map[string]any) {
	if v["x-kubernetes-int-or-string"] == true {
		v["pattern"] = quantityPattern
	}
	switch v["format"] {
	case "date-time":
		v["pattern"] = timePattern
	case "int32":
		setDefault(v, "minimum", math.MinInt32)
		setDefault(v, "maximum", math.MaxInt32)
	}
}

func setDefault(v map[string]any, key string, value int64) {
	if _, ok := v[key]; !ok {
		v[key] = value
	}
}
