package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodestate"
)

const (
	operatorUser = "system:serviceaccount:nodewright-system:nodewright-manager"
	nodeName     = "n1"
	applied      = metav1.ManagedFieldsOperationApply
	updated      = metav1.ManagedFieldsOperationUpdate
)

var (
	stateKey    = nodestate.NewPackageKey(nodestate.KindNodeState, "tuning", "driver").String()
	statusKey   = nodestate.NewKey(nodestate.KindStatus, "tuning").String()
	cordonKey   = nodestate.NewKey(nodestate.KindCordon, "tuning").String()
	blobKey     = nodestate.NewKey(nodestate.KindBlob, "tuning").String()
	legacyKey   = nodestate.NewKey(nodestate.KindLegacy, "tuning").String()
	batchKey    = nodestate.NewKey(nodestate.KindBatch, "tuning").String()
	requestKey  = nodestate.NewPackageKey(nodestate.KindPackageRequest, "tuning", "driver").String()
	seqNode     = nodestate.OwnerNode.SeqKey()
	seqRollout  = nodestate.OwnerRollout.SeqKey()
	seqMigrate  = nodestate.OwnerMigration.SeqKey()
	errNobody   = errors.New("the API server is away")
	noteKey     = nodestate.Prefix + "note"
	goneMark    = "\x00gone"
	ownerNode   = string(nodestate.OwnerNode)
	ownerRoll   = string(nodestate.OwnerRollout)
	ownerMigr   = string(nodestate.OwnerMigration)
	stateValue  = record("in_progress")
	stateForged = record("complete")
)

func record(state string) string {
	return fmt.Sprintf(`{"image":"r/d","name":"driver","nodewright":"tuning","run":1,"stage":"apply","state":%q,"version":"1.2.3"}`, state)
}

// holder is one manager with the annotations and labels that it holds.
type holder struct {
	name        string
	operation   metav1.ManagedFieldsOperationType
	subresource string
	annotations []string
	labels      []string
	raw         string
}

func (h holder) entry() metav1.ManagedFieldsEntry {
	raw := h.raw
	if raw == "" {
		quoted := func(keys []string) string {
			var parts []string
			for _, k := range slices.Sorted(slices.Values(keys)) {
				parts = append(parts, fmt.Sprintf("%q:{}", "f:"+k))
			}
			return strings.Join(parts, ",")
		}
		raw = fmt.Sprintf(`{"f:metadata":{"f:annotations":{%s},"f:labels":{%s}}}`, quoted(h.annotations), quoted(h.labels))
	}
	return metav1.ManagedFieldsEntry{
		Manager: h.name, Operation: h.operation, Subresource: h.subresource,
		APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(raw),
	}
}

func owner(name string, keys ...string) holder {
	return holder{name: name, operation: applied, annotations: keys}
}

// node is a node as a test has it.
type node struct {
	annotations, labels map[string]string
	holders             []holder
}

func pairs(list ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		out[list[i]] = list[i+1]
	}
	return out
}

// claim is an entry that says that the operator applied these fields.
func claim(fields string) holder {
	return holder{name: ownerNode, operation: applied, raw: "{" + fields + "}"}
}

// recorded is a node with a record of each of two owners.
func recorded() node {
	return node{
		annotations: pairs(stateKey, stateValue, statusKey, "in_progress", seqNode, "5", "example.com/note", "x",
			batchKey, `{"batch":1,"id":"3","nodewright":"tuning","order":0,"rollout":"r"}`, seqRollout, "2"),
		labels: pairs(statusKey, "in_progress"),
		holders: []holder{
			{name: ownerNode, operation: applied, annotations: []string{stateKey, statusKey, seqNode}, labels: []string{statusKey}},
			owner(ownerRoll, batchKey, seqRollout),
			{name: "kubelet", operation: updated, annotations: []string{"example.com/note"}},
		},
	}
}

// with is a copy with these annotations; goneMark removes one.
func (n node) with(list ...string) node {
	n.annotations = overlay(n.annotations, list)
	return n
}

func (n node) labelled(list ...string) node {
	n.labels = overlay(n.labels, list)
	return n
}

func overlay(m map[string]string, list []string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, m)
	for key, value := range pairs(list...) {
		if out[key] = value; value == goneMark {
			delete(out, key)
		}
	}
	return out
}

// held is a copy with this holder in the place of one of the same name, operation
// and subresource.
func (n node) held(h holder) node {
	n.holders = slices.DeleteFunc(slices.Clone(n.holders), func(o holder) bool {
		return o.name == h.name && o.operation == h.operation && o.subresource == h.subresource
	})
	n.holders = append(n.holders, h)
	return n
}

// heldBy is a copy with these holders only.
func (n node) heldBy(holders ...holder) node {
	n.holders = holders
	return n
}

func (n node) metadata() *metadata {
	m := &metadata{Name: nodeName, UID: "u", Labels: n.labels, Annotations: n.annotations}
	for _, h := range n.holders {
		m.ManagedFields = append(m.ManagedFields, h.entry())
	}
	return m
}

func (n node) raw(t testing.TB) runtime.RawExtension {
	t.Helper()
	m := n.metadata()
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": metav1.ObjectMeta{
		Name: m.Name, UID: "u", Labels: m.Labels, Annotations: m.Annotations, ManagedFields: m.ManagedFields,
	}, "spec": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: data}
}

// request is the write of a node; old is nil for a creation.
func request(t testing.TB, old *node, now node, user, manager string) admission.Request {
	t.Helper()
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Name: nodeName, Operation: admissionv1.Create, Object: now.raw(t),
		UserInfo: authenticationv1.UserInfo{Username: user},
		Options:  runtime.RawExtension{Raw: []byte(`{"kind":"UpdateOptions","fieldManager":"` + manager + `"}`)},
	}}
	if old != nil {
		r.Operation, r.OldObject = admissionv1.Update, old.raw(t)
	}
	return r
}

// reviews answers for who may break the glass, and counts the questions.
type reviews struct {
	may   []string
	err   error
	asked int
}

func (r *reviews) MayOverride(_ context.Context, user *authenticationv1.UserInfo) (bool, error) {
	r.asked++
	return slices.Contains(r.may, user.Username), r.err
}

// cordonTime is a time that a record may have.
func cordonTime(day int) string {
	return nodestate.FormatTime(time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC))
}
