package apply

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// progress follows an informer: which version of each object it has.
type progress struct {
	mu sync.Mutex
	// versions by UID.
	versions map[string]string
	// gone are UIDs that the informer saw go.
	gone map[string]bool
	// changed is closed at the next event.
	changed chan struct{}
}

func newProgress() *progress {
	return &progress{versions: make(map[string]string), gone: make(map[string]bool), changed: make(chan struct{})}
}

// OnAdd implements cache.ResourceEventHandler.
func (p *progress) OnAdd(obj any, _ bool) { p.see(obj) }

// OnUpdate implements cache.ResourceEventHandler.
func (p *progress) OnUpdate(_, obj any) { p.see(obj) }

// OnDelete implements cache.ResourceEventHandler.
func (p *progress) OnDelete(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	o, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	p.event(func() {
		delete(p.versions, string(o.GetUID()))
		p.gone[string(o.GetUID())] = true
	})
}

func (p *progress) see(obj any) {
	o, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	p.event(func() { p.versions[string(o.GetUID())] = o.GetResourceVersion() })
}

func (p *progress) event(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// reach waits until the informer is not behind a list that has this version:
// objects in the list are there as listed or newer, or gone since; objects that
// are not in the list are gone, or newer than the list.
func (p *progress) reach(ctx context.Context, listed map[string]string, version string) error {
	missing := maps.Clone(listed)
	for {
		behind, changed := p.behind(listed, missing, version)
		if behind == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d objects in the informer: %w", behind, ctx.Err())
		}
	}
}

// behind counts the objects that the informer has not reached, and gives the
// channel that tells of the next event. What it has reached is taken out of
// missing.
func (p *progress) behind(listed, missing map[string]string, version string) (int, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(missing, func(uid, wanted string) bool {
		has, ok := p.versions[uid]
		return p.gone[uid] || ok && !older(has, wanted)
	})
	behind := len(missing)
	for uid, has := range p.versions {
		if _, ok := listed[uid]; !ok && !older(version, has) {
			behind++
		}
	}
	return behind, p.changed
}
