package admission

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// The operator itself: right and wrong.
func operatorRows(t *testing.T) map[string]row {
	seq := nodestate.OwnerNode.SeqKey()
	next := written(t, nodestate.OwnerNode, records(), firstSeq+1)
	with := func(pairs ...string) change {
		c := change{annotations: map[string]string{}, labels: next.labels}
		overlay(&c.annotations, next.annotations)
		overlay(&c.annotations, mapOf(pairs))
		return c
	}
	complete := forged(stateKey)
	rows := map[string]row{
		"operator writes on": {verbs: []verb{force}, change: with(stateKey, complete), want: passes},
		"operator adds a package": {verbs: []verb{force}, want: passes,
			change: with(nodestate.NewPackageKey(nodestate.KindNodeState, nodeWright, "other").String(), otherPackage())},
		"operator drops a record":        {verbs: []verb{force}, change: with(key(nodestate.KindCordon), gone), want: passes},
		"operator at the largest number": {verbs: []verb{force}, before: nearlyFull, change: with(seq, fmt.Sprint(int64(nodestate.MaxSeq))), want: passes},
		// It was decided from a state that never was, or that is gone.
		"operator skips a number":  {verbs: []verb{force}, change: with(seq, "7"), want: refused, says: []string{seq}},
		"operator writes on trial": {verbs: []verb{force}, dryRun: true, change: with(stateKey, complete), want: passes},

		"late write with the number that stands": {verbs: []verb{force}, change: with(stateKey, complete, seq, "5"), want: refused, says: []string{seq}},
		"late write with an old number":          {verbs: []verb{force}, change: with(stateKey, complete, seq, "4"), want: refused, says: []string{seq}},
		"late write of the number alone":         {verbs: []verb{force}, change: with(seq, "4"), want: refused, says: []string{seq}},
		"write without a number":                 {verbs: []verb{force}, change: with(stateKey, complete, seq, gone), want: refused, says: []string{seq}},
		"number that is none":                    {verbs: []verb{force}, change: with(stateKey, complete, seq, "six"), want: refused, says: []string{seq}},
		"number that is negative":                {verbs: []verb{force}, change: with(stateKey, complete, seq, "-6"), want: refused, says: []string{seq}},
		"number that is too large":               {verbs: []verb{force}, change: with(stateKey, complete, seq, fmt.Sprint(int64(nodestate.MaxSeq)+1)), want: refused, says: []string{seq}},
		"number of twenty digits":                {verbs: []verb{force}, change: with(stateKey, complete, seq, "99999999999999999999"), want: refused, says: []string{seq}},

		"WH-05 operator with the manager of others": {manager: string(nodestate.OwnerJob), verbs: []verb{force},
			change: annotate(stateKey, complete, nodestate.OwnerJob.SeqKey(), "6", key(nodestate.KindJobState), forged(key(nodestate.KindJobState))),
			want:   refused, says: []string{stateKey, string(nodestate.OwnerNode), string(nodestate.OwnerJob)}},
		"operator with no manager of ours": {manager: "nodewright-manager", verbs: []verb{merge, force},
			change: annotate(stateKey, complete), want: refused, says: []string{stateKey, "nodewright-manager"}},
		"WH-05 operator with the right manager and another's key": {verbs: []verb{force},
			change: with(key(nodestate.KindBatch), forged(key(nodestate.KindBatch))),
			want:   refused, says: []string{key(nodestate.KindBatch), string(nodestate.OwnerRollout)}},
		"operator with the right manager and another's number": {verbs: []verb{force},
			change: with(nodestate.OwnerJob.SeqKey(), "6"), want: refused, says: []string{nodestate.OwnerJob.SeqKey()}},
		// Only an apply says what is left out.
		"operator by update":            {verbs: []verb{merge, strategic, jsonPatch, put}, change: annotate(stateKey, complete, seq, "6"), want: refused},
		"operator annotates for others": {manager: "anything", verbs: updates, change: annotate("example.com/other", "x"), want: passes},
	}
	for name, r := range rows {
		r.who = is(operator)
		// It has no right to nodes/status, and none to update.
		r.only = "nodes"
		r.verbs = slices.DeleteFunc(slices.Clone(r.verbs), func(v verb) bool { return v == put })
		if r.manager == "" {
			r.manager = string(nodestate.OwnerNode)
		}
		rows[name] = r
	}
	rows["operator through the status"] = row{who: is(operator), manager: string(nodestate.OwnerNode), verbs: []verb{force}, only: "nodes/status",
		change: next, want: forbidden}
	rows["operator by PUT"] = row{who: is(operator), manager: string(nodestate.OwnerNode), verbs: []verb{put}, change: next, want: forbidden}
	return rows
}

// otherPackage is a value for a package called other.
func otherPackage() string {
	set := nodestate.Set{Packages: map[nodestate.PackageRef]nodestate.PackageStatus{
		{NodeWright: nodeWright, Package: "other"}: {Version: "1.0.0", Image: "i", Stage: nodestate.StageApply, State: nodestate.StateInProgress, Run: 6, Attempt: 1},
	}}
	encoded, err := set.Encode(nodestate.OwnerNode, 1)
	if err != nil {
		panic(err)
	}
	return encoded.Annotations[nodestate.NewPackageKey(nodestate.KindNodeState, nodeWright, "other").String()]
}

// standing is the value of a key on a node that recorded made.
func standing(key string) string {
	for _, owner := range nodestate.Owners() {
		set := part(records(), owner)
		encoded, err := set.Encode(owner, firstSeq)
		if err != nil {
			panic(err)
		}
		if value, ok := encoded.Annotations[key]; ok {
			return value
		}
	}
	panic("no value for " + key)
}
