package apply

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func at(uid, version string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
}

func TestProgress(t *testing.T) {
	listed := map[string]string{"a": "10", "b": "20"}
	cases := map[string]struct {
		has  []*corev1.Node
		then func(*progress)
		// early: reached with what the informer had.
		early bool
	}{
		"has all":            {has: []*corev1.Node{at("a", "10"), at("b", "21")}, early: true},
		"has a newer object": {has: []*corev1.Node{at("a", "10"), at("b", "20"), at("c", "26")}, early: true},
		"is behind": {
			has:  []*corev1.Node{at("a", "9"), at("b", "20")},
			then: func(p *progress) { p.OnUpdate(at("a", "9"), at("a", "10")) },
		},
		"lacks one": {
			has:  []*corev1.Node{at("a", "10")},
			then: func(p *progress) { p.OnAdd(at("b", "30"), false) },
		},
		"listed object goes": {
			has:  []*corev1.Node{at("a", "9"), at("b", "20")},
			then: func(p *progress) { p.OnDelete(at("a", "31")) },
		},
		"has one that is gone": {
			has:  []*corev1.Node{at("a", "10"), at("b", "20"), at("old", "5")},
			then: func(p *progress) { p.OnDelete(cache.DeletedFinalStateUnknown{Obj: at("old", "5")}) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p := newProgress()
				for _, n := range tc.has {
					p.OnAdd(n, true)
				}
				done := make(chan error, 1)
				go func() { done <- p.reach(ctx, listed, "25") }()
				synctest.Wait()
				if early := len(done) == 1; early != tc.early {
					t.Fatalf("reached: %t, want %t", early, tc.early)
				}
				if tc.then != nil {
					tc.then(p)
					synctest.Wait()
				}
				if len(done) == 0 {
					cancel()
					t.Fatalf("not reached: %v", <-done)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestProgressEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := newProgress().reach(ctx, map[string]string{"a": "1"}, "1")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
