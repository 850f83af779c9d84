package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// ErrWrong says that nodes or pods did not see what they had to.
var ErrWrong = errors.New("the rollout is complete, but not everything went as it has to")

// shownProblems is how many problems an error names.
const shownProblems = 5

// facts are what became of nodes and of the workload.
type facts struct {
	nodes []nodeFacts
	// load is nil if there is no workload. Of its pods serving are ready, and there
	// were never fewer than least. lost are those that went without an eviction.
	load           *workload
	serving, least int
	lost           []string
}

type nodeFacts struct {
	name     string
	cordoned bool
	// reboots were seen; rebooting packages ask for one.
	reboots, rebooting int
	// drained tells whether a package asks for an interrupt, of whatever type.
	drained bool
	// placed pods of the workload were here in the beginning, evicted have left.
	placed, evicted int
}

// newFacts says of each node what the packages that select it ask for.
func newFacts(nodes []corev1.Node, parts []part) *facts {
	f := &facts{nodes: make([]nodeFacts, len(nodes))}
	for i := range nodes {
		n := nodeFacts{name: nodes[i].Name, cordoned: nodes[i].Spec.Unschedulable}
		for j := range parts {
			if p := &parts[j]; p.selector.Matches(labels.Set(nodes[i].Labels)) {
				n.rebooting += p.interrupts[v1alpha1.InterruptReboot]
				n.drained = n.drained || len(p.interrupts) > 0
			}
		}
		f.nodes[i] = n
	}
	return f
}

// problems are the facts that do not hold once all is complete.
func (f *facts) problems() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.cordoned {
			say("node %s is left cordoned", n.name)
		}
		switch {
		case n.rebooting == 1 && n.reboots != 1:
			say("node %s was rebooted %d times, want once", n.name, n.reboots)
		case n.rebooting == 0 && n.reboots > 0:
			say("node %s was rebooted %d times, and no package asks for it", n.name, n.reboots)
		case n.reboots < min(n.rebooting, 1):
			// Packages that wait at the same time share one.
			say("node %s was not rebooted", n.name)
		}
		switch {
		case !n.drained && n.evicted > 0:
			say("%d pods were evicted from node %s, which needs no drain", n.evicted, n.name)
		case n.drained && n.evicted != n.placed:
			say("%d pods were evicted from node %s, want the %d that were there", n.evicted, n.name, n.placed)
		}
	}
	if f.load == nil {
		return out
	}
	if len(f.lost) > 0 {
		say("pods were deleted, not evicted: %s", strings.Join(f.lost, ", "))
	}
	if want := f.load.replicas - f.load.mayBeAway(); f.least < want {
		say("only %d pods of %s were ready at a time, its PodDisruptionBudget wants %d", f.least, workloadName, want)
	}
	return out
}

// sum counts the nodes that are cordoned and that were rebooted, and evictions.
func (f *facts) sum() (cordoned, rebooted, evicted int) {
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.cordoned {
			cordoned++
		}
		if n.reboots > 0 {
			rebooted++
		}
		evicted += n.evicted
	}
	return cordoned, rebooted, evicted
}

// line is short, for while the rollout is under way.
func (f *facts) line() string {
	cordoned, rebooted, evicted := f.sum()
	text := fmt.Sprintf("nodes: %d cordoned, %d rebooted", cordoned, rebooted)
	if f.load != nil {
		text += fmt.Sprintf(" | pods of %s: %d evicted", workloadName, evicted)
	}
	return text
}

// summary is for the end.
func (f *facts) summary() string {
	cordoned, rebooted, evicted := f.sum()
	asked := 0
	for i := range f.nodes {
		asked += min(f.nodes[i].rebooting, 1)
	}
	text := fmt.Sprintf("nodes: boot ID changed on %d, a package asks for it on %d; still cordoned: %d\n", rebooted, asked, cordoned)
	if f.load != nil {
		text += fmt.Sprintf("pods of %s: %d evicted, from %d nodes with %d each; ready now %d, at any time at least %d (PodDisruptionBudget: %d)\n",
			workloadName, evicted, len(f.load.placed), podsPerNode, f.serving, f.least, f.load.replicas-f.load.mayBeAway())
	}
	return text
}

// check is an error if a fact does not hold.
func (w *watcher) check(ctx context.Context) error {
	snap, err := w.look(ctx)
	if err != nil {
		return err
	}
	problems := snap.facts.problems()
	if len(problems) == 0 {
		return nil
	}
	text := strings.Join(problems[:min(len(problems), shownProblems)], "; ")
	if more := len(problems) - shownProblems; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Errorf("%w: %s", ErrWrong, text)
}
