package node

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodewright/nodewright/apis/nodestate"
)

const (
	validating   = "vnode"
	validatePath = "/validate-v1-node"
)

// validator is vnode: it refuses writes of nodes that change keys of the
// operator, or who holds them.
//
// failurePolicy Fail, timeout 5 s, for updates of nodes and nodes/status and
// creations of nodes that the match conditions send. When it is down, keys of the
// operator cannot be changed but by its own good writes, which are not sent.
type validator struct {
	operator string
	reviewer Reviewer
}

// Handle decides about one request. It has no side effects, so a dry run is
// decided as the write itself.
func (v *validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	// These change no key. An operation that nobody knows is judged as an update.
	if req.Operation == admissionv1.Delete || req.Operation == admissionv1.Connect {
		return admission.Allowed("")
	}
	q, err := v.question(&req)
	if err != nil {
		count(validating, decisionFailed, reasonRequest)
		return admission.Errored(http.StatusBadRequest, err)
	}
	verdict := decide(q)
	if len(verdict.problems) == 0 {
		count(validating, decisionAdmitted, verdict.reason)
		return admission.Allowed("").WithWarnings(verdict.warnings...)
	}
	return v.refuseOrOverride(ctx, &req, q, verdict)
}

// question reads the request.
func (v *validator) question(req *admission.Request) (*question, error) {
	q := &question{
		node: req.Name, user: req.UserInfo.Username, operator: v.operator,
		create: req.Operation == admissionv1.Create, old: &metadata{},
	}
	var err error
	if q.manager, err = readManager(req.Options); err != nil {
		return nil, err
	}
	now, err := read(req.Object)
	if err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	q.now = &now.Metadata
	if q.create {
		return q, nil
	}
	old, err := read(req.OldObject)
	if err != nil {
		return nil, fmt.Errorf("read the old object: %w", err)
	}
	q.old = &old.Metadata
	return q, nil
}

// refuseOrOverride asks whether the user may break the glass. The operator never
// may: a late write of it must not get through because somebody gave it a role.
func (v *validator) refuseOrOverride(ctx context.Context, req *admission.Request, q *question, verdict verdict) admission.Response {
	first := verdict.problems[0].reason
	message := q.refusal(verdict.problems)
	if q.user == q.operator {
		count(validating, decisionRefused, first)
		log.FromContext(ctx).Info("A write of the operator was refused", "node", klog.KRef("", q.node), "manager", q.manager, "reason", message)
		return refused(message, verdict.problems)
	}
	may, err := v.reviewer.MayOverride(ctx, &req.UserInfo)
	switch {
	case err != nil:
		count(validating, decisionFailed, reasonReview)
		return refused(message+"; whether "+q.asker()+" may override that could not be found out: "+err.Error(), verdict.problems)
	case !may:
		count(validating, decisionRefused, first)
		return refused(message+"; a repair by hand needs the verb override on nodewrights/nodestate", verdict.problems)
	}
	count(validating, decisionOverridden, first)
	log.FromContext(ctx).Info("Keys of the operator were written by override", "node", klog.KRef("", q.node),
		"user", q.user, "manager", q.manager, "dryRun", req.DryRun != nil && *req.DryRun, "keys", named(verdict.problems, maxNamed))
	response := admission.Allowed("").WithWarnings(append(verdict.warnings, warnOverride(verdict.problems)...)...)
	response.AuditAnnotations = map[string]string{
		"override": nodestate.CapString(named(verdict.problems, len(verdict.problems)), maxNote),
	}
	return response
}

// refused is a refusal, with a note for the audit log.
func refused(message string, problems []problem) admission.Response {
	response := admission.Denied(message)
	response.AuditAnnotations = map[string]string{
		"refused": nodestate.CapString(string(problems[0].reason)+": "+named(problems, len(problems)), maxNote),
	}
	return response
}

// warnOverride says what is written although it should not be. There is a warning
// per problem, up to a few: clients show each in a line.
func warnOverride(problems []problem) []string {
	var out []string
	for i := range problems[:min(len(problems), maxNamed)] {
		p := &problems[i]
		text := "override: " + p.text
		if p.value != nil {
			if err := nodestate.CheckValue(p.key, *p.value); err != nil {
				text += fmt.Sprintf("; its value cannot be read, which holds the package until somebody mends it: %v", err)
			}
		}
		out = append(out, text)
	}
	if n := len(problems) - maxNamed; n > 0 {
		out = append(out, fmt.Sprintf("override: and %d more: %s", n, named(problems[maxNamed:], maxNamed)))
	}
	return out
}
