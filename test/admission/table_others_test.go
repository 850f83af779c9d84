package admission

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

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
	made := holding(stateKey, "gitops")
	made.Time = nil
	madeUp := text(made)
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
		"stranger makes a holder up by patch":    {verbs: []verb{jsonPatch}, only: "nodes", change: change{raw: `[{"op":"add","path":"/metadata/managedFields/-","value":` + madeUp + `}]`}},
		"stranger makes him the only one":        {verbs: []verb{merge}, only: "nodes", change: change{raw: `{"metadata":{"managedFields":[` + madeUp + `]}}`}},
		"stranger applies a record on trial":     {verbs: []verb{force}, dryRun: true, change: annotate(stateKey, value)},
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
		"finalizer":                  {verbs: []verb{merge, strategic}, only: "nodes", change: change{raw: `{"metadata":{"finalizers":["example.com/a"]}}`}},
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
