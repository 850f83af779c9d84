package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	batchclient "k8s.io/client-go/kubernetes/typed/batch/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
)

// floor is a bare client that creates the Jobs which the operator would create.
type floor struct {
	jobs    batchclient.JobInterface
	pods    coreclient.PodInterface
	nw      *v1alpha1.NodeWright
	nodes   []string
	workers int
	// round makes the names of one run differ from those of another.
	round int
}

func newFloor(config *rest.Config, nw *v1alpha1.NodeWright, nodes []string, workers, round int) (*floor, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &floor{jobs: client.BatchV1().Jobs(operator.Namespace), pods: client.CoreV1().Pods(operator.Namespace), nw: nw, nodes: nodes, workers: workers, round: round}, nil
}

func (f *floor) work() (*work, error) {
	settings := &stagejob.Settings{
		Namespace: operator.Namespace, AgentImage: agentImage,
		CopyDirRoot: "/var/lib/skyhook", AgentLogRoot: "/var/log/skyhook", HostRoot: "/",
	}
	out := newWork()
	for _, node := range f.nodes {
		err := out.addNode(f.nw, func(pkg string, stage nodestate.Stage) (*batchv1.Job, error) {
			return f.job(settings, node, pkg, stage)
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (f *floor) job(settings *stagejob.Settings, node, pkg string, stage nodestate.Stage) (*batchv1.Job, error) {
	p := f.nw.Spec.Packages[pkg]
	deadline := int64(3600)
	job, _, err := stagejob.Build(settings, &stagejob.Request{
		Identity: packagejob.Identity{
			Attempt: 1, Node: node, NodeUID: types.UID("bench-" + node), NodeWright: f.nw.Name, NodeWrightUID: "bench",
			Package: pkg, Run: int64(f.round), Stage: stage, Version: p.Version,
		},
		NodeWright: f.nw, Package: &p, Image: p.Image, SpecHash: "bench", DeadlineSeconds: &deadline,
		Interrupt: interruptOf(&p, stage),
	})
	return job, err
}

// run creates the Jobs and waits until all have succeeded. With ordered, a
// stage is created when the one before has succeeded; else all at once.
func (f *floor) run(ctx context.Context, ordered bool) (time.Duration, error) {
	work, err := f.work()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *batchv1.Job, len(work.all))
	if !ordered {
		work.first, work.after = work.all, nil
	}
	for _, job := range work.first {
		queue <- job
	}
	done, started := make(chan struct{}), make(chan struct{})
	var workers sync.WaitGroup
	for range f.workers {
		workers.Go(func() {
			select {
			case <-started:
			case <-done:
			}
			for {
				select {
				case job := <-queue:
					if _, err := f.jobs.Create(ctx, job, metav1.CreateOptions{}); err != nil {
						cancel(fmt.Errorf("create job: %w", err))
					}
				case <-done:
					return
				case <-ctx.Done():
					return
				}
			}
		})
	}
	began := time.Now()
	err = f.follow(ctx, started, work, queue)
	took := time.Since(began)
	close(done)
	workers.Wait()
	return took, err
}

// follow watches Jobs until all have succeeded, and sends what comes after those
// that did.
func (f *floor) follow(ctx context.Context, started chan<- struct{}, work *work, queue chan<- *batchv1.Job) error {
	list, err := f.jobs.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("list jobs: %w", err)
	}
	// A Job that ends before the watch begins is not missed: creation starts after
	// the list, from whose version the watch goes on.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return f.jobs.Watch(ctx, o) },
	})
	if err != nil {
		return fmt.Errorf("watch jobs: %w", err)
	}
	defer w.Stop()
	close(started)
	succeeded := map[string]bool{}
	for len(succeeded) < len(work.all) {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return fmt.Errorf("watch jobs: it ended with %d of %d succeeded", len(succeeded), len(work.all))
			}
			job, isJob := e.Object.(*batchv1.Job)
			if !isJob || e.Type == watch.Deleted || succeeded[job.Name] {
				continue
			}
			switch condition, finished := packagejob.Finished(job); {
			case finished && condition == batchv1.JobFailed:
				return fmt.Errorf("job %s failed", job.Name)
			case finished:
				succeeded[job.Name] = true
				for _, next := range work.succeeded(job.Name) {
					queue <- next
				}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// clear deletes all Jobs and waits until they and their pods are gone.
func (f *floor) clear(ctx context.Context) error {
	policy := metav1.DeletePropagationBackground
	// In pages: all Jobs of a large fleet take longer than the API server gives a
	// request.
	page := metav1.ListOptions{Limit: 500}
	for {
		if err := f.jobs.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &policy}, page); err != nil {
			return fmt.Errorf("delete jobs: %w", err)
		}
		left, err := f.jobs.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return fmt.Errorf("list jobs: %w", err)
		}
		if len(left.Items) == 0 {
			break
		}
	}
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		jobs, err := f.jobs.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return false, err
		}
		pods, err := f.pods.List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && len(jobs.Items)+len(pods.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait until jobs and pods are gone: %w", err)
	}
	return nil
}
