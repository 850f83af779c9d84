package envtest

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/test/faults"
)

// What the read-your-writes consistency of controller-runtime does and does not
// do. It is experimental: docs/decisions/001-read-your-writes.md builds on these
// facts, and a new version has to pass them.
func TestReadYourWritesFacts(t *testing.T) {
	const key, body = "example.com/k", `{"apiVersion":"v1","kind":"Node","metadata":{"annotations":{"example.com/k":"v"}}}`
	apply := func(t *testing.T, p *process, name string) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return p.client.Patch(t.Context(), node, client.RawPatch(types.ApplyYAMLPatchType, []byte(body)), client.FieldOwner("test"))
	}
	// get reads through the client, for a moment.
	get := func(t *testing.T, p *process, name string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), impatient)
		defer cancel()
		var node corev1.Node
		err := p.client.Get(ctx, client.ObjectKey{Name: name}, &node)
		return node.Annotations[key], err
	}
	cases := map[string]func(t *testing.T, p *process, name string){
		"a read waits for an apply": func(t *testing.T, p *process, name string) {
			p.lag.Set(faults.Hold)
			if err := apply(t, p, name); err != nil {
				t.Fatal(err)
			}
			if value, err := get(t, p, name); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("read %q, error %v, want a wait", value, err)
			}
			p.lag.Set(0)
			if value, err := get(t, p, name); err != nil || value != "v" {
				t.Errorf("read %q, error %v after the lag", value, err)
			}
		},
		"a read does not wait for an apply that changed nothing": func(t *testing.T, p *process, name string) {
			if err := apply(t, p, name); err != nil {
				t.Fatal(err)
			}
			p.awaitCache(t, liveNode(t, name))
			p.lag.Set(faults.Hold)
			if err := apply(t, p, name); err != nil {
				t.Fatal(err)
			}
			if value, err := get(t, p, name); err != nil || value != "v" {
				t.Errorf("read %q, error %v", value, err)
			}
		},
		"a read does not wait for an apply that failed, also if it took effect": func(t *testing.T, p *process, name string) {
			p.lag.Set(faults.Hold)
			p.injector.Next(1, faults.Cut, faults.IsWrite("nodes"))
			if err := apply(t, p, name); !errors.Is(err, faults.ErrCut) {
				t.Fatal(err)
			}
			if value, err := get(t, p, name); err != nil || value != "" {
				t.Errorf("read %q, error %v, want the old state", value, err)
			}
			if got := liveNode(t, name).Annotations[key]; got != "v" {
				t.Errorf("the apply took no effect: %q", got)
			}
		},
		"a read of another node does not wait": func(t *testing.T, p *process, name string) {
			other := createNode(t, nil)
			p.awaitCache(t, other)
			p.lag.Set(faults.Hold)
			if err := apply(t, p, name); err != nil {
				t.Fatal(err)
			}
			if _, err := get(t, p, other.Name); err != nil {
				t.Error(err)
			}
		},
		"a list waits for all, unless it is told not to": func(t *testing.T, p *process, name string) {
			p.lag.Set(faults.Hold)
			if err := apply(t, p, name); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), impatient)
			defer cancel()
			var nodes corev1.NodeList
			if err := p.client.List(ctx, &nodes); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("list: %v, want a wait", err)
			}
			if err := p.client.List(t.Context(), &nodes, client.DisableReadYourWritesConsistency); err != nil || len(nodes.Items) == 0 {
				t.Errorf("list without consistency: %d nodes, %v", len(nodes.Items), err)
			}
		},
	}
	for name, fact := range cases {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, processOptions{})
			node := createNode(t, nil)
			p.awaitCache(t, node)
			fact(t, p, node.Name)
		})
	}
}
