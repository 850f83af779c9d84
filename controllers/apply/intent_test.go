package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodewright/nodewright/apis/nodestate"
)

var (
	seqKey    = nodestate.OwnerNode.SeqKey()
	slotKey   = nodestate.NewKey(nodestate.KindSlot, "tuning").String()
	statusKey = nodestate.NewKey(nodestate.KindStatus, "tuning").String()
	batchKey  = nodestate.NewKey(nodestate.KindBatch, "tuning").String()
)

// ownedBy is an entry of managedFields.
func ownedBy(manager string, annotations, labels []string, unschedulable bool) metav1.ManagedFieldsEntry {
	member := func(keys []string) map[string]any {
		out := make(map[string]any)
		for _, k := range keys {
			out["f:"+k] = map[string]any{}
		}
		return out
	}
	fields := map[string]any{"f:metadata": map[string]any{"f:annotations": member(annotations), "f:labels": member(labels)}}
	if unschedulable {
		fields["f:spec"] = map[string]any{"f:unschedulable": map[string]any{}}
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)),
	}
}

func TestIntentStands(t *testing.T) {
	full := intent{
		owner:       nodestate.OwnerNode,
		annotations: map[string]string{seqKey: "8", slotKey: "{}", statusKey: "complete"},
		labels:      map[string]string{statusKey: "complete"},
	}
	nothing := intent{owner: nodestate.OwnerNode, annotations: map[string]string{seqKey: "1"}}
	release := intent{owner: nodestate.OwnerNode}
	fullNode := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{}
		n.Annotations = map[string]string{
			seqKey: "7", slotKey: "{}", statusKey: "complete", batchKey: "{}", "example.com/theirs": "x",
			"nodewright.nvidia.com/theirs": "x",
		}
		n.Labels = map[string]string{statusKey: "complete", "theirs": "x", slotKey: "a label of somebody else"}
		n.ManagedFields = []metav1.ManagedFieldsEntry{
			ownedBy("nodewright-node", []string{seqKey, slotKey, statusKey}, []string{statusKey}, false),
			ownedBy("nodewright-rollout", []string{batchKey}, nil, false),
		}
		change(n)
		return n
	}
	same := func(*corev1.Node) {}
	own := func(annotations, labels []string, cordon bool) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.ManagedFields[0] = ownedBy("nodewright-node", annotations, labels, cordon)
		}
	}
	all := []string{seqKey, slotKey, statusKey}
	cordoned := full
	cordoned.unschedulable = true
	cases := map[string]struct {
		want   intent
		node   *corev1.Node
		stands bool
	}{
		"as wanted":                 {full, fullNode(same), true},
		"another value":             {full, fullNode(func(n *corev1.Node) { n.Annotations[slotKey] = "{ }" }), false},
		"a key is missing":          {full, fullNode(func(n *corev1.Node) { delete(n.Annotations, slotKey) }), false},
		"a key too many":            {full, fullNode(func(n *corev1.Node) { n.Annotations[slotKey+"2"] = "{}" }), false},
		"the label is missing":      {full, fullNode(func(n *corev1.Node) { delete(n.Labels, statusKey) }), false},
		"the label differs":         {full, fullNode(func(n *corev1.Node) { n.Labels[statusKey] = "waiting" }), false},
		"a label too many":          {full, fullNode(func(n *corev1.Node) { n.Labels[statusKey+"2"] = "waiting" }), false},
		"no number":                 {full, fullNode(func(n *corev1.Node) { delete(n.Annotations, seqKey) }), false},
		"a garbled number":          {full, fullNode(func(n *corev1.Node) { n.Annotations[seqKey] = "-1" }), false},
		"ownership reset":           {full, fullNode(func(n *corev1.Node) { n.ManagedFields = nil }), false},
		"ownership of a key lost":   {full, fullNode(own([]string{seqKey, statusKey}, []string{statusKey}, false)), false},
		"ownership of label lost":   {full, fullNode(own(all, nil, false)), false},
		"ownership of number lost":  {full, fullNode(own(all[1:], []string{statusKey}, false)), false},
		"owns another key":          {full, fullNode(own(append([]string{"a"}, all...), []string{statusKey}, false)), false},
		"owns a cordon":             {full, fullNode(own(all, []string{statusKey}, true)), false},
		"cordon of another":         {full, fullNode(func(n *corev1.Node) { n.Spec.Unschedulable = true }), true},
		"cordon wanted":             {cordoned, fullNode(same), false},
		"cordon wanted and foreign": {cordoned, fullNode(func(n *corev1.Node) { n.Spec.Unschedulable = true }), false},
		"cordon wanted and there": {cordoned, fullNode(func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			own(all, []string{statusKey}, true)(n)
		}), true},
		"cordon wanted and undone": {cordoned, fullNode(own(all, []string{statusKey}, true)), false},
		"nothing wanted, never written": {
			nothing, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{batchKey: "{}"}}}, true,
		},
		"nothing wanted, number there": {nothing, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Annotations:   map[string]string{seqKey: "4"},
			ManagedFields: []metav1.ManagedFieldsEntry{ownedBy("nodewright-node", []string{seqKey}, nil, false)},
		}}, true},
		"nothing wanted, keys there":     {nothing, fullNode(same), false},
		"release, number there":          {release, fullNode(same), false},
		"release, nothing there":         {release, &corev1.Node{}, true},
		"managedFields that say nothing": {full, fullNode(func(n *corev1.Node) { n.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1("[") }), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.want.stands(tc.node); got != tc.stands {
				t.Errorf("stands: %t, want %t", got, tc.stands)
			}
		})
	}
}

func TestLeftIn(t *testing.T) {
	want := intent{
		owner:       nodestate.OwnerNode,
		annotations: map[string]string{seqKey: "2", slotKey: "{}"},
		labels:      map[string]string{},
	}
	answer := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{seqKey: "2", slotKey: "{}", statusKey: "waiting", batchKey: "{}", "theirs": "x"},
		Labels:      map[string]string{statusKey: "waiting", "theirs": "x"},
	}}
	left := want.leftIn(answer)
	if diff := cmp.Diff(map[string]string{statusKey: "waiting"}, left.annotations); diff != "" {
		t.Errorf("annotations left (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{statusKey: "waiting"}, left.labels); diff != "" {
		t.Errorf("labels left (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{statusKey}, left.keys()); diff != "" {
		t.Errorf("keys left (-want +got):\n%s", diff)
	}
	cover := want.covering(left, 3)
	wantCover := map[string]string{seqKey: "3", slotKey: "{}", statusKey: "unknown"}
	if diff := cmp.Diff(wantCover, cover.annotations); diff != "" {
		t.Errorf("cover (-want +got):\n%s", diff)
	}
	if want.annotations[seqKey] != "2" || len(want.labels) != 0 {
		t.Error("covering changed the intent")
	}
}

// Every kind of key has another value for the moment before it goes: not the
// same, not empty, and one that readers understand if they understood the old.
func TestOtherValue(t *testing.T) {
	now := nodestate.FormatTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	set := nodestate.Set{
		Packages: map[nodestate.PackageRef]nodestate.PackageStatus{{NodeWright: "nw", Package: "pa"}: {
			Version: "1.0.0", Stage: nodestate.StageApply, State: nodestate.StateComplete,
		}},
		Status:     map[string]nodestate.StatusWord{"nw": nodestate.StatusComplete, "nw2": nodestate.StatusUnknown},
		Slots:      map[string]nodestate.Slot{"nw": {ID: "1", State: nodestate.SlotWorking}},
		Handled:    map[string][]string{"nw": {"a", "b"}},
		LegacySeen: map[string]string{"nw": "abc"},
	}
	encoded, err := set.Encode(nodestate.OwnerNode, 1)
	if err != nil {
		t.Fatal(err)
	}
	values := maps.Clone(encoded.Annotations)
	delete(values, seqKey)
	for _, kind := range []nodestate.Kind{nodestate.KindCordon, nodestate.KindDrainStart} {
		values[nodestate.NewKey(kind, "nw").String()] = now
	}
	for nw, phase := range map[string]nodestate.LegacyPhase{"nw": nodestate.LegacyPruned, "nw2": nodestate.LegacyConverging} {
		values[nodestate.NewKey(nodestate.KindLegacy, nw).String()] = string(phase)
	}
	values[nodestate.NewKey(nodestate.KindBlob, "nw").String()] = "{}"
	malformed := map[string]string{slotKey + "3": "", statusKey + "3": "", batchKey: "x", slotKey + "4": "}"}
	other := make(map[string]string)
	for key, value := range values {
		other[key] = otherValue(key, value)
	}
	for key, value := range malformed {
		if got := otherValue(key, value); got == "" || got == value {
			t.Errorf("other value of %s=%q is %q", key, value, got)
		}
	}
	for key, value := range values {
		if other[key] == value || other[key] == "" {
			t.Errorf("other value of %s=%q is %q", key, value, other[key])
		}
	}
	if record := nodestate.Decode(other, nil); len(record.Malformed) > 0 {
		t.Errorf("readers do not understand %+v", record.Malformed)
	}
}

func TestOlder(t *testing.T) {
	cases := []struct {
		a, b string
		want bool
	}{
		{"9", "10", true},
		{"10", "9", false},
		{"10", "10", false},
		{"10", "", false},
		{"", "10", true},
		{"x", "10", true},
		{"10", "x", true},
	}
	for _, tc := range cases {
		if got := older(tc.a, tc.b); got != tc.want {
			t.Errorf("older(%q, %q) = %t, want %t", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestNoRoom(t *testing.T) {
	kind := schema.GroupKind{Kind: "Node"}
	path := field.NewPath("metadata", "annotations")
	invalid := func(errs ...*field.Error) error { return apierrors.NewInvalid(kind, "n1", errs) }
	cases := map[string]struct {
		err  error
		want bool
	}{
		"too long":          {invalid(field.TooLong(path, "", 1)), true},
		"wrapped":           {fmt.Errorf("apply: %w", invalid(field.TooLong(path, "", 1))), true},
		"another field":     {invalid(field.TooLong(path.Key("a"), "", 1)), false},
		"another reason":    {invalid(field.Invalid(path, "", "bad")), false},
		"not of the server": {errors.New("too long"), false},
		"conflict":          {apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("too long")), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := noRoom(tc.err); got != tc.want {
				t.Errorf("no room: %t, want %t", got, tc.want)
			}
		})
	}
	text := (&NoRoomError{Node: "n1", Owner: nodestate.OwnerJob, Ours: 100, Others: 262100, Limit: 262144}).Error()
	for _, part := range []string{"n1", "nodewright-job", "100", "262100", "262144"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not name %s", text, part)
		}
	}
}

func TestCarried(t *testing.T) {
	view := &View{Record: nodestate.Decode(map[string]string{
		slotKey: "not JSON", batchKey: "not JSON", statusKey: "complete", seqKey: "x",
	}, nil)}
	if diff := cmp.Diff(map[string]string{slotKey: "not JSON"}, view.Carried(nodestate.OwnerNode)); diff != "" {
		t.Errorf("carried (-want +got):\n%s", diff)
	}
	if got := view.Carried(nodestate.OwnerPod); got != nil {
		t.Errorf("carried for a manager without keys: %v", got)
	}
}

func TestNumbersAreNotUsedTwice(t *testing.T) {
	pkg := func(run int64) nodestate.PackageStatus { return nodestate.PackageStatus{Run: run} }
	ref := func(name string) nodestate.PackageRef {
		return nodestate.PackageRef{NodeWright: "nw", Package: name}
	}
	set := nodestate.Set{
		Packages: map[nodestate.PackageRef]nodestate.PackageStatus{ref("pa"): pkg(4), ref("pb"): pkg(9)},
		Batches:  map[string]nodestate.Batch{"nw": {ID: "12"}, "nw2": {ID: "not a number"}, "nw3": {ID: "3"}},
	}
	cases := map[string]struct {
		owner nodestate.Owner
		seq   map[nodestate.Owner]int64
		want  int64
	}{
		"number there":               {nodestate.OwnerNode, map[nodestate.Owner]int64{nodestate.OwnerNode: 20}, 20},
		"number lost":                {nodestate.OwnerNode, nil, 9},
		"number of the rollout lost": {nodestate.OwnerRollout, map[nodestate.Owner]int64{nodestate.OwnerNode: 20}, 12},
		"number of the jobs lost":    {nodestate.OwnerJob, nil, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := NewWriter(nil, nil, tc.owner)
			if got := w.stands(&nodestate.Record{Set: set, Seq: tc.seq}); got != tc.want {
				t.Errorf("highest number %d, want %d", got, tc.want)
			}
		})
	}
}

func TestForeignKeyPanics(t *testing.T) {
	w := NewWriter(nil, nil, nodestate.OwnerJob, PanicOnForeignKey())
	view := &View{Node: &corev1.Node{}, NextSeq: 1}
	sets := map[string]struct {
		set    nodestate.Set
		cordon bool
	}{
		"a slot": {set: nodestate.Set{Slots: map[string]nodestate.Slot{"nw": {ID: "1", State: nodestate.SlotWorking}}}},
		"cordon": {cordon: true},
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if err, _ := recover().(error); !errors.Is(err, nodestate.ErrNotOwner) {
					t.Errorf("panic with %v, want ErrNotOwner", err)
				}
			}()
			_, err := w.Apply(t.Context(), view, sets[name].set, sets[name].cordon)
			t.Errorf("no panic, error %v", err)
		})
	}
	quiet := NewWriter(nil, nil, nodestate.OwnerJob)
	outcome, err := quiet.Apply(t.Context(), view, sets["a slot"].set, false)
	if !errors.Is(err, nodestate.ErrNotOwner) || outcome != 0 {
		t.Errorf("outcome %s, error %v, want ErrNotOwner", outcome, err)
	}
}
