// Package live asks the API server itself what caches cannot tell: caches of
// different kinds are not ordered, so one that lacks an object proves nothing.
package live

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// requestTimeout ends each request.
const requestTimeout = 5 * time.Second

// NodeWright reads the metadata of a NodeWright; nil if there is none.
func NodeWright(ctx context.Context, reader client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	nw := &metav1.PartialObjectMetadata{}
	nw.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeWright"))
	err := reader.Get(ctx, client.ObjectKey{Name: name}, nw)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get nodewright %s from the API server: %w", name, err)
	}
	return nw, nil
}
