package apply

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodestate/managers"
)

// intent is the whole of what an owner wants on a node.
type intent struct {
	owner       nodestate.Owner
	annotations map[string]string
	labels      map[string]string
	// unschedulable holds a cordon. It is applied as true or left out, never as
	// false: false would undo the cordon of an administrator.
	unschedulable bool
	// version is the only resourceVersion of the node that the apply is for; empty
	// for any. What gives the node up has no number to be told from a late one by.
	version string
}

// numbered is the same intent with another number. An intent without number,
// which gives the node up, stays without.
func (in intent) numbered(seq int64) intent {
	if _, ok := in.annotations[in.owner.SeqKey()]; ok {
		in.annotations = maps.Clone(in.annotations)
		in.annotations[in.owner.SeqKey()] = nodestate.FormatSeq(seq)
	}
	return in
}

// stands tells whether the node is as intended, in values and in ownership, so
// that an apply would change nothing but the number.
func (in intent) stands(node *corev1.Node) bool {
	annotations := in.ignoringNumber(node)
	if annotations == nil || !maps.Equal(annotations, owned(node.Annotations, in.owner, ownsAnnotation)) ||
		!maps.Equal(in.labels, owned(node.Labels, in.owner, ownsLabel)) ||
		in.unschedulable && !node.Spec.Unschedulable {
		return false
	}
	// Equal values are not enough: after a reset of managedFields nothing is ours,
	// and nothing that we leave out would go.
	fields, err := managers.Owned(node.ManagedFields, string(in.owner))
	return err == nil && fields.Unschedulable == in.unschedulable &&
		slices.Equal(fields.Annotations, slices.Sorted(maps.Keys(annotations))) &&
		slices.Equal(fields.Labels, slices.Sorted(maps.Keys(in.labels)))
}

// ignoringNumber are the annotations as intended, with the number that stands on
// the node. nil means: there is none, and one is needed to fence the rest.
func (in intent) ignoringNumber(node *corev1.Node) map[string]string {
	key := in.owner.SeqKey()
	if _, numbered := in.annotations[key]; !numbered {
		return nonNil(in.annotations)
	}
	out := maps.Clone(in.annotations)
	value, there := node.Annotations[key]
	_, err := nodestate.ParseSeq(value)
	switch {
	case err == nil:
		out[key] = value
	case !there && len(in.annotations) == 1:
		// Nothing is wanted and nothing has ever been written.
		delete(out, key)
	default:
		return nil
	}
	return out
}

func nonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// leftIn are keys of the owner that stand in the answer to an apply of this
// intent although it left them out: somebody else holds them.
func (in intent) leftIn(answer *corev1.Node) intent {
	return intent{
		owner:       in.owner,
		annotations: without(owned(answer.Annotations, in.owner, ownsAnnotation), in.annotations),
		labels:      without(owned(answer.Labels, in.owner, ownsLabel), in.labels),
	}
}

func (in intent) empty() bool { return len(in.annotations) == 0 && len(in.labels) == 0 }

// keys are the names in the intent, sorted, each once.
func (in intent) keys() []string {
	keys := slices.Concat(slices.Collect(maps.Keys(in.annotations)), slices.Collect(maps.Keys(in.labels)))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// covering is the intent with the keys of left in addition, each with another
// value than it has. A forced apply of it makes the owner their only holder, and
// then leaving them out removes them.
func (in intent) covering(left intent, seq int64) intent {
	out := intent{
		owner:         in.owner,
		annotations:   nonNil(maps.Clone(in.annotations)),
		labels:        nonNil(maps.Clone(in.labels)),
		unschedulable: in.unschedulable,
	}
	for key, value := range left.annotations {
		out.annotations[key] = otherValue(key, value)
	}
	for key, value := range left.labels {
		out.labels[key] = otherValue(key, value)
	}
	out.annotations[in.owner.SeqKey()] = nodestate.FormatSeq(seq)
	return out
}

// otherValue is another value that readers of the key understand, for the
// moment before it goes. For JSON it even means the same. It is never empty.
func otherValue(key, value string) string {
	k, _ := nodestate.ParseKey(key)
	switch k.Kind {
	case nodestate.KindStatus:
		if value == string(nodestate.StatusUnknown) {
			return string(nodestate.StatusWaiting)
		}
		return string(nodestate.StatusUnknown)
	case nodestate.KindCordon, nodestate.KindDrainStart:
		if t, err := nodestate.ParseTime(value); err == nil {
			return nodestate.FormatTime(t.Add(time.Second))
		}
	case nodestate.KindLegacy:
		if value == string(nodestate.LegacyPruned) {
			return string(nodestate.LegacyConverging)
		}
		return string(nodestate.LegacyPruned)
	}
	return value + " "
}

// owned are the entries whose key belongs to the owner.
func owned(entries map[string]string, owner nodestate.Owner, belongs func(string, nodestate.Owner) bool) map[string]string {
	out := make(map[string]string)
	for key, value := range entries {
		if belongs(key, owner) {
			out[key] = value
		}
	}
	return out
}

func ownsAnnotation(key string, owner nodestate.Owner) bool {
	o, ok := nodestate.OwnerOf(key)
	return ok && o == owner
}

// ownsLabel: of the contract, only status words are labels too.
func ownsLabel(key string, owner nodestate.Owner) bool {
	k, ok := nodestate.ParseKey(key)
	if !ok || k.Kind != nodestate.KindStatus {
		return false
	}
	o, _ := k.Owner()
	return o == owner
}

func without(m, drop map[string]string) map[string]string {
	maps.DeleteFunc(m, func(key, _ string) bool {
		_, there := drop[key]
		return there
	})
	return m
}

// size of annotations as the API server counts it, in bytes.
func size(annotations map[string]string) int {
	var n int
	for key, value := range annotations {
		n += len(key) + len(value)
	}
	return n
}
