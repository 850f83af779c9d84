package node

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestValidator(t *testing.T) {
	at := recorded()
	forged := at.with(stateKey, stateForged)
	cases := map[string]struct {
		now           node
		user, manager string
		err           error
		edit          func(*admission.Request)
		wantCode      int32
		wantAsked     int
		wantCount     [2]string
		says, audits  string
		// never is what is not said; empty is nothing.
		never string
	}{
		"nothing of ours": {now: at.with("example.com/note", "y"), user: "alice", wantCode: http.StatusOK, wantCount: [2]string{decisionAdmitted, string(reasonUnrelated)}},
		"ours":            {now: forged.with(seqNode, "6"), user: operatorUser, manager: ownerNode, wantCode: http.StatusOK, wantCount: [2]string{decisionAdmitted, string(reasonOwn)}},
		"a blob": {now: at.with(blobKey, "{}"), user: "alice", wantCode: http.StatusOK, wantCount: [2]string{decisionAdmitted, string(reasonBlob)},
			says: blobKey},
		"a stranger": {now: forged, user: "alice", manager: "kubectl", wantCode: http.StatusForbidden, wantAsked: 1,
			wantCount: [2]string{decisionRefused, string(reasonForeign)}, says: "override on nodewrights/nodestate", audits: "foreign: annotation " + stateKey},
		"break-glass": {now: forged, user: "bob", manager: "kubectl", wantCode: http.StatusOK, wantAsked: 1,
			wantCount: [2]string{decisionOverridden, string(reasonForeign)}, says: "override: annotation " + stateKey, audits: stateKey},
		"break-glass with a value that cannot be read": {now: at.with(stateKey, "{"), user: "bob", wantCode: http.StatusOK, wantAsked: 1,
			wantCount: [2]string{decisionOverridden, string(reasonForeign)}, says: "its value cannot be read"},
		"break-glass with a new value that cannot be read": {now: at.with(cordonKey, "{"), user: "bob", wantCode: http.StatusOK, wantAsked: 1,
			wantCount: [2]string{decisionOverridden, string(reasonForeign)}, says: "its value cannot be read"},
		"break-glass that removes": {now: at.with(stateKey, goneMark), user: "bob", wantCode: http.StatusOK, wantAsked: 1,
			wantCount: [2]string{decisionOverridden, string(reasonForeign)}, says: "remove", never: "cannot be read"},
		"break-glass of four keys": {now: at.with(stateKey, goneMark, statusKey, goneMark, seqNode, goneMark, batchKey, goneMark), user: "bob",
			wantCode: http.StatusOK, wantAsked: 1, wantCount: [2]string{decisionOverridden, string(reasonForeign)}, says: "and 1 more: annotation " + statusKey},
		"break-glass of many keys": {now: node{}, user: "bob", wantCode: http.StatusOK, wantAsked: 1,
			wantCount: [2]string{decisionOverridden, string(reasonForeign)}, says: "3 more", audits: "label " + statusKey},
		"break-glass on trial": {now: forged, user: "bob", wantCode: http.StatusOK, wantAsked: 1, edit: func(r *admission.Request) { r.DryRun = ptr.To(true) },
			wantCount: [2]string{decisionOverridden, string(reasonForeign)}, says: "override"},
		"nobody can be asked": {now: forged, user: "bob", err: errNobody, wantCode: http.StatusForbidden, wantAsked: 1,
			wantCount: [2]string{decisionFailed, string(reasonReview)}, says: errNobody.Error(), audits: stateKey},
		"nobody is asked where nothing is wrong": {now: at.with("example.com/note", "y"), user: "bob", err: errNobody, wantCode: http.StatusOK,
			wantCount: [2]string{decisionAdmitted, string(reasonUnrelated)}},
		// A late write must not get through because somebody gave the operator a role.
		"the operator never breaks the glass": {now: forged, user: operatorUser, manager: ownerNode, wantCode: http.StatusForbidden,
			wantCount: [2]string{decisionRefused, string(reasonLate)}, says: seqNode, audits: "late: annotation " + seqNode},
		"a deletion": {user: "alice", wantCode: http.StatusOK, edit: func(r *admission.Request) {
			r.Operation = admissionv1.Delete
			r.Object.Raw = nil
		}},
		"an operation that nobody knows": {now: forged, user: "alice", wantCode: http.StatusForbidden, wantAsked: 1, edit: func(r *admission.Request) { r.Operation = "" },
			wantCount: [2]string{decisionRefused, string(reasonForeign)}},
		"no object": {user: "alice", wantCode: http.StatusBadRequest, edit: func(r *admission.Request) { r.Object.Raw = nil },
			wantCount: [2]string{decisionFailed, string(reasonRequest)}, says: "read the object"},
		"no old object": {user: "alice", wantCode: http.StatusBadRequest, edit: func(r *admission.Request) { r.OldObject.Raw = nil },
			wantCount: [2]string{decisionFailed, string(reasonRequest)}, says: "read the old object"},
		"no options": {now: forged, user: "alice", wantCode: http.StatusForbidden, wantAsked: 1, edit: func(r *admission.Request) { r.Options.Raw = nil },
			wantCount: [2]string{decisionRefused, string(reasonForeign)}, says: "without a field manager"},
		"options that cannot be read": {now: at, user: "alice", wantCode: http.StatusBadRequest, edit: func(r *admission.Request) { r.Options.Raw = []byte("[") },
			wantCount: [2]string{decisionFailed, string(reasonRequest)}, says: "read options"},
		"metadata twice": {now: at, user: "alice", wantCode: http.StatusBadRequest, edit: func(r *admission.Request) {
			r.Object.Raw = []byte(strings.TrimSuffix(string(r.Object.Raw), "}") + `,"metadata":{}}`)
		}, wantCount: [2]string{decisionFailed, string(reasonRequest)}, says: "duplicate"},
		// Field names are case-sensitive, so this is an object without metadata.
		"metadata under another name": {now: at, user: "alice", wantCode: http.StatusForbidden, wantAsked: 1, edit: func(r *admission.Request) {
			r.Object.Raw = []byte(strings.Replace(string(r.Object.Raw), `"metadata"`, `"Metadata"`, 1))
		}, wantCount: [2]string{decisionRefused, string(reasonForeign)}, says: "remove"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			decisions.Reset()
			who := &reviews{may: []string{"bob", operatorUser}, err: tc.err}
			if tc.err != nil {
				who.may = nil
			}
			v := &validator{operator: operatorUser, reviewer: who}
			req := request(t, &at, tc.now, tc.user, tc.manager)
			if tc.edit != nil {
				tc.edit(&req)
			}
			response := v.Handle(context.Background(), req)
			if response.Result.Code != tc.wantCode || response.Allowed != (tc.wantCode == http.StatusOK) {
				t.Errorf("code %d (%s), want %d", response.Result.Code, response.Result.Message, tc.wantCode)
			}
			if len(response.Patches) != 0 || len(response.Patch) != 0 {
				t.Error("a validating webhook patches")
			}
			if who.asked != tc.wantAsked {
				t.Errorf("asked %d times who may break the glass, want %d", who.asked, tc.wantAsked)
			}
			if text := response.Result.Message + strings.Join(response.Warnings, "\n"); !strings.Contains(text, tc.says) || tc.never != "" && strings.Contains(text, tc.never) {
				t.Errorf("%q does not say %q, or says %q", text, tc.says, tc.never)
			}
			if note := response.AuditAnnotations["override"] + response.AuditAnnotations["refused"]; !strings.Contains(note, tc.audits) {
				t.Errorf("the audit annotations %v do not say %q", response.AuditAnnotations, tc.audits)
			}
			if tc.wantCount[0] != "" {
				if n := testutil.ToFloat64(decisions.WithLabelValues(validating, tc.wantCount[0], tc.wantCount[1])); n != 1 {
					t.Errorf("%v was counted %v times", tc.wantCount, n)
				}
			}
			if n := testutil.CollectAndCount(decisions); n > 1 {
				t.Errorf("%d decisions were counted", n)
			}
		})
	}
}

func TestMessagesAreBounded(t *testing.T) {
	at, many := recorded(), []string{}
	for range 300 {
		many = append(many, strings.Repeat("x", 1000))
	}
	list := []string{}
	for i, value := range many {
		list = append(list, stateKey+string(rune('a'+i%26))+string(rune('a'+i/26)), value)
	}
	long := strings.Repeat("u", 10_000)
	for _, may := range [][]string{nil, {long}} {
		v := &validator{operator: operatorUser, reviewer: &reviews{may: may}}
		response := v.Handle(context.Background(), request(t, &at, at.with(list...), long, strings.Repeat("m", 10_000)))
		if text := response.Result.Message + strings.Join(response.Warnings, "\n"); response.Allowed != (may != nil) || len(text) > 4000 {
			t.Errorf("allowed: %t, a message of %d bytes: %.200s", response.Allowed, len(text), text)
		}
		if n := len(response.AuditAnnotations["refused"] + response.AuditAnnotations["override"]); n > maxNote || n < maxNote/2 {
			t.Errorf("a note of %d bytes", n)
		}
	}
}
