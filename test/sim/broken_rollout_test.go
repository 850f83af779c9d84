package sim

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	nodeplan "github.com/nodewright/nodewright/controllers/node/plan"
	rolloutplan "github.com/nodewright/nodewright/controllers/rollout/plan"
)

type (
	rolloutInput  = rolloutplan.Input
	rolloutResult = rolloutplan.Plan
)

// brokenRollouts are faults in what the rollout planner grants and says.
func brokenRollouts() map[string]broken {
	var calls atomic.Int64
	return map[string]broken{
		"a renewal of what is not there": {want: "is renewed, and there is none", planners: rolloutPlan(func(_ *rolloutInput, p *rolloutResult) {
			for i := range p.Grants {
				p.Grants[i].Renewal = true
			}
		})},
		"the budget does not matter": {want: "the ceiling is", planners: rolloutTold(func(in *rolloutInput) {
			in.NodeWright.Spec.InterruptionBudget = &v1alpha1.InterruptionBudget{Count: ptr.To(int32(1000))}
		})},
		"erroring nodes do not count": {want: "the ceiling is", planners: rolloutTold(func(in *rolloutInput) {
			for i := range in.Nodes {
				if in.Nodes[i].Word == nodestate.StatusErroring {
					in.Nodes[i].Word, in.Nodes[i].Cordoned = "", false
				}
			}
		})},
		"cordoned nodes do not count": {want: "the ceiling is", planners: rolloutTold(func(in *rolloutInput) {
			for i := range in.Nodes {
				in.Nodes[i].Cordoned = false
			}
		})},
		// What the rollout planner is told is wrong, so that only the Jobs show it.
		"a bad package walks over all nodes": {opts: Options{Doomed: true}, want: "fails wherever it runs, and .* the budget is", planners: nodePlan(
			func(_ *nodeplan.Input, p *nodeplan.Plan) {
				for nw, word := range p.Set.Status {
					if word == nodestate.StatusErroring {
						p.Set.Status[nw] = nodestate.StatusBlocked
						delete(p.Set.Cordons, nw)
						delete(p.Set.DrainStarts, nw)
					}
				}
			})},
		"Ready is said too early": {want: "is Ready, and node .* has", planners: rolloutPlan(func(in *rolloutInput, p *rolloutResult) {
			setCondition(&p.Status, v1alpha1.ConditionReady, metav1.ConditionTrue, in.NodeWright.Generation)
		})},
		"Ready is never said": {want: "is not Ready", planners: rolloutPlan(func(in *rolloutInput, p *rolloutResult) {
			setCondition(&p.Status, v1alpha1.ConditionReady, metav1.ConditionFalse, in.NodeWright.Generation)
		})},
		"a rollout of chance": {want: "gave different rollout plans", planners: rolloutPlan(func(in *rolloutInput, p *rolloutResult) {
			p.NextCheck = in.Now.Add(time.Hour + time.Duration(calls.Add(1)))
		})},
		"gated nodes are not told of": {want: "at rest, taint .* keeps workloads off", planners: rolloutPlan(func(_ *rolloutInput, p *rolloutResult) {
			dropCondition(&p.Status, v1alpha1.ConditionNodesGated)
		})},
		"taints are not told of": {want: "at rest, pods of .* cannot run on", planners: rolloutPlan(func(_ *rolloutInput, p *rolloutResult) {
			dropCondition(&p.Status, v1alpha1.ConditionTaintNotTolerable)
		})},
		"a deletion never ends": {want: "is deleted and does not go|there is left: NodeWright", planners: rolloutPlan(func(_ *rolloutInput, p *rolloutResult) {
			p.RemoveFinalizer = false
		})},
		"a deletion ends too early": {want: "is let go, and node", planners: rolloutPlan(func(in *rolloutInput, p *rolloutResult) {
			p.RemoveFinalizer = in.NodeWright.DeletionTimestamp != nil
		})},
		"nodes are left out": {want: "it waits for nothing", planners: rolloutTold(func(in *rolloutInput) {
			in.Nodes = slices.DeleteFunc(in.Nodes, func(n rolloutplan.Node) bool { return n.Batch == nil && n.Name == "n1" })
		})},
		"nodes are left out at the end": {want: "after the repair, .* is not done with", planners: rolloutPlan(func(in *rolloutInput, p *rolloutResult) {
			for _, pkg := range in.NodeWright.Spec.Packages {
				if pkg.Version == "9.0.0" {
					p.Grants = nil
				}
			}
		})},
	}
}

func setCondition(s *v1alpha1.NodeWrightStatus, kind string, status metav1.ConditionStatus, generation int64) {
	s.Conditions = slices.Clone(s.Conditions)
	s.ObservedGeneration = generation
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			s.Conditions[i].Status = status
		}
	}
}

func dropCondition(s *v1alpha1.NodeWrightStatus, kind string) {
	s.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(c metav1.Condition) bool { return c.Type == kind })
}

// saying puts a word in the place of others, on all nodes.
func saying(word nodestate.StatusWord, instead ...nodestate.StatusWord) planners {
	return nodePlan(func(_ *nodeplan.Input, p *nodeplan.Plan) {
		for nw, is := range p.Set.Status {
			if slices.Contains(instead, is) {
				p.Set.Status[nw] = word
			}
		}
	})
}

// brokenEndings are faults that show once a world is at rest.
func brokenEndings() map[string]broken {
	const done = nodestate.StatusComplete
	return map[string]broken{
		"complete is said of all":    {want: "complete is said of packages that are not", planners: saying(done, nodestate.StatusBlocked, nodestate.StatusErroring)},
		"erroring is said of others": {want: "erroring is said, and no package is", planners: saying(nodestate.StatusErroring, done)},
		"paused is said of others":   {want: "nobody paused or disabled it", planners: saying(nodestate.StatusPaused, done)},
		"unknown is said of others":  {want: "everything can be read", planners: saying(nodestate.StatusUnknown, done)},
		"blocked is said of others":  {want: "nothing blocks it", planners: saying(nodestate.StatusBlocked, done)},
		"progress is said of others": {want: "in progress, and nothing happens", planners: saying(nodestate.StatusInProgress, done)},
		"waiting is said of others":  {want: "it waits for nothing", planners: saying(nodestate.StatusWaiting, done)},
		"a slot is kept": {want: "it is done, and keeps its slot", planners: nodePlan(func(_ *nodeplan.Input, p *nodeplan.Plan) {
			for nw, slot := range p.Set.Slots {
				slot.State = nodestate.SlotWorking
				p.Set.Slots[nw] = slot
			}
		})},
		"a slot is kept out of the rollout": {want: "is out of the rollout and keeps its slot", planners: nodePlan(func(in *nodeplan.Input, p *nodeplan.Plan) {
			for i := range in.NodeWrights {
				if nw := &in.NodeWrights[i]; !nw.Selected || in.Node.Ignored {
					if slot, had := in.Record.Slots[nw.Name]; had {
						p.Set.Slots[nw.Name] = slot
					} else {
						delete(p.Set.Slots, nw.Name)
					}
				}
			}
		})},
		"entries outlive their NodeWright": {want: "it is deleted, and entries or a cordon are left", planners: nodePlan(func(in *nodeplan.Input, p *nodeplan.Plan) {
			for i := range in.NodeWrights {
				for ref, e := range in.Record.Packages {
					if in.NodeWrights[i].Deleting && ref.NodeWright == in.NodeWrights[i].Name && !e.Stage.Uninstalls() {
						p.Set.Packages[ref] = e
					}
				}
			}
		})},
		"a deletion takes nothing off": {want: "it is deleted, and is not taken off", planners: nodeTold(func(in *nodeplan.Input) {
			in.NodeWrights = slices.DeleteFunc(in.NodeWrights, func(nw nodeplan.NodeWright) bool { return nw.Deleting })
		})},
		"what is suspended stays so": {want: "in progress, and nothing happens", planners: nodePlan(
			func(_ *nodeplan.Input, p *nodeplan.Plan) {
				p.Hold = slices.DeleteFunc(p.Hold, func(h nodeplan.JobHold) bool { return !h.Suspend })
			})},
		"what is suspended outlives the rollout": {want: "a Job is suspended, and nothing would let it go on", planners: nodePlan(
			func(_ *nodeplan.Input, p *nodeplan.Plan) { p.Delete = nil })},
		"a pause suspends nothing": {want: "is paused or disabled, and a pass over", planners: nodePlan(
			func(_ *nodeplan.Input, p *nodeplan.Plan) {
				p.Hold = nil
			})},
		"pods that cannot start are not seen": {want: "something runs, and does not end", planners: nodeTold(func(in *nodeplan.Input) {
			in.Record.PodReports = nil
		})},
		"taints stay": {want: "and all that have to be complete are", planners: nodePlan(func(_ *nodeplan.Input, p *nodeplan.Plan) {
			p.Taints.Remove = nil
		})},
		"taints stay for nobody": {want: "at rest, taint .* stands on .* and nobody asks for it", planners: nodePlan(func(_ *nodeplan.Input, p *nodeplan.Plan) {
			if len(p.Taints.By) == 0 {
				p.Taints.Remove = nil
			}
		})},
		"a cordon stays": {want: "after the repair, node .* is cordoned", planners: nodePlan(func(in *nodeplan.Input, p *nodeplan.Plan) {
			p.Set.Cordons = maps.Clone(in.Record.Cordons)
			if p.Set.Cordons == nil && len(p.Set.Packages) > 0 {
				p.Set.Cordons = map[string]time.Time{"wa": in.Now.Truncate(time.Second)}
			}
		})},
		"there is no rest": {want: "does not come to rest", planners: nodePlan(func(in *nodeplan.Input, p *nodeplan.Plan) {
			for nw, slot := range p.Set.Slots {
				slot.Message = fmt.Sprint("it is ", in.Now)
				p.Set.Slots[nw] = slot
				p.NextCheck = in.Now.Add(time.Second)
			}
		})},
		"writes that nobody needs": {opts: Options{Calm: true}, want: "writes, the budget is", planners: nodePlan(func(in *nodeplan.Input, p *nodeplan.Plan) {
			for nw, slot := range p.Set.Slots {
				slot.Message = fmt.Sprint("write ", in.NextSeq)
				if in.NextSeq < 200 {
					p.Set.Slots[nw] = slot
				}
			}
		})},
	}
}
