package sim

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	podplan "github.com/nodewright/nodewright/controllers/pod/plan"
)

// seen enqueues what the watches of the controllers let through.
func (o *operator) seen(k kind, ch change) {
	switch k {
	case kindNode:
		o.seenNode(ch.name, asNode(ch.before), asNode(ch.after))
	case kindJob:
		o.seenJob(asJob(ch.before), asJob(ch.after))
	case kindPod:
		o.seenPod(asPod(ch.before), asPod(ch.after))
	case kindNodeWright:
		o.seenNodeWright(ch.name, asNodeWright(ch.before), asNodeWright(ch.after))
	}
}

func (o *operator) seenNode(name string, before, after *corev1.Node) {
	o.seenRollouts(before, after)
	if after == nil {
		o.enqueue(jobController, name)
		return
	}
	if before == nil || before.UID != after.UID {
		o.enqueue(nodeController, name)
		o.enqueue(jobController, name)
		o.enqueue(podController, name)
		return
	}
	facts := factsDiffer(before, after)
	if facts || !maps.Equal(before.Labels, after.Labels) || !slices.Equal(before.Spec.Taints, after.Spec.Taints) || keysDiffer(before, after) {
		o.enqueue(nodeController, name)
	}
	if facts || keysDiffer(before, after, nodestate.KindNodeState, nodestate.KindJobState) {
		o.enqueue(jobController, name)
	}
	if keysDiffer(before, after, nodestate.KindPodState) {
		o.enqueue(podController, name)
	}
	for _, c := range []struct {
		controller string
		owner      nodestate.Owner
	}{{jobController, nodestate.OwnerJob}, {podController, nodestate.OwnerPod}} {
		if leftAlone(before, after, c.owner) {
			o.enqueue(c.controller, name)
		}
	}
}

// seenRollouts enqueues the NodeWrights whose rollout may go on otherwise for a
// change of a node, and those that do not exist and have a grant on it.
func (o *operator) seenRollouts(before, after *corev1.Node) {
	concerns := func(nw *v1alpha1.NodeWright) bool { return o.rolloutKeysDiffer(before, after, nw) }
	if rolloutFactsDiffer(before, after) {
		concerns = func(nw *v1alpha1.NodeWright) bool { return o.hasStake(nw, before) || o.hasStake(nw, after) }
	}
	some := false
	for _, nw := range o.cache.store.nodeWrights.all() {
		if concerns(nw) {
			o.enqueue(rolloutController, nw.Name)
			some = true
		}
	}
	if after == nil {
		return
	}
	rec := o.w.api.record(after)
	for _, nw := range o.cache.store.nodeWrights.all() {
		// Who waits on the node says for whom.
		if some && rec.Status[nw.Name] == nodestate.StatusBlocked {
			o.enqueue(rolloutController, nw.Name)
		}
	}
	for _, nw := range slices.Sorted(maps.Keys(rec.Batches)) {
		if o.cache.store.nodeWrights.get(nw) == nil {
			o.enqueue(rolloutController, nw)
		}
	}
}

// rolloutFactsDiffer tells whether something differs that matters to each
// NodeWright with a stake in the node.
func rolloutFactsDiffer(before, after *corev1.Node) bool {
	return before == nil || after == nil || before.UID != after.UID || !maps.Equal(before.Labels, after.Labels) ||
		before.Status.Conditions[0].Status != after.Status.Conditions[0].Status || !slices.Equal(before.Spec.Taints, after.Spec.Taints)
}

func (o *operator) hasStake(nw *v1alpha1.NodeWright, node *corev1.Node) bool {
	if node == nil {
		return false
	}
	_, granted := node.Annotations[nodestate.NewKey(nodestate.KindBatch, nw.Name).String()]
	return granted || nw.DeletionTimestamp != nil || o.w.selects(nw, node)
}

// rolloutKeysDiffer compares the keys that a rollout is counted from, or all of
// them while the NodeWright is being deleted.
func (o *operator) rolloutKeysDiffer(before, after *corev1.Node, nw *v1alpha1.NodeWright) bool {
	if nw.DeletionTimestamp != nil {
		return !maps.Equal(before.Annotations, after.Annotations)
	}
	var keys []nodestate.Key
	for _, kind := range []nodestate.Kind{nodestate.KindBatch, nodestate.KindSlot, nodestate.KindStatus, nodestate.KindCordon} {
		keys = append(keys, nodestate.NewKey(kind, nw.Name))
	}
	for _, name := range o.w.spec(nw).goes {
		keys = append(keys, nodestate.NewPackageKey(nodestate.KindNodeState, nw.Name, name))
	}
	return slices.ContainsFunc(keys, func(key nodestate.Key) bool {
		was, had := before.Annotations[key.String()]
		is, has := after.Annotations[key.String()]
		return had != has || was != is
	})
}

// factsDiffer tells whether something differs that plans follow from, besides keys
// and labels.
func factsDiffer(before, after *corev1.Node) bool {
	return before.Status.Conditions[0].Status != after.Status.Conditions[0].Status ||
		before.Status.NodeInfo.BootID != after.Status.NodeInfo.BootID || before.Spec.Unschedulable != after.Spec.Unschedulable
}

// keysDiffer tells whether a key of the contract differs, of these kinds if any
// are given.
func keysDiffer(before, after *corev1.Node, kinds ...nodestate.Kind) bool {
	for _, pair := range [][2]map[string]string{{before.Annotations, after.Annotations}, {after.Annotations, before.Annotations}} {
		for key, value := range pair[0] {
			if other, ok := pair[1][key]; ok && other == value {
				continue
			}
			k, ours := nodestate.ParseKey(key)
			if !ours {
				continue
			}
			if len(kinds) == 0 {
				return true
			}
			for _, want := range kinds {
				if k.Kind == want {
					return true
				}
			}
		}
	}
	return false
}

// leftAlone tells whether a NodeWright went from a node on which the owner has
// a number.
func leftAlone(before, after *corev1.Node, owner nodestate.Owner) bool {
	if _, numbered := after.Annotations[owner.SeqKey()]; !numbered {
		return false
	}
	for key := range before.Annotations {
		if _, stays := after.Annotations[key]; stays {
			continue
		}
		if k, ours := nodestate.ParseKey(key); ours && (k.Kind == nodestate.KindStatus || k.Kind == nodestate.KindBatch || k.Kind == nodestate.KindSlot) {
			return true
		}
	}
	return false
}

func (o *operator) seenJob(before, after *batchv1.Job) {
	some := after
	if some == nil {
		some = before
	}
	node := packagejob.NodeName(some)
	if before == nil || after == nil || !o.sameFacts(before, after) {
		o.enqueue(nodeController, node)
	}
	if before == nil || after == nil || len(before.Status.Conditions) != len(after.Status.Conditions) || before.UID != after.UID {
		o.enqueue(jobController, node)
	}
}

func (o *operator) seenPod(before, after *corev1.Pod) {
	some := after
	if some == nil {
		some = before
	}
	node := some.Spec.NodeName
	if after == nil || before != nil && !podEnded(before) && podEnded(after) {
		o.enqueue(nodeController, node)
	}
	if before != nil && after != nil && before.DeletionTimestamp == nil && after.DeletionTimestamp != nil {
		o.enqueue(jobController, node)
	}
	was, waited := startWait(before)
	is, waits := startWait(after)
	if after == nil || waited != waits || waits && was != is {
		o.enqueue(podController, node)
	}
}

func startWait(pod *corev1.Pod) (podplan.Waiting, bool) {
	if pod == nil {
		return podplan.Waiting{}, false
	}
	return podplan.StartWait(pod)
}

func (o *operator) seenNodeWright(name string, before, after *v1alpha1.NodeWright) {
	if before != nil && after != nil && before.Generation == after.Generation && before.UID == after.UID &&
		maps.Equal(before.Annotations, after.Annotations) && len(before.Finalizers) == len(after.Finalizers) &&
		(after.Spec.SequencingOrDefault() != v1alpha1.SequencingAll || everywhere(before) == everywhere(after)) {
		return
	}
	o.enqueue(rolloutController, name)
	for _, n := range o.cache.store.nodes.all() {
		if before != nil && o.w.selects(before, n) || after != nil && o.w.selects(after, n) || hasKeys(n, name) {
			o.enqueue(nodeController, n.Name)
		}
	}
}

// hasKeys tells whether the node controller has keys of the NodeWright on the
// node.
func hasKeys(n *corev1.Node, nodeWright string) bool {
	for key := range n.Annotations {
		k, ours := nodestate.ParseKey(key)
		if ours && k.NodeWright == nodeWright && owns(key, nodestate.OwnerNode) {
			return true
		}
	}
	return false
}

func (o *operator) sameFacts(a, b *batchv1.Job) bool {
	x, y := o.jobFacts(a), o.jobFacts(b)
	same := (x.DeadlineSeconds == nil) == (y.DeadlineSeconds == nil) &&
		(x.DeadlineSeconds == nil || *x.DeadlineSeconds == *y.DeadlineSeconds)
	x.DeadlineSeconds, y.DeadlineSeconds = nil, nil
	return same && x == y
}
