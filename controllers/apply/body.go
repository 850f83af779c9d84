package apply

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// body of the request: the keys, name, UID and a version if it matters, and
// nothing else: a field with a zero value would be taken from its owner. Without
// the UID an apply to a deleted node would create an empty one.
func (in intent) body(node *corev1.Node) ([]byte, error) {
	c := corev1ac.Node(node.Name).WithUID(node.UID)
	if in.version != "" {
		c.WithResourceVersion(in.version)
	}
	if len(in.annotations) > 0 {
		c.WithAnnotations(in.annotations)
	}
	if len(in.labels) > 0 {
		c.WithLabels(in.labels)
	}
	if in.unschedulable {
		c.WithSpec(corev1ac.NodeSpec().WithUnschedulable(true))
	}
	body, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode apply to node %s: %w", node.Name, err)
	}
	return EscapeForYAML(body), nil
}

// EscapeForYAML makes a JSON text mean the same to a YAML reader, which is what
// the API server reads applies with. Raw in a string, some characters are refused
// there (DEL and other control characters), some are taken for line breaks and
// become a space. Log tails and values that others wrote may hold them, and one
// would stop every apply that carries it.
func EscapeForYAML(text []byte) []byte {
	if !slices.ContainsFunc(text, func(b byte) bool { return b >= 0x7f }) {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r >= 0x7f && r <= 0x9f, r == '\u2028', r == '\u2029', r == '\ufeff', r == '\ufffe', r == '\uffff':
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, text[i:i+size]...)
		}
		i += size
	}
	return out
}
