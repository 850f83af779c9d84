package sim

import (
	"flag"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	seed      = flag.Uint64("seed", 0, "run this one schedule and print its trace")
	schedules = flag.Uint64("schedules", 2000, "how many schedules to run")
)

func TestMain(m *testing.M) {
	// Schedules are short, and leave nothing behind: collecting less is faster.
	debug.SetGCPercent(400)
	m.Run()
}

// TestSchedules runs random schedules. A failure names the seed; -seed runs it
// again and shows each step.
func TestSchedules(t *testing.T) { runAll(t, Options{}) }

// TestCalmSchedules runs schedules without faults and failures, which must stay
// within the budget of writes.
func TestCalmSchedules(t *testing.T) { runAll(t, Options{Calm: true}) }

func runAll(t *testing.T, opts Options) {
	if *seed != 0 {
		opts.Seed, opts.Trace = *seed, true
		if failure := Run(opts); failure != nil {
			t.Fatalf("%v\n%s", failure, strings.Join(failure.Trace, "\n"))
		}
		return
	}
	count := *schedules
	if opts.Calm {
		count /= 10
	}
	var next, failed atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= count && failed.Load() == 0; i = next.Add(1) {
				one := opts
				one.Seed = i
				if failure := Run(one); failure != nil {
					failed.Add(1)
					one.Trace = true
					again := Run(one)
					if again == nil || again.Message != failure.Message {
						t.Errorf("the schedule does not repeat: %v, then %v", failure, again)
						return
					}
					t.Errorf("%v\n%s\nrun it again: go test ./test/sim -run %s -seed %d", failure, strings.Join(again.Trace, "\n"), t.Name(), i)
				}
			}
		})
	}
	wg.Wait()
}
