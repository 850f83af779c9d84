// Package manifests reads and writes streams of objects, as kustomize renders
// them and kubectl applies them.
package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Read reads objects in YAML or JSON. Empty documents are passed over.
func Read(r io.Reader) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(r, 4<<10); ; {
		var content map[string]any
		switch err := decoder.Decode(&content); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("read manifests: %w", err)
		case len(content) > 0:
			out = append(out, &unstructured.Unstructured{Object: content})
		}
	}
}

// Write writes objects as a stream that Read and kubectl read.
func Write(objects []*unstructured.Unstructured) ([]byte, error) {
	var out bytes.Buffer
	for _, object := range objects {
		if err := json.NewEncoder(&out).Encode(object); err != nil {
			return nil, fmt.Errorf("write manifests: %w", err)
		}
	}
	return out.Bytes(), nil
}
