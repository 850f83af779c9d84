package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// write is one row: what stands, what the write leaves, and what is thought of it.
type write struct {
	old, now      node
	user, manager string
	create        bool
	// want are the reasons of refusal, each once, in order; none is an admission
	// for the reason admitted.
	want     []reason
	admitted reason
	// says are parts of the refusal, or of the warnings.
	says []string
	// never is what they do not say; empty is nothing.
	never string
}

func (w write) check(t *testing.T) {
	t.Helper()
	q := &question{node: nodeName, user: w.user, manager: w.manager, operator: operatorUser, create: w.create,
		old: w.old.metadata(), now: w.now.metadata()}
	v := decide(q)
	var got []reason
	for _, p := range v.problems {
		if !slices.Contains(got, p.reason) {
			got = append(got, p.reason)
		}
	}
	text := strings.Join(v.warnings, "\n")
	if len(v.problems) > 0 {
		text = q.refusal(v.problems)
	}
	if diff := cmp.Diff(w.want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("reasons of refusal (-want +got):\n%s%s", diff, text)
	}
	if len(v.problems) == 0 && v.reason != w.admitted {
		t.Errorf("admitted as %q, want %q", v.reason, w.admitted)
	}
	if w.never != "" && strings.Contains(text, w.never) {
		t.Errorf("%q says %q", text, w.never)
	}
	for _, part := range w.says {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

func byAlice(now node, want reason, says ...string) write {
	return write{old: recorded(), now: now, user: "alice", manager: "kubectl-annotate", want: []reason{want}, says: says}
}

// WH-05: somebody else writes a key that is the operator's.
func TestStrangers_WH05(t *testing.T) {
	at := recorded()
	edit := func(keys ...string) holder {
		return holder{name: "kubectl-annotate", operation: updated, annotations: keys}
	}
	fine := func(now node) write {
		return write{old: at, now: now, user: "alice", manager: "kubectl-annotate", admitted: reasonUnrelated}
	}
	other := nodestate.NewPackageKey(nodestate.KindNodeState, "tuning", "other").String()
	cases := map[string]write{
		"WH-05 changes a record": byAlice(at.with(stateKey, stateForged), reasonForeign, "annotation "+stateKey, ownerNode, operatorUser,
			`"alice"`, `"kubectl-annotate"`, "kubectl annotate node n1 "+requestKey+`='{"action":"rerun","id":"'$(date +%s)'"}'`),
		"changes an annotation of his own":    fine(at.with("example.com/note", "y")),
		"adds a record":                       byAlice(at.with(other, record("complete")), reasonForeign, "add", other),
		"adds a key of users at our prefix":   fine(at.with(noteKey, "y")),
		"asks for another run":                fine(at.with(requestKey, `{"action":"rerun","id":"1"}`)),
		"removes a record":                    byAlice(at.with(stateKey, goneMark), reasonForeign, "remove", stateKey),
		"removes an annotation of others":     fine(at.with("example.com/note", goneMark)),
		"changes the label":                   byAlice(at.labelled(statusKey, "complete"), reasonForeign, "label "+statusKey, "request_tuning="),
		"adds a label of his own":             fine(at.labelled("example.com/a", "b")),
		"adds the ignore label":               fine(at.labelled(nodestate.Prefix+"ignore", "true")),
		"adds a label of another kind":        byAlice(at.labelled(cordonKey, "x"), reasonForeign, "label "+cordonKey),
		"claims a cordon":                     byAlice(at.with(cordonKey, cordonTime(1)), reasonForeign, "kubectl label node n1 "+nodestate.Prefix+"ignore=true"),
		"removes the number":                  byAlice(at.with(seqNode, goneMark), reasonForeign, seqNode),
		"counts on":                           byAlice(at.with(seqNode, "6"), reasonForeign, seqNode),
		"grants a slot":                       byAlice(at.with(batchKey, `{"batch":1,"id":"4","nodewright":"tuning","order":0,"rollout":"r"}`), reasonForeign, batchKey, ownerRoll),
		"says that a blob was given up":       byAlice(at.with(legacyKey, "pruned"), reasonForeign, legacyKey, ownerMigr),
		"becomes a holder by apply":           byAlice(at.held(owner("gitops", stateKey)), reasonHolder, stateKey, ownerNode, "gitops (Apply)", "leave it out", requestKey),
		"holds a key of his own by apply":     fine(at.held(owner("gitops", "example.com/note", noteKey))),
		"changes a record by apply":           byAlice(at.with(stateKey, stateForged).held(owner("gitops", stateKey)), reasonForeign, stateKey),
		"becomes a holder of the label":       byAlice(at.held(holder{name: "gitops", operation: applied, labels: []string{statusKey}}), reasonHolder, "label "+statusKey),
		"becomes a holder by update":          byAlice(at.held(edit(stateKey)), reasonHolder, "kubectl-annotate (Update)"),
		"becomes a holder through the status": byAlice(at.held(holder{name: ownerNode, operation: applied, subresource: "status", annotations: []string{stateKey}}), reasonHolder, "server-side apply of the node only"),
		"drops the owner":                     fine(at.heldBy(at.holders[1:]...)),
		"lets the operator hold taints":       byAlice(at.held(claim(`"f:spec":{"f:taints":{}}`)), reasonSeized, ownerNode, "leave metadata.managedFields"),
		"holds taints himself":                fine(at.held(holder{name: "gitops", operation: applied, raw: `{"f:spec":{"f:taints":{}}}`})),
		"lets the operator hold a note":       byAlice(at.held(claim(`"f:metadata":{"f:labels":{"f:example.com/zone":{}}}`)), reasonSeized, ownerNode),
		"lets the operator hold less":         fine(at.held(claim(`"f:metadata":{"f:annotations":{"f:` + stateKey + `":{}}}`))),
		"cannot be read":                      byAlice(at.held(holder{name: "odd", operation: updated, raw: `{"f:metadata":{"f:annotations":{"f:` + stateKey}), reasonUnreadable, "odd (Update)", "managedFields"),
		"holds a key under our name, and lets us hold taints": {old: at, user: "alice", manager: "kubectl-annotate",
			now:  at.held(holder{name: ownerNode, operation: updated, annotations: []string{stateKey}}).held(claim(`"f:spec":{"f:taints":{}}`)),
			want: []reason{reasonSeized, reasonHolder}},
		"changes annotation and label": byAlice(at.with(statusKey, "complete").labelled(statusKey, "complete"), reasonForeign, "it; label "+statusKey),
		"holds several keys":           byAlice(at.held(owner("gitops", stateKey, statusKey, seqNode, batchKey, seqRollout)), reasonHolder, "and 2 more"),
	}
	for name, tc := range cases {
		t.Run(name, tc.check)
	}
	t.Run("without a field manager", func(t *testing.T) {
		w := byAlice(at.with(stateKey, stateForged), reasonForeign, `"alice" without a field manager`)
		w.manager = ""
		w.check(t)
	})
	t.Run("entries that could not be read before", func(t *testing.T) {
		past := at.held(holder{name: "odd", operation: updated, raw: `{"f:metadata":{"f:annotations":{"f:` + stateKey})
		w := fine(past.with("example.com/note", "y"))
		w.old = past
		w.check(t)
	})
	t.Run("who shared a key goes on", func(t *testing.T) {
		past := at.held(owner("gitops", stateKey))
		w := fine(past.with("example.com/a", "b").held(owner("gitops", stateKey, "example.com/a")))
		w.old = past
		w.check(t)
	})
	t.Run("who shared a key changes it", func(t *testing.T) {
		past := at.held(owner("gitops", stateKey))
		w := byAlice(past.with(stateKey, stateForged), reasonForeign)
		w.old = past
		w.check(t)
	})
}

// WH-05: one of ours under a wrong name. WH-06: a kubelet, and whoever calls
// himself as we do.
func TestNames_WH05_WH06(t *testing.T) {
	at := recorded()
	forged := at.with(stateKey, stateForged, seqNode, "6")
	cases := map[string]write{
		"WH-05 operator under its name":             {now: forged, user: operatorUser, manager: ownerNode, admitted: reasonOwn},
		"WH-05 operator under a name of another":    {now: forged, user: operatorUser, manager: ownerRoll, want: []reason{reasonForeign}, says: []string{stateKey, ownerNode, ownerRoll}},
		"WH-05 operator under no name of ours":      {now: forged, user: operatorUser, manager: "manager", want: []reason{reasonForeign}, says: []string{`"manager"`}},
		"WH-05 operator with the key of another":    {now: forged.with(batchKey, goneMark), user: operatorUser, manager: ownerNode, want: []reason{reasonForeign}, says: []string{batchKey, ownerRoll}},
		"WH-05 operator with the number of another": {now: forged.with(seqRollout, "3"), user: operatorUser, manager: ownerNode, want: []reason{reasonForeign}, says: []string{seqRollout}},
		"WH-05 operator by update": {now: forged.held(holder{name: ownerNode, operation: updated, annotations: []string{stateKey, seqNode}}),
			user: operatorUser, manager: ownerNode, want: []reason{reasonHolder}, says: []string{"server-side apply"}},
		"WH-05 operator and the blob of migration": {now: at.with(blobKey, "{}", seqNode, "6"), user: operatorUser, manager: ownerNode, want: []reason{reasonForeign}, says: []string{ownerMigr}},
		"WH-05 account in another namespace": {now: forged, user: "system:serviceaccount:elsewhere:nodewright-manager", manager: ownerNode,
			want: []reason{reasonForeign}},
		"WH-06 kubelet":                          {now: at.with(stateKey, stateForged), user: "system:node:n1", manager: "kubelet", want: []reason{reasonForeign}},
		"WH-06 kubelet annotates":                {now: at.with("example.com/note", "y"), user: "system:node:n1", manager: "kubelet", admitted: reasonUnrelated},
		"WH-06 kubelet under our name":           {now: forged, user: "system:node:n1", manager: ownerNode, want: []reason{reasonForeign}},
		"WH-06 kubelet takes the owner's place":  {now: at, user: "system:node:n1", manager: ownerNode, want: []reason{reasonHolder}},
		"operator takes its place without count": {now: at, user: operatorUser, manager: ownerNode, want: []reason{reasonLate}, says: []string{seqNode}},
		"operator takes its place":               {now: at.with(seqNode, "6"), user: operatorUser, manager: ownerNode, admitted: reasonOwn},
		"operator annotates for others":          {now: at.with("example.com/note", "y"), user: operatorUser, manager: "manager", admitted: reasonUnrelated},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.old = at
			if strings.Contains(name, "place") {
				tc.old = at.heldBy(at.holders[1:]...)
			}
			tc.check(t)
		})
	}
}

// All forms of write that the operator's writer makes, and the nearest that it
// does not make.
func TestNumbers(t *testing.T) {
	at := recorded()
	forged := at.with(stateKey, stateForged)
	ours := at.holders[0]
	// released is what a release leaves: nothing of the owner.
	released := at.with(stateKey, goneMark, statusKey, goneMark, seqNode, goneMark).labelled(statusKey, goneMark).heldBy(at.holders[1:]...)
	shared := at.held(owner("gitops", stateKey))
	gitops := shared.holders[len(shared.holders)-1]
	// first is what a release leaves where another holds a key too.
	first := released.with(stateKey, stateValue).held(gitops)
	covered := first.with(stateKey, stateValue+" ", seqNode, "7").held(owner(ownerNode, stateKey, seqNode)).
		held(holder{name: "gitops", operation: applied, annotations: nil})
	dropped := shared.with(stateKey, goneMark, seqNode, "6")
	malformed := at.with(stateKey, "{")
	cases := map[string]struct {
		old, now node
		want     reason
		says     []string
	}{
		"grows by one":                      {at, forged.with(seqNode, "6"), "", nil},
		"skips one":                         {at, forged.with(seqNode, "7"), reasonLate, []string{"is 5", "says 7"}},
		"the largest":                       {at.with(seqNode, fmt.Sprint(int64(nodestate.MaxSeq)-1)), forged.with(seqNode, fmt.Sprint(int64(nodestate.MaxSeq))), "", nil},
		"beyond the largest":                {at, forged.with(seqNode, fmt.Sprint(int64(nodestate.MaxSeq)+1)), reasonLate, []string{seqNode}},
		"twenty digits":                     {at, forged.with(seqNode, "99999999999999999999"), reasonLate, []string{seqNode}},
		"stands":                            {at, forged, reasonLate, []string{seqNode, "is 5", "says 5"}},
		"falls":                             {at, forged.with(seqNode, "4"), reasonLate, []string{"says 4", "another state"}},
		"falls alone":                       {at, at.with(seqNode, "4"), reasonLate, nil},
		"is no number":                      {at, forged.with(seqNode, "six"), reasonLate, []string{`"six"`}},
		"is negative":                       {at, forged.with(seqNode, "-6"), reasonLate, nil},
		"is zero":                           {at.with(seqNode, goneMark), forged.with(seqNode, "0"), reasonLate, nil},
		"is empty":                          {at, forged.with(seqNode, ""), reasonLate, nil},
		"is missing":                        {at, forged.with(seqNode, goneMark), reasonLate, []string{"missing"}},
		"is the first":                      {at.with(seqNode, goneMark), forged.with(seqNode, "1"), "", nil},
		"takes the place of what is none":   {at.with(seqNode, "x"), forged.with(seqNode, "1"), "", nil},
		"takes the place of what is beyond": {at.with(seqNode, fmt.Sprint(int64(nodestate.MaxSeq)+1)), forged.with(seqNode, "6"), "", nil},
		"is longer and larger":              {at.with(seqNode, "9"), forged.with(seqNode, "10"), "", nil},

		"release":                                     {at, released, "", nil},
		"release that leaves a key":                   {at, released.with(stateKey, stateValue).held(owner(ownerNode, stateKey)), reasonLate, nil},
		"release that changes a key":                  {at, released.with(stateKey, stateForged), reasonLate, nil},
		"release that stays a holder":                 {at, released.held(ours), reasonLate, nil},
		"release that holds a label only":             {at, released.held(holder{name: ownerNode, operation: applied, labels: []string{statusKey}}), reasonLate, nil},
		"release of one key":                          {at, at.with(stateKey, goneMark), reasonLate, nil},
		"release where a key is shared":               {shared, first, "", nil},
		"covering after a release":                    {first, covered, "", nil},
		"covering after a release without a number":   {first, covered.with(seqNode, goneMark), reasonLate, nil},
		"removal after covering":                      {covered, released, "", nil},
		"apply that leaves a shared key out":          {shared, at.with(seqNode, "6").held(gitops).held(owner(ownerNode, statusKey, seqNode)), "", nil},
		"covering of a shared key":                    {shared, shared.with(stateKey, stateValue+" ", seqNode, "6"), "", nil},
		"removal of a shared key":                     {dropped, dropped.with(seqNode, "7"), "", nil},
		"covering of a value that cannot be read":     {malformed, malformed.with(stateKey, "{ ", seqNode, "6"), "", nil},
		"carrying of a value that cannot be read":     {malformed, malformed.with(statusKey, "complete", seqNode, "6"), "", nil},
		"value that cannot be read":                   {at, malformed.with(seqNode, "6"), reasonMalformed, []string{stateKey, "JSON"}},
		"value that could not be read":                {malformed, at.with(seqNode, "6"), "", nil},
		"stage that nobody knows":                     {at, at.with(stateKey, strings.Replace(stateValue, "apply", "aply", 1), seqNode, "6"), reasonMalformed, []string{"aply"}},
		"state that nobody knows":                     {at, at.with(stateKey, record("done"), seqNode, "6"), reasonMalformed, []string{"done"}},
		"version that is none":                        {at, at.with(stateKey, strings.Replace(stateValue, "1.2.3", "latest", 1), seqNode, "6"), reasonMalformed, []string{"latest"}},
		"record of another package":                   {at, at.with(stateKey, strings.Replace(stateValue, `"driver"`, `"other"`, 1), seqNode, "6"), reasonMalformed, []string{"other"}},
		"record that is too large":                    {at, at.with(stateKey, strings.Replace(stateValue, "r/d", strings.Repeat("x", nodestate.MaxStateValue), 1), seqNode, "6"), reasonMalformed, []string{"bytes"}},
		"label that nobody knows":                     {at, at.labelled(statusKey, "done").with(seqNode, "6"), reasonMalformed, []string{"label " + statusKey}},
		"label that is known":                         {at, at.labelled(statusKey, "complete").with(seqNode, "6"), "", nil},
		"a late one with a value that cannot be read": {at, malformed, reasonLate, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := write{old: tc.old, now: tc.now, user: operatorUser, manager: ownerNode, admitted: reasonOwn, says: tc.says}
			if tc.want != "" {
				w.want = []reason{tc.want}
			}
			if strings.HasPrefix(name, "a late one") {
				w.want = []reason{reasonLate, reasonMalformed}
			}
			w.check(t)
		})
	}
}

// The form of earlier operators: others may write it until it is given up.
func TestBlob(t *testing.T) {
	const blob = `{"driver|1.2.3":{"name":"driver","version":"1.2.3","image":"r/d","stage":"apply","state":"complete"}}`
	at := recorded()
	window := at.with(legacyKey, "converging", seqMigrate, "3").held(owner(ownerMigr, legacyKey, seqMigrate))
	gone := window.with(legacyKey, "pruned")
	cases := map[string]write{
		"in the window, added":              {old: window, now: window.with(blobKey, blob), admitted: reasonBlob, says: []string{blobKey, "alice"}},
		"in the window, and held":           {old: window, now: window.with(blobKey, blob).held(holder{name: "manager", operation: updated, annotations: []string{blobKey}}), admitted: reasonBlob},
		"in the window, cannot be read":     {old: window, now: window.with(blobKey, "[]"), admitted: reasonBlob, says: []string{"cannot be read"}},
		"in the window, removed":            {old: window.with(blobKey, blob), now: window, admitted: reasonBlob, says: []string{blobKey}},
		"in the window, together with ours": {old: window, now: window.with(blobKey, blob, stateKey, stateForged), want: []reason{reasonForeign}, says: []string{stateKey}},
		"before migration":                  {old: at, now: at.with(blobKey, blob), admitted: reasonBlob},
		"given up, added":                   {old: gone, now: gone.with(blobKey, blob), want: []reason{reasonFrozen}, says: []string{blobKey, legacyKey, blobKey + "_<package>", "converging"}},
		"given up, changed":                 {old: gone.with(blobKey, blob), now: gone.with(blobKey, "{}"), want: []reason{reasonFrozen}},
		"given up, removed":                 {old: gone.with(blobKey, blob), now: gone, admitted: reasonBlob},
		"given up, and held":                {old: gone.with(blobKey, blob), now: gone.with(blobKey, blob).held(owner("gitops", blobKey)), want: []reason{reasonHolder}},
		"given up, of another nodewright":   {old: gone, now: gone.with(blobKey+"2", blob), admitted: reasonBlob},
		"given up, by who takes that back":  {old: gone, now: gone.with(blobKey, blob, legacyKey, "converging"), want: []reason{reasonForeign, reasonFrozen}},
		"under the older prefix":            {old: gone, now: gone.with(nodestate.LegacyPrefix+"nodeState_tuning", blob), admitted: reasonUnrelated},
		"migration writes it": {old: window, now: window.with(blobKey, blob, seqMigrate, "4").held(owner(ownerMigr, legacyKey, seqMigrate, blobKey)),
			user: operatorUser, manager: ownerMigr, admitted: reasonOwn},
		"migration writes it late":             {old: window, now: window.with(blobKey, blob), user: operatorUser, manager: ownerMigr, want: []reason{reasonLate}},
		"migration writes what cannot be read": {old: window, now: window.with(blobKey, "[]", seqMigrate, "4"), user: operatorUser, manager: ownerMigr, want: []reason{reasonMalformed}},
		"migration gives it up":                {old: window.with(blobKey, blob), now: gone.with(seqMigrate, "4"), user: operatorUser, manager: ownerMigr, admitted: reasonOwn},
		"the operator holds it as another": {old: window.with(blobKey, blob),
			now:  window.with(blobKey, blob, seqNode, "6").held(owner(ownerNode, stateKey, statusKey, seqNode, blobKey)),
			user: operatorUser, manager: ownerNode, want: []reason{reasonHolder}, says: []string{blobKey, ownerMigr}},
		"migration takes that back": {old: gone, now: window.with(blobKey, blob, seqMigrate, "4"), user: operatorUser, manager: ownerMigr, admitted: reasonOwn},
		"migration writes it where it is given up": {old: gone, now: gone.with(blobKey, blob, seqMigrate, "4"), user: operatorUser, manager: ownerMigr,
			want: []reason{reasonFrozen}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.user == "" {
				tc.user, tc.manager = "alice", "manager"
			}
			tc.check(t)
		})
	}
}

func TestCreations(t *testing.T) {
	plain := node{annotations: pairs("example.com/note", "x", noteKey, "x"), labels: pairs(nodestate.Prefix+"ignore", "true")}
	cases := map[string]write{
		"nothing of ours": {now: plain, user: "system:node:n1", admitted: reasonUnrelated},
		"nothing at all":  {user: "system:node:n1", admitted: reasonUnrelated},
		"WH-06 a record":  {now: plain.with(stateKey, stateForged), user: "system:node:n1", want: []reason{reasonCreated}, says: []string{stateKey, ownerNode, "system:node:n1"}},
		"WH-06 nothing runs there that could run again": {now: plain.with(stateKey, stateForged), user: "alice", want: []reason{reasonCreated}, says: []string{"create it without"},
			never: "kubectl"},
		"WH-06 a label":          {now: plain.labelled(statusKey, "complete"), user: "system:node:n1", want: []reason{reasonCreated}, says: []string{"label " + statusKey}},
		"by the operator":        {now: plain.with(stateKey, stateForged, seqNode, "1"), user: operatorUser, manager: ownerNode, want: []reason{reasonCreated}},
		"with a request":         {now: plain.with(requestKey, `{"action":"rerun","id":"1"}`), user: "alice", admitted: reasonUnrelated},
		"WH-06 an apply of ours": {now: plain.held(claim(`"f:spec":{"f:taints":{}}`)), user: "system:node:n1", want: []reason{reasonSeized}, says: []string{ownerNode}},
		"an apply of his own":    {now: plain.held(owner("kubelet", "example.com/note")), user: "system:node:n1", admitted: reasonUnrelated},
		"with a blob":            {now: plain.with(blobKey, "{}"), user: "alice", want: []reason{reasonCreated}},
		"with a user's key": {now: plain.with(nodestate.Prefix+"slot_a_b", "x", nodestate.Prefix+"seq_x", "1"), user: "alice",
			admitted: reasonUnrelated},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.create = true
			tc.check(t)
		})
	}
}

// The command for another run names shortened keys in full, where the record
// says the names.
func TestRemedyOfShortenedKeys(t *testing.T) {
	long, pkg := strings.Repeat("a", 50), strings.Repeat("b", 30)
	key := nodestate.NewPackageKey(nodestate.KindNodeState, long, pkg)
	value := fmt.Sprintf(`{"image":"r/d","name":%q,"nodewright":%q,"run":1,"stage":"apply","state":"complete","version":"1.2.3"}`, pkg, long)
	old := recorded().with(key.String(), value)
	w := byAlice(old.with(key.String(), goneMark), reasonForeign,
		fmt.Sprintf(`%s='{"action":"rerun","id":"'$(date +%%s)'","nodewright":%q,"package":%q}'`,
			nodestate.NewPackageKey(nodestate.KindPackageRequest, long, pkg), long, pkg))
	w.old = old
	w.check(t)
	q := &question{node: nodeName, old: recorded().metadata(), now: recorded().metadata()}
	if got := q.remedy([]problem{{reason: reasonForeign, key: key}}); got != "" {
		t.Errorf("a command %q for names that nobody knows", got)
	}
}
