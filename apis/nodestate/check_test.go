package nodestate

import (
	"strings"
	"testing"
)

func TestCheckValue(t *testing.T) {
	const state = `{"name":"driver","nodewright":"tuning","image":"r/d","run":1,"stage":"apply","state":"complete","version":"1.2.3"}`
	long := strings.Repeat("a", 60)
	hashed := NewKey(KindStatus, long)
	if hashed.Hash == "" {
		t.Fatal("the key is not hashed")
	}
	stateKey := NewPackageKey(KindNodeState, "tuning", "driver")
	cases := map[string]struct {
		key   Key
		value string
		want  string
	}{
		"record":                     {key: stateKey, value: state},
		"record with a space behind": {key: stateKey, value: state + " "},
		"record of another package":  {key: NewPackageKey(KindNodeState, "tuning", "other"), value: state, want: "not the key's"},
		"record of another stage":    {key: stateKey, value: strings.Replace(state, "apply", "aply", 1), want: "stage"},
		"record of another state":    {key: stateKey, value: strings.Replace(state, "complete", "done", 1), want: "state"},
		"record with a bad version":  {key: stateKey, value: strings.Replace(state, "1.2.3", "latest", 1), want: "version"},
		"record that is large": {key: stateKey, want: "bytes",
			value: strings.Replace(state, "r/d", strings.Repeat("x", MaxStateValue), 1)},
		"record that is just not large": {key: stateKey, value: state + strings.Repeat(" ", MaxStateValue-len(state))},
		"no record":                     {key: stateKey, value: "", want: "empty"},
		"status":                        {key: NewKey(KindStatus, "tuning"), value: "complete"},
		"status that nobody knows":      {key: NewKey(KindStatus, "tuning"), value: "done", want: "done"},
		"status of a shortened key":     {key: hashed, value: "complete"},
		"slot of a shortened key": {key: NewKey(KindSlot, long), want: "not the key's",
			value: `{"id":"1","nodewright":"` + strings.Repeat("b", 60) + `","state":"working"}`},
		"its own slot of a shortened key": {key: NewKey(KindSlot, long),
			value: `{"id":"1","nodewright":"` + long + `","state":"working"}`},
		"time":                {key: NewKey(KindCordon, "tuning"), value: "2026-01-01T00:00:00Z"},
		"no time":             {key: NewKey(KindCordon, "tuning"), value: "yesterday", want: "RFC 3339"},
		"ids":                 {key: NewKey(KindHandled, "tuning"), value: `["1"]`},
		"too many ids":        {key: NewKey(KindHandled, "tuning"), value: `["` + strings.Repeat("1", MaxSmallValue) + `"]`, want: "bytes"},
		"hash of a blob":      {key: NewKey(KindLegacySeen, "tuning"), value: BlobHash("{}")},
		"phase":               {key: NewKey(KindLegacy, "tuning"), value: "pruned"},
		"another phase":       {key: NewKey(KindLegacy, "tuning"), value: "done", want: "converging"},
		"blob":                {key: NewKey(KindBlob, "tuning"), value: `{"driver|1.2.3":{}}`},
		"blob that is none":   {key: NewKey(KindBlob, "tuning"), value: `[]`, want: "JSON object"},
		"number":              {key: Key{Kind: KindSeq, seqOwner: OwnerNode}, value: "7"},
		"number that is none": {key: Key{Kind: KindSeq, seqOwner: OwnerNode}, value: "seven", want: "seven"},
		"number beyond the last one": {key: Key{Kind: KindSeq, seqOwner: OwnerNode}, value: FormatSeq(MaxSeq + 1),
			want: "room to grow"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := CheckValue(tc.key, tc.value)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v does not say %q", err, tc.want)
			}
		})
	}
}
