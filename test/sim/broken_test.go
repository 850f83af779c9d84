package sim

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
	nodeplan "github.com/nodewright/nodewright/controllers/node/plan"
	rolloutplan "github.com/nodewright/nodewright/controllers/rollout/plan"
)

// broken are planners with one fault, and what a check has to say of it.
type broken struct {
	planners planners
	// opts of the schedules, but for seed and planners.
	opts Options
	// want is an expression for the message.
	want string
}

// brokenSchedules is how many schedules a fault has to show in.
const brokenSchedules = 300

// TestChecksFire shows of each check that it finds what it is there for: a check
// that cannot fail shows nothing.
func TestChecksFire(t *testing.T) {
	all := map[string]broken{}
	for _, cases := range []map[string]broken{brokenRecords(), brokenJobs(), brokenNodes(), brokenRollouts(), brokenEndings()} {
		for name, tc := range cases {
			if _, twice := all[name]; twice {
				t.Fatalf("two faults are named %q", name)
			}
			all[name] = tc
		}
	}
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fires(t, &tc)
		})
	}
}

func fires(t *testing.T, tc *broken) {
	want := regexp.MustCompile(tc.want)
	others := map[string]uint64{}
	for seed := uint64(1); seed <= brokenSchedules; seed++ {
		opts := tc.opts
		opts.Seed, opts.planners = seed, tc.planners
		failure := Run(opts)
		if failure == nil {
			continue
		}
		if want.MatchString(failure.Message) {
			return
		}
		others[failure.Message] = seed
	}
	t.Errorf("no check says %q in %d schedules; others that fired, %d, like:", tc.want, brokenSchedules, len(others))
	for _, message := range slices.Sorted(maps.Keys(others))[:min(3, len(others))] {
		t.Errorf("seed %d: %s", others[message], message)
	}
}

// nodePlan changes what the node planner decides.
func nodePlan(f func(in *nodeplan.Input, p *nodeplan.Plan)) planners {
	return planners{node: func(in nodeplan.Input) nodeplan.Plan {
		p := nodeplan.Compute(in)
		f(&in, &p)
		return p
	}}
}

// nodeTold changes what the node planner sees.
func nodeTold(f func(in *nodeplan.Input)) planners {
	return planners{node: func(in nodeplan.Input) nodeplan.Plan {
		in.NodeWrights = slices.Clone(in.NodeWrights)
		for i := range in.NodeWrights {
			in.NodeWrights[i].Packages = slices.Clone(in.NodeWrights[i].Packages)
		}
		in.Jobs, in.Pods = slices.Clone(in.Jobs), maps.Clone(in.Pods)
		rec := &in.Record
		rec.Packages, rec.Batches, rec.Slots = maps.Clone(rec.Packages), maps.Clone(rec.Batches), maps.Clone(rec.Slots)
		rec.Cordons, rec.Status = maps.Clone(rec.Cordons), maps.Clone(rec.Status)
		f(&in)
		return nodeplan.Compute(in)
	}}
}

// packages changes what the node planner sees of each package.
func packages(f func(nw *nodeplan.NodeWright, pkg *nodeplan.Package)) planners {
	return nodeTold(func(in *nodeplan.Input) {
		for i := range in.NodeWrights {
			for j := range in.NodeWrights[i].Packages {
				f(&in.NodeWrights[i], &in.NodeWrights[i].Packages[j])
			}
		}
	})
}

// nodeWrights changes what the node planner sees of each NodeWright.
func nodeWrights(f func(nw *nodeplan.NodeWright)) planners {
	return nodeTold(func(in *nodeplan.Input) {
		for i := range in.NodeWrights {
			f(&in.NodeWrights[i])
		}
	})
}

// entry changes the first entry of a plan, out of those that stood before, for
// which f says that it did.
func entry(f func(in *nodeplan.Input, old, e *nodestate.PackageStatus) bool) planners {
	return nodePlan(func(in *nodeplan.Input, p *nodeplan.Plan) {
		for _, ref := range refs(p.Set.Packages) {
			old, had := in.Record.Packages[ref]
			e := p.Set.Packages[ref]
			if had && f(in, &old, &e) {
				p.Set.Packages[ref] = e
				return
			}
		}
	})
}

// rolloutPlan changes what the rollout planner decides.
func rolloutPlan(f func(in *rolloutplan.Input, p *rolloutplan.Plan)) planners {
	return planners{rollout: func(in rolloutplan.Input) rolloutplan.Plan {
		p := rolloutplan.Compute(in)
		f(&in, &p)
		return p
	}}
}

// rolloutTold changes what the rollout planner sees.
func rolloutTold(f func(in *rolloutplan.Input)) planners {
	return planners{rollout: func(in rolloutplan.Input) rolloutplan.Plan {
		in.NodeWright, in.Nodes = in.NodeWright.DeepCopy(), slices.Clone(in.Nodes)
		f(&in)
		return rolloutplan.Compute(in)
	}}
}
