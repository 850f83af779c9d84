package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const (
	mutating   = "mnode"
	mutatePath = "/mutate-v1-node"

	// listTimeout ends a read of NodeWrights from the cache, which waits while the
	// cache is not filled yet.
	listTimeout = time.Second
)

// mutator is mnode: it puts the runtime-required taint on a new node before any
// pod can land there, and takes keys of the operator off that somebody made up.
//
// failurePolicy Ignore, timeout 3 s, for all creations of nodes. When it is down,
// the operator puts the taint when it first sees the node, and vnode refuses
// creations with made-up keys. Whatever goes wrong here, the node is admitted.
type mutator struct {
	operator string
	reviewer Reviewer
	reader   client.Reader
	// taint is nil where the operator puts none.
	taint *corev1.Taint
	// obstacle says why the operator does not carry a NodeWright out; nothing would
	// ever take the taint of such a one off again.
	obstacle func(*v1alpha1.NodeWright) string
}

// Handle decides about one request. It has no side effects.
func (m *mutator) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create {
		return admission.Allowed("")
	}
	manager, err := readManager(req.Options)
	var node *object
	if err == nil {
		node, err = read(req.Object)
	}
	if err != nil {
		// vnode or the API server refuses what cannot be read.
		count(mutating, decisionFailed, reasonRequest)
		return admission.Allowed("")
	}
	q := &question{
		node: req.Name, user: req.UserInfo.Username, manager: manager, operator: m.operator, create: true,
		old: &metadata{}, now: &node.Metadata,
	}
	if q.node == "" {
		q.node = node.Metadata.Name
	}
	patches, warnings := m.strip(ctx, &req, q)
	tainted, warning := m.runtimeRequired(ctx, q, node)
	patches = append(patches, tainted...)
	if warning != "" {
		warnings = append(warnings, warning)
	}
	if len(patches) == 0 && len(warnings) == 0 {
		count(mutating, decisionAdmitted, reasonUnrelated)
	}
	return admission.Patched("", patches...).WithWarnings(warnings...)
}

// strip removes keys of the operator from a new node, and from the labels that
// the taint is decided by, and what the operator is said to have applied.
func (m *mutator) strip(ctx context.Context, req *admission.Request, q *question) ([]jsonpatch.Operation, []string) {
	made := changes(q.old, q.now)
	var problems []problem
	for i := range made {
		problems = append(problems, problem{reason: reasonCreated, field: made[i].field})
	}
	claims := claims(q.now.ManagedFields)
	if len(claims) > 0 {
		problems = append(problems, problem{reason: reasonSeized})
	}
	if len(problems) == 0 {
		return nil, nil
	}
	keys := named(problems, maxNamed)
	if q.user != q.operator {
		may, err := m.reviewer.MayOverride(ctx, &req.UserInfo)
		if err != nil {
			log.FromContext(ctx).Error(err, "Nobody knows whether a user may create a node with keys of the operator; they are taken off",
				"node", klog.KRef("", q.node), "user", q.user)
			count(mutating, decisionFailed, reasonReview)
		}
		if may {
			count(mutating, decisionOverridden, reasonCreated)
			return nil, nil // vnode warns
		}
	}
	var patches []jsonpatch.Operation
	for i := range made {
		where := "/metadata/annotations/"
		if made[i].field.IsLabel() {
			where = "/metadata/labels/"
			delete(q.now.Labels, made[i].field.Key())
		}
		patches = append(patches, jsonpatch.NewOperation("remove", where+pointer.Replace(made[i].field.Key()), nil))
	}
	for _, i := range slices.Backward(claims) {
		patches = append(patches, jsonpatch.NewOperation("remove", fmt.Sprintf("/metadata/managedFields/%d", i), nil))
	}
	count(mutating, decisionPatched, reasonStrip)
	return patches, []string{fmt.Sprintf("taken off the new node, since they belong to the operator (%s): %s", q.operator, keys)}
}

// claims are the positions of entries that say that the operator applied
// something: it never creates a node.
func claims(entries []metav1.ManagedFieldsEntry) []int {
	var out []int
	for i := range entries {
		e := &entries[i]
		if e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && slices.Contains(owners, e.Manager) {
			out = append(out, i)
		}
	}
	return out
}

// pointer escapes a key for a JSON pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// runtimeRequired puts the taint on, if a NodeWright wants that for the node.
func (m *mutator) runtimeRequired(ctx context.Context, q *question, node *object) ([]jsonpatch.Operation, string) {
	if m.taint == nil || v1alpha1.NodeIgnored(q.now.Labels) {
		return nil, ""
	}
	var taints []corev1.Taint
	if node.Spec != nil {
		taints = node.Spec.Taints
	}
	if slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(m.taint) }) {
		return nil, ""
	}
	name, err := m.wanting(ctx, q.now.Labels)
	switch {
	case err != nil:
		count(mutating, decisionFailed, reasonList)
		log.FromContext(ctx).Error(err, "A node is created without a decision about the runtime-required taint", "node", klog.KRef("", q.node))
		return nil, fmt.Sprintf("whether the node needs taint %s is decided when the operator first sees it", m.taint.ToString())
	case name == "":
		return nil, ""
	}
	count(mutating, decisionPatched, reasonTainted)
	log.FromContext(ctx).V(2).Info("A new node gets the runtime-required taint", "node", klog.KRef("", q.node), "nodewright", name)
	switch {
	case node.Spec == nil:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/spec", map[string]any{"taints": []corev1.Taint{*m.taint}})}, ""
	case taints == nil:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/spec/taints", []corev1.Taint{*m.taint})}, ""
	default:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/spec/taints/-", m.taint)}, ""
	}
}

// wanting is the name of a NodeWright that has to be complete on a node with
// these labels before workloads may land there; empty if there is none.
func (m *mutator) wanting(ctx context.Context, labels map[string]string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var all v1alpha1.NodeWrightList
	if err := m.reader.List(ctx, &all); err != nil {
		return "", fmt.Errorf("list nodewrights: %w", err)
	}
	for i := range all.Items {
		nw := &all.Items[i]
		if nw.Spec.RuntimeRequired && nw.Spec.AutoTaintNewNodes && nw.DeletionTimestamp == nil &&
			nw.Selects(labels) && m.obstacle(nw) == "" {
			return nw.Name, nil
		}
	}
	return "", nil
}
