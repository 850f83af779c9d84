package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// profileWindow is how long one profile is. A phase has as many as it lasts, one
// after the other: the API server gives none of a request that ends early.
const profileWindow = 10 * time.Second

// profiler takes processor profiles of the API server. The zero value takes none.
type profiler struct {
	dir    string
	client rest.Interface
}

// newProfiler makes one that writes to dir, which is created; none if dir is empty.
func newProfiler(config *rest.Config, dir string) (*profiler, error) {
	if dir == "" {
		return &profiler{}, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("store profiles: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client for profiles: %w", err)
	}
	return &profiler{dir: dir, client: set.CoreV1().RESTClient()}, nil
}

// start takes profiles until the function that it returns is called, which gives
// up the window that is not over. They are PHASE-NN.pprof.
func (p *profiler) start(ctx context.Context, phase string) (stop func()) {
	if p.dir == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			data, err := p.client.Get().AbsPath("/debug/pprof/profile").
				Param("seconds", fmt.Sprint(int(profileWindow.Seconds()))).DoRaw(ctx)
			if err == nil {
				err = os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("%s-%02d.pprof", phase, n)), data, 0o644)
			}
			if err != nil && ctx.Err() == nil {
				progress("  no profile of %s: %v", phase, err)
				return
			}
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}
