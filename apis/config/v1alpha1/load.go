package v1alpha1

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// Load reads a configuration file, JSON or YAML, and fills in defaults. A field
// that does not exist, or stands twice, is an error that names it and its line:
// a setting with a slip of the pen must not be without effect. What the values
// may be is for package validation, but for what cannot be decoded.
func Load(data []byte) (*ManagerConfiguration, error) {
	c, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("read manager configuration: %w", err)
	}
	SetDefaults(c)
	return c, nil
}

func decode(data []byte) (*ManagerConfiguration, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	if apiVersion, kind := text(root, "apiVersion"), text(root, "kind"); apiVersion != APIVersion || kind != Kind {
		return nil, fmt.Errorf("it is of apiVersion %q and kind %q, this manager reads %s %s", apiVersion, kind, APIVersion, Kind)
	}
	if err := checkTree(root); err != nil {
		return nil, err
	}
	asJSON, err := sigsyaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("parse YAML: %w", err)
	}
	c := &ManagerConfiguration{}
	strict, err := kjson.UnmarshalStrict(asJSON, c, kjson.DisallowUnknownFields)
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return c, errors.Join(withLines(root, strict)...)
}

// parse gives the tree of the only document in data.
func parse(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("it is empty: it needs apiVersion: %s and kind: %s", APIVersion, Kind)
	case err != nil:
		return nil, fmt.Errorf("parse YAML: %w", err)
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one YAML document: put all into one")
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("it is not a YAML mapping")
	}
	return root, nil
}

// text of a field at the top, empty if there is none.
func text(root *yaml.Node, name string) string {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == name {
			return root.Content[i+1].Value
		}
	}
	return ""
}
