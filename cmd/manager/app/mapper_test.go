package app

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// countingMapper fails for kinds that it does not have, and counts questions.
type countingMapper struct {
	meta.RESTMapper
	kinds map[string]string
	asked int
}

func (c *countingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	c.asked++
	plural, ok := c.kinds[kind.Kind]
	if !ok {
		return nil, errors.New("no such kind")
	}
	return &meta.RESTMapping{Resource: schema.GroupVersionResource{Group: kind.Group, Version: versions[0], Resource: plural}}, nil
}

func TestMapperRemembers(t *testing.T) {
	below := &countingMapper{kinds: map[string]string{"Job": "jobs"}}
	m := &mapper{RESTMapper: below}
	for range 3 {
		for _, version := range []string{"v1", "v2"} {
			got, err := m.RESTMapping(schema.GroupKind{Group: "batch", Kind: "Job"}, version)
			want := schema.GroupVersionResource{Group: "batch", Version: version, Resource: "jobs"}
			if err != nil || got.Resource != want {
				t.Fatalf("Job in %s maps to %v, %v; want %v", version, got, err, want)
			}
		}
	}
	if below.asked != 2 {
		t.Fatalf("asked %d times, want once for each version", below.asked)
	}
}

func TestMapperForgetsFailures(t *testing.T) {
	below := &countingMapper{kinds: map[string]string{}}
	m := &mapper{RESTMapper: below}
	kind := schema.GroupKind{Group: "nodewright.nvidia.com", Kind: "NodeWright"}
	if _, err := m.RESTMapping(kind, "v1alpha1"); err == nil {
		t.Fatal("a kind that is not there maps to something")
	}
	below.kinds["NodeWright"] = "nodewrights"
	if got, err := m.RESTMapping(kind, "v1alpha1"); err != nil || got.Resource.Resource != "nodewrights" {
		t.Fatalf("a kind that came later maps to %v, %v", got, err)
	}
}
