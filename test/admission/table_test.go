package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// decision is what becomes of a request.
type decision string

const (
	// passes: stored, and no webhook was asked.
	passes decision = "passes without a call"
	// admitted: stored after the webhook was asked.
	admitted decision = "is admitted"
	// refused: the webhook refused it.
	refused decision = "is refused"
	// conflicts: the API server refused an apply without force that changes what
	// others hold, before admission.
	conflicts decision = "conflicts"
	// forbidden: the API server refused it before admission, by authorization or as
	// a rule for kubelets.
	forbidden decision = "is forbidden"
)

// row is one line of the table: a request, made with each verb and through each
// path.
type row struct {
	who     func(node string) identity
	manager string
	verbs   []verb
	// only says through which path: "nodes" or "nodes/status"; empty is both.
	only string
	// before makes the node; nil is recorded.
	before func(t *testing.T) string
	change change
	dryRun bool
	want   decision
	// says are parts of the reason of a refusal, or of a warning.
	says []string
}

func is(who identity) func(string) identity { return func(string) identity { return who } }

func otherKubelet(string) identity { return kubelet("somewhere-else") }

// Who may write what on a node: each row of the table with each of its verbs,
// through nodes and through nodes/status.
func TestWhoMayWriteWhat(t *testing.T) {
	var requests int
	for name, r := range table(t) {
		paths := []string{"nodes", "nodes/status"}
		if r.only != "" {
			paths = []string{r.only}
		}
		requests += len(r.verbs) * len(paths)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := ""
			for _, v := range r.verbs {
				for _, path := range paths {
					// A node that stays as it is serves for the next request too.
					if node == "" || !r.changesNothing() {
						node = r.node(t)
					}
					t.Run(fmt.Sprintf("%s of %s", v, path), func(t *testing.T) { r.check(t, node, v, path == "nodes/status") })
				}
			}
		})
	}
	if requests < 120 {
		t.Errorf("the table has %d requests, want 120 at least", requests)
	}
	t.Logf("%d requests", requests)
}

// node makes the node that a request is made to.
func (r *row) node(t *testing.T) string {
	t.Helper()
	if r.before == nil {
		return recorded(t)
	}
	return r.before(t)
}

// changesNothing tells whether the node stays as it is.
func (r *row) changesNothing() bool { return r.want == refused || r.want == forbidden || r.dryRun }

func (r *row) check(t *testing.T, node string, v verb, status bool) {
	was := bed.live(t, node)
	a := bed.send(t, node, request{
		who: r.who(node), manager: r.manager, verb: v, status: status, dryRun: r.dryRun, change: r.change,
	})
	got := a.decision()
	if got == conflicts && v == apply && (r.want == refused || r.want == admitted) {
		return
	}
	if got != r.want {
		t.Fatalf("the request %s, want that it %s: %v\ncalls %v, warnings %v", got, r.want, a.err, a.calls, a.warnings)
	}
	now := bed.live(t, node)
	if stored := now.ResourceVersion != was.ResourceVersion; r.changesNothing() && stored {
		t.Errorf("the node changed all the same:\n%s\nbefore:\n%s", metadata(now), metadata(was))
	}
	text := strings.Join(a.warnings, "\n")
	if a.err != nil {
		text = a.err.Error()
	}
	for _, part := range r.says {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

func (a *answer) decision() decision {
	sent := a.sent(pathValidateNode)
	switch {
	case a.err == nil && !sent:
		return passes
	case a.err == nil:
		return admitted
	case sent && apierrors.IsForbidden(a.err) && strings.Contains(a.err.Error(), "vnode.nodewright.nvidia.com"):
		return refused
	case !sent && apierrors.IsForbidden(a.err):
		return forbidden
	case !sent && apierrors.IsConflict(a.err):
		return conflicts
	default:
		return decision("fails: " + a.err.Error())
	}
}

// forged is another value of a key, that readers of the key understand.
func forged(key string) string {
	set := records()
	ref := nodestate.PackageRef{NodeWright: nodeWright, Package: pkg}
	status := set.Packages[ref]
	status.State = nodestate.StateComplete
	set.Packages[ref] = status
	report := set.JobReports[ref]
	report.Reason = "OOMKilled"
	set.JobReports[ref] = report
	pod := set.PodReports[ref]
	pod.Reason = "ErrImagePull"
	set.PodReports[ref] = pod
	set.Status[nodeWright] = nodestate.StatusComplete
	set.Slots[nodeWright] = nodestate.Slot{ID: "3", State: nodestate.SlotReleased}
	set.Cordons[nodeWright] = set.Cordons[nodeWright].AddDate(1, 0, 0)
	set.DrainStarts[nodeWright] = set.DrainStarts[nodeWright].AddDate(1, 0, 0)
	set.Handled[nodeWright] = []string{"r2"}
	set.LegacySeen[nodeWright] = "fedcba9876543210"
	set.Batches[nodeWright] = nodestate.Batch{ID: "4", Rollout: "r", Batch: 1}
	set.Legacy[nodeWright] = nodestate.LegacyConverging
	for _, owner := range nodestate.Owners() {
		p := part(set, owner)
		encoded, err := p.Encode(owner, firstSeq+1)
		if err != nil {
			panic(err)
		}
		if value, ok := encoded.Annotations[key]; ok {
			return value
		}
	}
	panic("no value for " + key)
}

// ownedKeys are one key of each kind that the operator owns, the blob aside.
func ownedKeys() []string {
	keys := []string{
		stateKey, statusKey, key(nodestate.KindSlot), key(nodestate.KindCordon), key(nodestate.KindDrainStart),
		key(nodestate.KindHandled), key(nodestate.KindLegacySeen), key(nodestate.KindJobState), key(nodestate.KindPodState),
		key(nodestate.KindBatch), key(nodestate.KindLegacy),
	}
	for _, owner := range nodestate.Owners() {
		keys = append(keys, owner.SeqKey())
	}
	return keys
}

// table is all rows, by what they are about.
func table(t *testing.T) map[string]row {
	rows := map[string]row{}
	for _, part := range []map[string]row{
		strangerRows(), kubeletRows(), bystanderRows(), operatorRows(t), overrideRows(), historyRows(), seizureRows(),
	} {
		for name, r := range part {
			if _, twice := rows[name]; twice {
				t.Fatalf("two rows are called %q", name)
			}
			rows[name] = r
		}
	}
	return rows
}

// A user who may write nodes, and none of our keys.
func strangerRows() map[string]row {
	const manager = "kubectl-annotate"
	rows := map[string]row{}
	for _, k := range ownedKeys() {
		owner, _ := nodestate.OwnerOf(k)
		rows["stranger sets "+k] = row{
			who: is(alice), manager: manager, verbs: []verb{merge}, change: annotate(k, forged(k)),
			want: refused, says: []string{k, string(owner), "alice", manager},
		}
	}
	value := forged(stateKey)
	for name, r := range map[string]row{
		"WH-05 stranger completes a package": {verbs: everyVerb, change: annotate(stateKey, value)},
		"stranger sets the label":            {verbs: everyVerb, change: label(statusKey, "complete")},
		"stranger adds a record": {verbs: everyVerb,
			change: annotate(nodestate.NewPackageKey(nodestate.KindNodeState, nodeWright, "other").String(), value)},
		"stranger removes a record":                {verbs: updates, change: annotate(stateKey, gone)},
		"stranger removes the label":               {verbs: updates, change: label(statusKey, gone)},
		"stranger removes the fence":               {verbs: updates, change: annotate(nodestate.OwnerNode.SeqKey(), gone)},
		"stranger sets one of ours and one of his": {verbs: everyVerb, change: annotate(stateKey, value, "example.com/note", "mine")},
		"stranger removes all annotations":         {verbs: []verb{put}, change: change{edit: func(n *corev1.Node) { n.Annotations = nil }}},
		"stranger replaces all annotations": {verbs: []verb{jsonPatch},
			change: change{raw: `[{"op":"replace","path":"/metadata/annotations","value":{"a":"b"}}]`}},
		"stranger sets the record of a hashed key": {verbs: []verb{merge},
			change: annotate(nodestate.NewPackageKey(nodestate.KindNodeState, strings.Repeat("a", 40), strings.Repeat("b", 40)).String(), value)},
		"stranger writes a blob of the earlier form": {verbs: everyVerb, change: annotate(blobKey, "{}")},
		"stranger calls himself as we do":            {manager: string(nodestate.OwnerNode), verbs: everyVerb, change: annotate(stateKey, value)},
		"stranger calls himself as we do and counts on": {manager: string(nodestate.OwnerNode), verbs: everyVerb,
			change: annotate(stateKey, value, nodestate.OwnerNode.SeqKey(), "6")},
		"stranger sets a record on trial": {verbs: []verb{merge}, dryRun: true, change: annotate(stateKey, value)},
		// The value does not change: only managedFields show that somebody holds it now.
		"stranger applies the value that stands": {verbs: applies, change: change{annotations: map[string]string{stateKey: standing(stateKey)}}},
		"stranger applies the label that stands": {verbs: applies, change: label(statusKey, string(nodestate.StatusInProgress))},
		"stranger makes himself a holder":        {verbs: []verb{put}, only: "nodes", change: holder("gitops", metav1.ManagedFieldsOperationApply)},
		"stranger makes a holder up":             {verbs: []verb{put}, only: "nodes", change: holder("manager", metav1.ManagedFieldsOperationUpdate)},
		// A name that the API server gives where nobody was noted.
		"stranger makes the holder up that the API server makes up": {verbs: []verb{put}, only: "nodes",
			change: holder("before-first-apply", metav1.ManagedFieldsOperationUpdate)},
		"stranger makes us hold twice":     {verbs: []verb{put}, only: "nodes", change: holder(string(nodestate.OwnerNode), metav1.ManagedFieldsOperationUpdate)},
		"command line completes a package": {manager: "kubectl-nodewright", verbs: everyVerb, change: annotate(stateKey, value)},
	} {
		r.who, r.want = is(alice), refused
		if r.manager == "" {
			r.manager = manager
		}
		rows[name] = r
	}
	return rows
}

// holder adds a holder of the record to managedFields.
func holder(manager string, operation metav1.ManagedFieldsOperationType) change {
	return change{edit: func(n *corev1.Node) {
		added := holding(stateKey, manager)
		added.Operation = operation
		n.ManagedFields = append(n.ManagedFields, added)
	}}
}

// A kubelet may edit its own node: whoever took it over may as well.
func kubeletRows() map[string]row {
	const manager = "kubelet"
	return map[string]row{
		"WH-06 kubelet forges complete": {
			who: kubelet, manager: manager, verbs: everyVerb, change: annotate(stateKey, forged(stateKey)),
			want: refused, says: []string{stateKey, string(nodestate.OwnerNode)},
		},
		"WH-06 kubelet forges the label": {
			who: kubelet, manager: manager, verbs: updates, change: label(statusKey, "complete"), want: refused,
		},
		"WH-06 kubelet removes a record": {
			who: kubelet, manager: manager, verbs: updates, change: annotate(stateKey, gone), want: refused,
		},
		"WH-06 kubelet calls itself as we do": {
			who: kubelet, manager: string(nodestate.OwnerNode), verbs: []verb{merge, force},
			change: annotate(stateKey, forged(stateKey)), want: refused,
		},
		"kubelet of another node": {
			who: otherKubelet, manager: manager, verbs: updates, change: annotate("example.com/note", "mine"), want: forbidden,
		},
		"kubelet annotates its node": {
			who: kubelet, manager: manager, verbs: updates, change: annotate("volumes.kubernetes.io/controller-managed-attach-detach", "true"), want: passes,
		},
		"kubelet labels its node": {
			who: kubelet, manager: manager, verbs: updates, change: label("example.com/zone", "a"), want: passes,
		},
	}
}

// What touches nothing of ours passes without a call.
func bystanderRows() map[string]row {
	rows := map[string]row{}
	for name, r := range map[string]row{
		"foreign annotation":                                {verbs: everyVerb, change: annotate("example.com/other", "x")},
		"foreign annotation changes":                        {verbs: []verb{merge, strategic, jsonPatch, put, force}, change: annotate("example.com/note", "x")},
		"foreign annotation goes":                           {verbs: updates, change: annotate("example.com/note", gone)},
		"foreign label":                                     {verbs: everyVerb, change: label("example.com/other", "x")},
		"annotation that looks like ours at another prefix": {verbs: everyVerb, change: annotate("example.com/nodeState_tuning_driver", "x")},
		"request":                    {verbs: everyVerb, manager: "kubectl-nodewright", change: annotate(key(nodestate.KindRequest), `{"id":"1","action":"rerun"}`)},
		"request for a package":      {verbs: everyVerb, manager: "kubectl-nodewright", change: annotate(key(nodestate.KindPackageRequest), `{"id":"1","action":"rerun"}`)},
		"ignore label":               {verbs: everyVerb, change: label(nodestate.Prefix+"ignore", "true")},
		"key of users at our prefix": {verbs: everyVerb, change: annotate(nodestate.Prefix+"note", "x", nodestate.Prefix+"seq_mine", "x")},
		"cordon":                     {verbs: everyVerb, only: "nodes", change: change{spec: `{"unschedulable":true}`}},
		"taint":                      {verbs: []verb{merge, strategic, jsonPatch, put}, only: "nodes", change: change{spec: `{"taints":[{"key":"a","effect":"NoSchedule"}]}`}},
		"provider ID":                {verbs: []verb{merge, strategic, jsonPatch, put}, only: "nodes", change: change{spec: `{"providerID":"cloud://1"}`}},
		"write that changes nothing": {verbs: []verb{put}, change: change{}},
	} {
		r.who, r.want = is(alice), passes
		if r.manager == "" {
			r.manager = "kubectl-edit"
		}
		rows[name] = r
	}
	return rows
}

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
