package node

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// object is what is read of a Node in a request. The rest, which is most of it,
// is passed over.
type object struct {
	Metadata metadata `json:"metadata"`
	Spec     *struct {
		Taints []corev1.Taint `json:"taints"`
	} `json:"spec"`
}

// metadata is what decisions are made from.
type metadata struct {
	Name          string                      `json:"name"`
	UID           string                      `json:"uid"`
	Labels        map[string]string           `json:"labels"`
	Annotations   map[string]string           `json:"annotations"`
	ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields"`
}

var errNoObject = errors.New("the request has none")

// read decodes a Node of a request, by the API server's rules: names of fields
// are case-sensitive. A field that is there twice is refused, since readers do
// not agree on which one counts.
func read(raw runtime.RawExtension) (*object, error) {
	if len(raw.Raw) == 0 {
		return nil, errNoObject
	}
	var o object
	strict, err := kjson.UnmarshalStrict(raw.Raw, &o, kjson.DisallowDuplicateFields)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, err
	}
	return &o, nil
}

// readManager is the field manager that the options of a request name. It is
// empty where the client left the name to the API server.
func readManager(options runtime.RawExtension) (string, error) {
	if len(options.Raw) == 0 {
		return "", nil
	}
	var o struct {
		FieldManager string `json:"fieldManager"`
	}
	strict, err := kjson.UnmarshalStrict(options.Raw, &o, kjson.DisallowDuplicateFields)
	if err := errors.Join(append(strict, err)...); err != nil {
		return "", fmt.Errorf("read options: %w", err)
	}
	return o.FieldManager, nil
}
