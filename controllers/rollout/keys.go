package rollout

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

// keys are the four keys of a NodeWright that a count is made from. They are
// looked up by their full names: nothing else on a node is parsed.
type keys struct {
	name                        string
	batch, slot, status, cordon nodestate.Key
}

func keysOf(name string) keys {
	return keys{
		name:   name,
		batch:  nodestate.NewKey(nodestate.KindBatch, name),
		slot:   nodestate.NewKey(nodestate.KindSlot, name),
		status: nodestate.NewKey(nodestate.KindStatus, name),
		cordon: nodestate.NewKey(nodestate.KindCordon, name),
	}
}

func (k *keys) all() []string {
	return []string{k.batch.String(), k.slot.String(), k.status.String(), k.cordon.String()}
}

// reader reads the four keys of many nodes.
type reader struct {
	keys
	batchName, slotName, statusName, cordonName string
}

func newReader(name string) *reader {
	k := keysOf(name)
	return &reader{
		keys: k, batchName: k.batch.String(), slotName: k.slot.String(),
		statusName: k.status.String(), cordonName: k.cordon.String(),
	}
}

func (r *reader) hasBatch(annotations map[string]string) bool {
	_, ok := annotations[r.batchName]
	return ok
}

// read decodes what a node says of the NodeWright.
func (r *reader) read(annotations map[string]string, n *plan.Node) {
	if value, ok := annotations[r.batchName]; ok {
		if b, err := nodestate.DecodeBatch(r.batch, value); err == nil {
			n.Batch = &b
		} else {
			n.BatchUnreadable = true
			n.Unreadable = append(n.Unreadable, r.batchName)
		}
	}
	if value, ok := annotations[r.slotName]; ok {
		if s, err := nodestate.DecodeSlot(r.slot, value); err == nil {
			n.Slot = &s
		} else {
			n.Unreadable = append(n.Unreadable, r.slotName)
		}
	}
	if value, ok := annotations[r.statusName]; ok {
		if n.Word = nodestate.StatusWord(value); !n.Word.Known() {
			n.Word = nodestate.StatusUnknown
			n.Unreadable = append(n.Unreadable, r.statusName)
		}
	}
	_, n.Cordoned = annotations[r.cordonName]
}

// nameHint is how much of a NodeWright's name every key of it shows at least,
// also a shortened one.
const nameHint = 8

// recordOf decodes everything that a node has of the NodeWright, and only if
// there may be something.
func recordOf(annotations map[string]string, name string) (nodestate.Record, bool) {
	hint := "_" + name[:min(len(name), nameHint)]
	for key := range annotations {
		if strings.HasPrefix(key, nodestate.Prefix) && strings.Contains(key, hint) {
			return nodestate.Decode(annotations, []string{name}), true
		}
	}
	return nodestate.Record{}, false
}

// remains tells whether keys of the NodeWright that other controllers have to
// take off are still on the node, and which of them cannot be read.
func remains(node *corev1.Node, nw *v1alpha1.NodeWright) (yes bool, unreadable []string) {
	record, has := recordOf(node.Annotations, nw.Name)
	if !has {
		return false, nil
	}
	unreadable = unreadableKeys(&record, nw)
	s := &record.Set
	yes = len(unreadable) > 0 || hasRef(s.Packages, nw.Name) || hasRef(s.JobReports, nw.Name) || hasRef(s.PodReports, nw.Name) ||
		hasName(s.Status, nw.Name) || hasName(s.Slots, nw.Name) || hasName(s.Cordons, nw.Name) ||
		hasName(s.DrainStarts, nw.Name) || hasName(s.Handled, nw.Name) || hasName(s.LegacySeen, nw.Name)
	return yes, unreadable
}

func hasName[V nodestate.StatusWord | nodestate.Slot | time.Time | []string | string](m map[string]V, name string) bool {
	_, ok := m[name]
	return ok
}

func hasRef[V any](m map[nodestate.PackageRef]V, name string) bool {
	for ref := range m {
		if ref.NodeWright == name {
			return true
		}
	}
	return false
}

// unreadableKeys are keys of the NodeWright, of other controllers, whose values
// cannot be read. A shortened key is known by the packages of the spec.
func unreadableKeys(record *nodestate.Record, nw *v1alpha1.NodeWright) []string {
	var out []string
	for _, m := range record.Malformed {
		key, ok := nodestate.ParseKey(m.Key)
		if !ok {
			continue
		}
		owner, _ := key.Owner()
		if !slices.Contains([]nodestate.Owner{nodestate.OwnerNode, nodestate.OwnerJob, nodestate.OwnerPod}, owner) {
			continue
		}
		if key.Hash == "" && key.NodeWright == nw.Name || key.Names(nw.Name, "") || namesPackage(key, nw) {
			out = append(out, m.Key)
		}
	}
	return out
}

func namesPackage(key nodestate.Key, nw *v1alpha1.NodeWright) bool {
	for pkg := range nw.Spec.Packages {
		if key.Names(nw.Name, pkg) {
			return true
		}
	}
	return false
}
