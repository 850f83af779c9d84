package node

import "testing"

// What cannot be read in managedFields hides who holds what. It is refused where it
// comes, said once, and left alone where it stands.
func TestManagersThatCannotBeRead(t *testing.T) {
	at := recorded()
	foreign := claim(`"f:spec":{"f:taints":{`)
	ours := claim(`"f:metadata":{"f:annotations":{"f:` + stateKey)
	stood := at.held(foreign)
	released := at.with(stateKey, goneMark, statusKey, goneMark, seqNode, goneMark).labelled(statusKey, goneMark)
	cases := map[string]write{
		"a claim comes":              {old: at, now: at.held(foreign), user: "alice", want: []reason{reasonUnreadable}, says: []string{ownerNode, "managedFields"}},
		"a claim on our key comes":   {old: at, now: at.held(ours), user: "alice", want: []reason{reasonUnreadable}},
		"a claim comes with a node":  {now: node{holders: []holder{foreign}}, create: true, user: "alice", want: []reason{reasonUnreadable}},
		"a claim stands":             {old: stood, now: stood.with("example.com/note", "y"), user: "alice", admitted: reasonUnrelated},
		"release beside it":          {old: stood, now: released.held(foreign), user: operatorUser, manager: ownerNode, want: []reason{reasonLate}},
		"release that takes it away": {old: stood, now: released.heldBy(at.holders[1:]...), user: operatorUser, manager: ownerNode, admitted: reasonOwn},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.check(t)
			v := decide(&question{node: nodeName, user: tc.user, manager: tc.manager, operator: operatorUser, create: tc.create,
				old: tc.old.metadata(), now: tc.now.metadata()})
			if len(v.problems) != len(tc.want) {
				t.Errorf("%d problems, want %d: %+v", len(v.problems), len(tc.want), v.problems)
			}
		})
	}
}
