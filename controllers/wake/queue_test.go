package wake

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// depth is the depth of the queue as its metric has it, of all priorities.
func depth(t *testing.T, queue string) (sum, least float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "workqueue_depth" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == queue {
					sum += m.GetGauge().GetValue()
					least = min(least, m.GetGauge().GetValue())
				}
			}
		}
	}
	return sum, least
}

// ST-25: a node that is due is served in time, although thousands wait that were
// seen at the start only; none of them is lost, and the depth of the queue is
// never negative. The queue is controller-runtime's, so this holds for the version
// that go.mod names.
func TestUrgentNodeIsServedInTime_ST25(t *testing.T) {
	const (
		nodes, workers = 5000, 4
		pass           = 10 * time.Millisecond
		due            = time.Second
		name           = "st-25"
	)
	synctest.Test(t, func(t *testing.T) {
		q := priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = RateLimiter() })
		low := handler.LowPriority
		for i := range nodes {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: &low}, Named("n" + strconv.Itoa(i))[0])
		}
		urgent := Named("urgent")[0]
		q.AddWithOpts(priorityqueue.AddOpts{After: due}, urgent)
		began := time.Now()

		var mu sync.Mutex
		passes := map[reconcile.Request]int{}
		var served time.Duration
		var running sync.WaitGroup
		for range workers {
			running.Go(func() {
				for {
					request, priority, ended := q.GetWithPriority()
					if ended {
						return
					}
					time.Sleep(pass)
					mu.Lock()
					passes[request]++
					n, total := passes[request], len(passes)
					if request == urgent {
						served = time.Since(began)
					}
					if total%500 == 0 {
						if _, least := depth(t, name); least < 0 {
							t.Errorf("the queue has a depth of %v", least)
						}
					}
					mu.Unlock()
					// As after a pass that has to look again, and keeps its priority.
					if n == 1 && total%3 == 0 && request != urgent {
						q.AddWithOpts(priorityqueue.AddOpts{After: due, Priority: &priority}, request)
					}
					q.Done(request)
				}
			})
		}
		time.Sleep(2 * nodes * pass)
		synctest.Wait()
		if sum, least := depth(t, name); sum != 0 || least != 0 {
			t.Errorf("the queue has a depth of %v at its end, %v at least", sum, least)
		}
		q.ShutDown()
		running.Wait()
		if len(passes) != nodes+1 {
			t.Errorf("%d nodes were served, want %d", len(passes), nodes+1)
		}
		if served < due || served > 2*due {
			t.Errorf("the node that was due after %s was served after %s", due, served)
		}
	})
}
