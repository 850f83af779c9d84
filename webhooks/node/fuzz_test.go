package node

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// ownedForm is what an owned key looks like, in words of its own: the oracle of
// the fuzz test must not be the code that it judges. Shortened keys it leaves out.
var ownedForm = regexp.MustCompile(`^nodewright\.nvidia\.com/(` +
	`(nodeState|jobState|podState)_[a-z0-9]+_[a-z]+|(status|slot|cordon|drainStart|handled|legacySeen|batch|legacy)_[a-z0-9]+|` +
	`seq_(node|job|pod|rollout|migration))$`)

// stolen are owned keys that a request changes, told from plain maps.
func stolen(body []byte) []string {
	var review struct {
		Request map[string]any `json:"request"`
	}
	if json.Unmarshal(body, &review) != nil {
		return nil
	}
	side := func(name, part string) map[string]any {
		object, _ := review.Request[name].(map[string]any)
		metadata, _ := object["metadata"].(map[string]any)
		values, _ := metadata[part].(map[string]any)
		return values
	}
	var out []string
	for _, part := range []string{"annotations", "labels"} {
		old, now := side("oldObject", part), side("object", part)
		if review.Request["operation"] == string(admissionv1.Create) {
			old = nil
		}
		all := maps.Clone(old)
		if all == nil {
			all = map[string]any{}
		}
		maps.Copy(all, now)
		for key := range all {
			before, had := old[key].(string)
			after, has := now[key].(string)
			if len(key) < 63 && ownedForm.MatchString(key) && (had != has || before != after) {
				out = append(out, part+" "+key)
			}
		}
	}
	return out
}

// ask sends a body to the webhook as the API server does.
func ask(hook http.Handler, body []byte) *admissionv1.AdmissionResponse {
	r := httptest.NewRequest(http.MethodPost, validatePath, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	hook.ServeHTTP(w, r)
	var review admissionv1.AdmissionReview
	if json.Unmarshal(w.Body.Bytes(), &review) != nil {
		return nil
	}
	return review.Response
}

func reviewOf(t testing.TB, old *node, now node, user, manager string) []byte {
	t.Helper()
	req := request(t, old, now, user, manager).AdmissionRequest
	req.UID = "1"
	body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": req})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func hooks() (validate, mutate http.Handler) {
	log.SetLogger(logr.Discard())
	never := false
	v := &webhook.Admission{Handler: &validator{operator: operatorUser, reviewer: &reviews{}}, RecoverPanic: &never}
	m := &webhook.Admission{RecoverPanic: &never, Handler: &mutator{
		operator: operatorUser, reviewer: &reviews{}, reader: &shelf{}, taint: &taint, obstacle: none,
	}}
	return v, m
}

// Whatever is sent, nothing panics, and no stranger changes a key of the operator.
func FuzzReview(f *testing.F) {
	at := recorded()
	for _, now := range []node{
		at, {}, at.with(stateKey, stateForged), at.with("example.com/note", "y"), at.labelled(statusKey, "complete"),
		at.held(owner("gitops", stateKey)), at.with(seqNode, goneMark), at.with(blobKey, "{}"),
		at.held(holder{name: "odd", operation: updated, raw: `{"f:metadata":{"f:annotations":{"f:` + stateKey + `":1}}}`}),
	} {
		f.Add(reviewOf(f, &at, now, "alice", "kubectl"))
		f.Add(reviewOf(f, nil, now, "alice", "kubectl"))
		f.Add(reviewOf(f, &at, now, "alice", ownerNode))
	}
	forged := string(reviewOf(f, &at, at.with(stateKey, stateForged), "alice", "kubectl"))
	for from, to := range map[string]string{
		`"metadata":`: `"Metadata":`, `"annotations":`: `"annotations":null,"annotations":`, `"oldObject":`: `"object":`,
		`"UPDATE"`: `"PATCH"`, `"operation":`: `"operAtion":`, `"name":"n1",`: `"name":1,`, `"kind":"AdmissionReview",`: "", `"v1"`: `"v1beta1"`,
	} {
		f.Add([]byte(strings.Replace(forged, from, to, 1)))
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"request":null}`))
	validate, mutate := hooks()
	f.Fuzz(func(t *testing.T, body []byte) {
		mutated := ask(mutate, body)
		response := ask(validate, body)
		// In maps: names of fields are case-sensitive for the webhook, and would not be
		// in structs.
		var review struct {
			Request map[string]any `json:"request"`
		}
		if json.Unmarshal(body, &review) != nil || response == nil {
			return
		}
		op, _ := review.Request["operation"].(string)
		if op == string(admissionv1.Delete) || op == string(admissionv1.Connect) {
			return
		}
		userInfo, _ := review.Request["userInfo"].(map[string]any)
		if keys := stolen(body); response.Allowed && len(keys) > 0 && userInfo["username"] != operatorUser {
			t.Errorf("%q was admitted to change %q\n%s", userInfo["username"], keys, body)
		}
		if mutated != nil && len(mutated.Patch) > 0 && op != string(admissionv1.Create) {
			t.Errorf("a patch of %s: %s", op, mutated.Patch)
		}
	})
}

// The oracle sees what it should.
func TestStolen(t *testing.T) {
	at := recorded()
	for name, tc := range map[string]struct {
		now  node
		want int
	}{
		"nothing":          {at, 0},
		"foreign":          {at.with("example.com/note", "y", noteKey, "z", requestKey, "{}"), 0},
		"a blob":           {at.with(blobKey, "{}"), 0},
		"a record":         {at.with(stateKey, stateForged), 1},
		"a label":          {at.labelled(statusKey, "complete"), 1},
		"everything":       {node{}, 6},
		"a removed number": {at.with(seqNode, goneMark), 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := stolen(reviewOf(t, &at, tc.now, "alice", "kubectl")); len(got) != tc.want {
				t.Errorf("%q, want %d keys", got, tc.want)
			}
		})
	}
}
