package app

import (
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// mapper remembers what a kind maps to. Every list of a cache that is bound to a
// namespace asks for the scope of its kind, and the API server's answer is worked
// out anew each time. It cannot change while the process lives: kinds are
// built in, or have a CustomResourceDefinition, whose scope and plural are
// immutable. Failures are not remembered: a kind may come later.
type mapper struct {
	meta.RESTMapper
	known sync.Map // of kind and versions, to *meta.RESTMapping
}

// newMapper is for the manager's cache and clients.
func newMapper(c *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	dynamic, err := apiutil.NewDynamicRESTMapper(c, client)
	if err != nil {
		return nil, err
	}
	return &mapper{RESTMapper: dynamic}, nil
}

// mappingKey says what was asked for. Versions have no comma.
type mappingKey struct {
	schema.GroupKind
	versions string
}

// RESTMapping is what the kind maps to. Callers do not change it.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	key := mappingKey{GroupKind: kind, versions: strings.Join(versions, ",")}
	if known, ok := m.known.Load(key); ok {
		return known.(*meta.RESTMapping), nil
	}
	found, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err != nil {
		return nil, err
	}
	m.known.Store(key, found)
	return found, nil
}
