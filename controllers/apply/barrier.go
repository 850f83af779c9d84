package apply

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// barrierRetry is the pause after an attempt that failed: the API server may be
	// as new as we are.
	barrierRetry = time.Second
	// barrierCatchUp is how long informers may take to reach one list. Then it is
	// read anew: an object that was deleted before an informer saw it never comes.
	barrierCatchUp = 10 * time.Second
	// barrierPage is the number of objects read with one request.
	barrierPage = 500
)

// BarrierKind is a kind that decisions are made from.
type BarrierKind struct {
	schema.GroupVersionKind
	// Scope has the options that the cache was given for this kind (a namespace or
	// a selector), so that list and cache are about the same objects.
	Scope []client.ListOption
}

// Informers gives the informers of a cache, as manager.GetCache() does.
type Informers interface {
	GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// LeaderBarrier holds writers back after a change of leader until the informers
// have seen what the former leader wrote. A new leader has no memory of writes
// that its reads must not be older than, so it lists each kind from the API
// server once, and waits until its informers have reached what the lists show.
//
// It is a Runnable of the manager that needs leader election, and the Gate of
// the writers.
type LeaderBarrier struct {
	live      client.Reader
	informers Informers
	kinds     []BarrierKind
	passed    chan struct{}
}

// NewLeaderBarrier makes the barrier for these kinds. live reads from the API
// server; informers are those of the cache that the controllers read.
func NewLeaderBarrier(live client.Reader, informers Informers, kinds ...BarrierKind) *LeaderBarrier {
	return &LeaderBarrier{live: live, informers: informers, kinds: kinds, passed: make(chan struct{})}
}

// NeedLeaderElection is true: the lists have to be read as leader.
func (b *LeaderBarrier) NeedLeaderElection() bool { return true }

// Ready tells whether the barrier was passed.
func (b *LeaderBarrier) Ready() bool {
	select {
	case <-b.passed:
		return true
	default:
		return false
	}
}

// Wait implements Gate.
func (b *LeaderBarrier) Wait(ctx context.Context) error {
	if b.Ready() {
		return nil // also where ctx has ended: what follows says so
	}
	select {
	case <-b.passed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until the informers reached the state at the change of leader: %w", ctx.Err())
	}
}

// Start runs once, as leader. It returns when the barrier is passed or ctx ends;
// failures in between are logged and tried again.
func (b *LeaderBarrier) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("leader-barrier")
	for _, kind := range b.kinds {
		err := wait.PollUntilContextCancel(ctx, barrierRetry, true, func(ctx context.Context) (bool, error) {
			err := b.pass(ctx, kind)
			if err != nil && ctx.Err() == nil {
				logger.Error(err, "Informer has not reached the state at the change of leader yet", "kind", kind.Kind)
			}
			return err == nil, nil
		})
		if err != nil {
			return nil // ctx ended: the manager stops
		}
		logger.V(2).Info("Informer has reached the state at the change of leader", "kind", kind.Kind)
	}
	close(b.passed)
	return nil
}

// pass lists one kind and waits until its informer has reached the list.
func (b *LeaderBarrier) pass(ctx context.Context, kind BarrierKind) error {
	ctx, cancel := context.WithTimeout(ctx, barrierCatchUp)
	defer cancel()
	informer, err := b.informers.GetInformerForKind(ctx, kind.GroupVersionKind)
	if err != nil {
		return fmt.Errorf("get the informer of %s: %w", kind.Kind, err)
	}
	// Registered before the list is read, the handler misses nothing after it.
	progress := newProgress()
	registration, err := informer.AddEventHandler(progress)
	if err != nil {
		return fmt.Errorf("watch the informer of %s: %w", kind.Kind, err)
	}
	defer func() {
		if err := informer.RemoveEventHandler(registration); err != nil {
			log.FromContext(ctx).V(2).Info("Handler of the leader barrier stays", "error", err.Error())
		}
	}()
	want, version, err := b.list(ctx, kind)
	if err != nil {
		return err
	}
	select {
	case <-registration.HasSyncedChecker().Done():
	case <-ctx.Done():
		return fmt.Errorf("wait for the informer of %s: %w", kind.Kind, ctx.Err())
	}
	return progress.reach(ctx, want, version)
}

// list reads the resourceVersions of all objects of a kind with quorum, and the
// version of the list.
func (b *LeaderBarrier) list(ctx context.Context, kind BarrierKind) (map[string]string, string, error) {
	want := make(map[string]string)
	for version, next := "", ""; ; {
		var page metav1.PartialObjectMetadataList
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		opts := append([]client.ListOption{client.Limit(barrierPage), client.Continue(next)}, kind.Scope...)
		if err := b.live.List(ctx, &page, opts...); err != nil {
			return nil, "", fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		for i := range page.Items {
			want[string(page.Items[i].UID)] = page.Items[i].ResourceVersion
		}
		if version == "" {
			version = page.ResourceVersion
		}
		if next = page.Continue; next == "" {
			return want, version, nil
		}
	}
}
