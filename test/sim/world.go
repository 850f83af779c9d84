package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	jobplan "github.com/nodewright/nodewright/controllers/job/plan"
	nodeplan "github.com/nodewright/nodewright/controllers/node/plan"
	rolloutplan "github.com/nodewright/nodewright/controllers/rollout/plan"
)

// Options of one schedule.
type Options struct {
	// Seed that everything follows from.
	Seed uint64
	// Steps of the schedule, before it is left alone; default DefaultSteps.
	Steps int
	// Nodes that the schedule begins with; default up to MostNodes.
	Nodes int
	// Trace keeps a line for each step.
	Trace bool
	// Calm leaves out users, failures and faults: only caches lag. Then the
	// operator must stay within its budget of writes.
	Calm bool
	// Doomed lets a package fail wherever it runs. Users change nothing then, so that
	// the budget has to bound the damage, and no request of a process that was killed
	// arrives while the next one decides: leases last longer than requests.
	Doomed bool
	// planners decide for the operator, default those that it has.
	planners planners
}

// planners are what a schedule tries.
type planners struct {
	node    func(nodeplan.Input) nodeplan.Plan
	rollout func(rolloutplan.Input) rolloutplan.Plan
	job     func(*jobplan.Input) *jobplan.Plan
}

func (p *planners) fill() {
	if p.node == nil {
		p.node = nodeplan.Compute
	}
	if p.rollout == nil {
		p.rollout = rolloutplan.Compute
	}
	if p.job == nil {
		p.job = jobplan.Compute
	}
}

// MostNodes is how many nodes a schedule begins with at most, unless Options say
// otherwise.
const MostNodes = 8

// DefaultSteps is how long a schedule is.
const DefaultSteps = 150

// Failure is a check that did not hold.
type Failure struct {
	Seed    uint64
	Message string
	// Trace has a line for each step if Options asked for it.
	Trace []string
}

func (f *Failure) Error() string { return fmt.Sprintf("seed %d: %s", f.Seed, f.Message) }

// violation is what a check panics with, crash is the end of the operator.
type (
	violation struct{ message string }
	crash     struct{}
)

// world is the whole model.
type world struct {
	opts  Options
	rng   *rand.Rand
	now   time.Time
	trace []string

	api    *api
	op     *operator
	checks *checks
	// hasty says that the operator sees all that happens at once when the world is
	// left alone.
	hasty bool
	// eager says that the Job controller is one before Kubernetes 1.31: a Job whose
	// time is over has failed at once, while its pods still end, which takes a while.
	eager bool
	// slow says that most pods take long while others act.
	slow bool
	// size is the number of nodes at the beginning, healed says that nothing fails any
	// more.
	size   int
	healed bool
	// tainted says that NodeWrights may keep workloads off new nodes.
	tainted bool
	// stormy says that faults may happen; nested that a step runs within a
	// request of the operator.
	stormy bool
	nested bool
	// configMaps that the rollout controller made, by name.
	configMaps map[string]map[string]string
	// workloads on nodes, and how often somebody bound one or changed a cordon by
	// hand, by UID of the node.
	workloads map[types.UID][]workload
	disturbed map[types.UID]int
	// plays are what may happen; the first of them, own, are the operator's.
	plays []play
	own   int
	// flaky is the probability that an attempt of a package fails.
	flaky float64
	// late are applies of a process that was killed, not answered yet.
	late []lateApply
	// specs are NodeWrights decoded.
	specs map[generation]*spec
	// writes of the operator, and requests of users so far.
	writes, asked int
}

// Run runs one schedule. It returns nil if all checks held.
func Run(opts Options) (failure *Failure) {
	if opts.Steps == 0 {
		opts.Steps = DefaultSteps
	}
	opts.planners.fill()
	w := newWorld(opts)
	defer func() {
		switch v := recover().(type) {
		case nil:
		case violation:
			failure = &Failure{Seed: opts.Seed, Message: v.message, Trace: w.trace}
		default:
			panic(fmt.Sprintf("seed %d: %v", opts.Seed, v))
		}
	}()
	w.run()
	return nil
}

func newWorld(opts Options) *world {
	w := &world{
		opts: opts,
		rng:  rand.New(rand.NewPCG(opts.Seed, opts.Seed^0x9e3779b97f4a7c15)),
		now:  time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),

		configMaps: map[string]map[string]string{}, specs: map[generation]*spec{},
		workloads: map[types.UID][]workload{}, disturbed: map[types.UID]int{},
	}
	w.api = newAPI(w)
	w.checks = newChecks(w)
	return w
}

func (w *world) run() {
	w.hasty, w.eager, w.slow = w.chance(0.1), w.opts.Seed%5 == 3, w.opts.Seed%3 == 1
	w.setUp()
	w.findPlays()
	w.startOperator()
	w.stormy = !w.opts.Calm
	for range w.opts.Steps {
		w.step()
	}
	w.stormy = false
	w.landAll()
	w.settle("left alone")
	w.checks.quiet()
	if !w.opts.Calm && !w.opts.Doomed && w.chance(0.3) {
		w.tryAgain()
	}
	if w.opts.Calm {
		w.checks.writeBudget()
	}
	w.heal()
	w.settle("repaired")
	w.checks.allComplete()
	w.deleteAll()
	w.settle("deleted")
	w.checks.nothingLeft()
}

// log keeps a line of the trace. Arguments are formatted only if it is wanted.
func (w *world) log(format string, args ...any) {
	if !w.opts.Trace {
		return
	}
	indent := ""
	if w.nested {
		indent = "    (meanwhile) "
	}
	w.trace = append(w.trace, fmt.Sprintf("%4d %s %s%s", len(w.trace), w.now.Format("15:04:05"), indent, fmt.Sprintf(format, args...)))
}

func (w *world) fail(format string, args ...any) {
	panic(violation{fmt.Sprintf(format, args...)})
}

// chance is true with this probability.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// pick chooses one of the elements.
func pick[T any](w *world, from []T) T { return from[w.rng.IntN(len(from))] }

// play is something that may happen. do is false if it cannot happen now.
type play struct {
	weight int
	do     func() bool
}

// findPlays decides what may happen in this schedule, and how often.
func (w *world) findPlays() {
	w.plays = w.operatorPlays()
	w.own = len(w.plays)
	w.plays = slices.Concat(w.plays, w.cluster(), w.workloadPlays())
	switch {
	case w.opts.Calm:
	case w.opts.Doomed:
		w.plays = append(w.plays, w.moody(slices.Concat(w.failurePlays(), w.rudePlays()))...)
	default:
		w.plays = append(w.plays, w.moody(slices.Concat(w.userPlays(), w.nodePlays(), w.rudePlays()))...)
	}
}

// step lets one thing happen, by weight.
func (w *world) step() {
	plays := w.plays
	if w.nested {
		plays = plays[w.own:]
	}
	total := 0
	for _, p := range plays {
		total += p.weight
	}
	for range 20 {
		n := w.rng.IntN(total)
		for _, p := range plays {
			if n -= p.weight; n < 0 {
				if p.do() {
					return
				}
				break
			}
		}
	}
	w.passTime(time.Second)
}

// moody weighs plays by the mood of the schedule: it leaves many of them out and
// has more of others, so that it comes far with those.
func (w *world) moody(plays []play) []play {
	for i := range plays {
		plays[i].weight *= pick(w, []int{0, 0, 0, 1, 1, 4})
	}
	return plays
}

func (w *world) passTime(d time.Duration) { w.now = w.now.Add(d) }

// meanwhile lets others act between two requests of the operator.
func (w *world) meanwhile() {
	if !w.stormy || w.nested || !w.chance(0.08) {
		return
	}
	w.nested = true
	for range 1 + w.rng.IntN(2) {
		w.step()
	}
	w.nested = false
}
