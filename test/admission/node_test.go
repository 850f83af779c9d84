package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodestate/managers"
)

// nodeWright and pkg are what all nodes of the tests have records of.
const (
	nodeWright = "tuning"
	pkg        = "driver"
)

// key is the full key of a kind.
func key(kind nodestate.Kind) string {
	switch kind {
	case nodestate.KindNodeState, nodestate.KindJobState, nodestate.KindPodState, nodestate.KindPackageRequest:
		return nodestate.NewPackageKey(kind, nodeWright, pkg).String()
	default:
		return nodestate.NewKey(kind, nodeWright).String()
	}
}

var (
	stateKey  = key(nodestate.KindNodeState)
	statusKey = key(nodestate.KindStatus)
	blobKey   = key(nodestate.KindBlob)
)

// firstSeq is the number of each owner on a new node.
const firstSeq = 5

// records is the whole set of each owner on the nodes of the tests.
func records() nodestate.Set {
	ref := nodestate.PackageRef{NodeWright: nodeWright, Package: pkg}
	return nodestate.Set{
		Packages: map[nodestate.PackageRef]nodestate.PackageStatus{ref: {
			Version: "1.2.3", Image: "registry.example/driver", Stage: nodestate.StageApply,
			State: nodestate.StateInProgress, Run: 4, Attempt: 1,
		}},
		Status:      map[string]nodestate.StatusWord{nodeWright: nodestate.StatusInProgress},
		Slots:       map[string]nodestate.Slot{nodeWright: {ID: "3", State: nodestate.SlotWorking}},
		Cordons:     map[string]time.Time{nodeWright: time.Unix(1_700_000_000, 0).UTC()},
		DrainStarts: map[string]time.Time{nodeWright: time.Unix(1_700_000_000, 0).UTC()},
		Handled:     map[string][]string{nodeWright: {"r1"}},
		LegacySeen:  map[string]string{nodeWright: "0123456789abcdef"},
		JobReports: map[nodestate.PackageRef]nodestate.JobReport{ref: {
			Job: "driver-apply-x", Reason: "Error", Stage: nodestate.StageApply, Version: "1.2.3", Run: 4, Attempt: 1,
		}},
		PodReports: map[nodestate.PackageRef]nodestate.PodReport{ref: {
			Job: "driver-apply-x", Pod: "driver-apply-x-1", Reason: "ImagePullBackOff", WaitingSince: "2026-01-01T00:00:00Z",
		}},
		Batches: map[string]nodestate.Batch{nodeWright: {ID: "3", Rollout: "r", Batch: 1}},
		Legacy:  map[string]nodestate.LegacyPhase{nodeWright: nodestate.LegacyPruned},
	}
}

// part is what one owner has in a set.
func part(set nodestate.Set, owner nodestate.Owner) nodestate.Set {
	switch owner {
	case nodestate.OwnerNode:
		set.JobReports, set.PodReports, set.Batches, set.Legacy, set.Blobs = nil, nil, nil, nil, nil
		return set
	case nodestate.OwnerJob:
		return nodestate.Set{JobReports: set.JobReports}
	case nodestate.OwnerPod:
		return nodestate.Set{PodReports: set.PodReports}
	case nodestate.OwnerRollout:
		return nodestate.Set{Batches: set.Batches}
	default:
		return nodestate.Set{Legacy: set.Legacy, Blobs: set.Blobs}
	}
}

// written is the change that an apply of the owner makes: its whole set under a
// number.
func written(t *testing.T, owner nodestate.Owner, set nodestate.Set, seq int64) change {
	t.Helper()
	set = part(set, owner)
	encoded, err := set.Encode(owner, seq)
	if err != nil {
		t.Fatal(err)
	}
	return change{annotations: encoded.Annotations, labels: encoded.Labels}
}

var nodes atomic.Int64

// newNode creates a node with nothing of ours, of a name that no other test has.
func newNode(t *testing.T, edits ...func(*corev1.Node)) string {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        fmt.Sprintf("n%d", nodes.Add(1)),
		Labels:      map[string]string{"example.com/pool": "gpu"},
		Annotations: map[string]string{"example.com/note": "theirs"},
	}}
	for _, edit := range edits {
		edit(node)
	}
	if _, err := bed.admin.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{FieldManager: "kubelet"}); err != nil {
		t.Fatal(err)
	}
	return node.Name
}

// recorded creates a node that all owners have written to. No webhook may have
// been asked for that.
func recorded(t *testing.T) string {
	t.Helper()
	name := newNode(t)
	for _, owner := range nodestate.Owners() {
		good(t, name, owner, records(), firstSeq)
	}
	return name
}

// good makes a good write of the operator.
func good(t *testing.T, node string, owner nodestate.Owner, set nodestate.Set, seq int64) {
	t.Helper()
	a := bed.send(t, node, request{who: operator, manager: string(owner), verb: force, change: written(t, owner, set, seq)})
	if a.err != nil || len(a.calls) != 0 {
		t.Fatalf("good write as %s: %v, calls %v", owner, a.err, a.calls)
	}
}

// metadata is what requests may change, for comparison.
func metadata(node *corev1.Node) string {
	var lines []string
	for kind, values := range map[string]map[string]string{"annotation": node.Annotations, "label": node.Labels} {
		for key, value := range maps.All(values) {
			lines = append(lines, kind+" "+key+"="+value)
		}
	}
	return strings.Join(slices.Sorted(slices.Values(lines)), "\n")
}

// holds tells whether the entry holds the annotation.
func holds(entry metav1.ManagedFieldsEntry, key string) bool {
	held, err := managers.Holders([]metav1.ManagedFieldsEntry{entry}, managers.Annotation(key))
	return err == nil && len(held) > 0
}
