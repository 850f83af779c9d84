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
	first     = flag.Uint64("first", 1, "the seed of the first schedule; further ones count up from it")
	schedules = flag.Uint64("schedules", 10_000, "how many schedules TestSchedules runs, the other tests run a share of it")
	steps     = flag.Int("steps", DefaultSteps, "how many steps a schedule has before it is left alone")
)

func TestMain(m *testing.M) {
	// Schedules are short, and leave nothing behind: collecting less is faster.
	debug.SetGCPercent(4000)
	debug.SetMemoryLimit(1 << 30)
	m.Run()
}

// TestSchedules runs random schedules. A failure names the seed; -seed runs it
// again and shows each step.
func TestSchedules(t *testing.T) { runAll(t, Options{}, *schedules) }

// TestCalmSchedules runs schedules without faults and failures, which must stay
// within the budget of writes.
func TestCalmSchedules(t *testing.T) { runAll(t, Options{Calm: true}, *schedules/20) }

// TestDoomedPackage runs schedules with a package that fails wherever it runs,
// which must not reach more nodes than the budget.
func TestDoomedPackage(t *testing.T) { runAll(t, Options{Doomed: true}, *schedules/20) }

// TestManyNodes runs schedules with 200 nodes, and some in which a package fails on
// all of them. They have more steps, since those fall on so many.
func TestManyNodes(t *testing.T) {
	count := max(*schedules/250, 1)
	runAll(t, Options{Nodes: 200, Steps: 4 * *steps}, count)
	runAll(t, Options{Nodes: 200, Steps: 4 * *steps, Doomed: true}, count/3)
}

// runAll runs schedules, as many at once as there are processors.
func runAll(t *testing.T, opts Options, count uint64) {
	if opts.Steps == 0 {
		opts.Steps = *steps
	}
	if *seed != 0 {
		opts.Seed, opts.Trace = *seed, true
		if failure := Run(opts); failure != nil {
			t.Fatalf("%v\n%s", failure, strings.Join(failure.Trace, "\n"))
		}
		return
	}
	var next, failed atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= count && failed.Load() == 0; i = next.Add(1) {
				one := opts
				one.Seed = *first + i - 1
				if failure := Run(one); failure != nil {
					failed.Add(1)
					report(t, one, failure)
				}
			}
		})
	}
	wg.Wait()
}

// report runs a schedule that failed again, to show how it came about.
func report(t *testing.T, opts Options, failure *Failure) {
	opts.Trace = true
	again := Run(opts)
	if again == nil || again.Message != failure.Message {
		t.Errorf("the schedule does not repeat: %v, then %v", failure, again)
		return
	}
	t.Errorf("%v\n%s\nrun it again: go test ./test/sim -run %s -steps %d -seed %d", failure, strings.Join(again.Trace, "\n"), t.Name(), *steps, opts.Seed)
}
