package nodestate_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewright/nodewright/apis/nodestate"
)

const goodStatus = `{"image":"r/pa","name":"pa","nodewright":"nw","run":3,"stage":"apply","state":"complete","version":"1.0.0"}`

// ST-19, ST-30: values that cannot be read are reported and carried, and do not
// disturb the others.
func TestMalformedValues(t *testing.T) {
	t.Parallel()
	change := func(from, to string) string { return strings.Replace(goodStatus, from, to, 1) }
	state, job, pod := prefix+"nodeState_nw_pa", prefix+"jobState_nw_pa", prefix+"podState_nw_pa"
	for name, tc := range map[string]struct {
		key, value string
		wantText   string
	}{
		"ST-30 empty":             {key: state, value: "", wantText: "empty"},
		"ST-19 empty version":     {key: state, value: `{"version":""}`, wantText: "version"},
		"ST-19 empty object":      {key: state, value: `{}`, wantText: "stage"},
		"ST-19 null":              {key: state, value: `null`, wantText: "not a JSON object"},
		"ST-19 array":             {key: state, value: `[]`, wantText: "not a JSON object"},
		"ST-19 string":            {key: state, value: `"x"`, wantText: "not a JSON object"},
		"ST-19 version v":         {key: state, value: change(`"1.0.0"`, `"v"`), wantText: `"v"`},
		"ST-19 junk of 64 KiB":    {key: state, value: strings.Repeat("junk", 16<<10), wantText: "65536 bytes"},
		"ST-19 invalid UTF-8":     {key: state, value: change("r/pa", "r/\xff"), wantText: "UTF-8"},
		"ST-19 unknown stage":     {key: state, value: change("apply", "foo"), wantText: `"foo"`},
		"ST-19 unknown state":     {key: state, value: change("complete", "done"), wantText: `"done"`},
		"ST-19 number as text":    {key: state, value: change(`"run":3`, `"run":"3"`), wantText: "run"},
		"ST-19 text as number":    {key: state, value: change(`"1.0.0"`, `1.0`), wantText: "version"},
		"ST-19 run too large":     {key: state, value: change(`"run":3`, `"run":1e30`), wantText: "run"},
		"ST-19 negative run":      {key: state, value: change(`"run":3`, `"run":-3`), wantText: "negative"},
		"ST-19 two documents":     {key: state, value: goodStatus + goodStatus, wantText: "parse JSON"},
		"ST-19 cut off":           {key: state, value: goodStatus[:40], wantText: "parse JSON"},
		"since is no time":        {key: state, value: change(`"run":3`, `"run":3,"since":"today"`), wantText: "since"},
		"of another package":      {key: state, value: change(`"pa"`, `"pb"`), wantText: "not the key's"},
		"of another nodewright":   {key: state, value: change(`"nw"`, `"other"`), wantText: "not the key's"},
		"of no nodewright":        {key: state, value: change(`"nodewright":"nw",`, ``), wantText: "not the key's"},
		"report without reason":   {key: job, value: `{"job":"j","name":"pa","nodewright":"nw","stage":"apply"}`, wantText: "reason"},
		"report, empty":           {key: job, value: "", wantText: "empty"},
		"report, too large":       {key: job, value: "{" + strings.Repeat(" ", nodestate.MaxReportValue) + "}", wantText: "bytes"},
		"pod report without time": {key: pod, value: `{"name":"pa","nodewright":"nw","pod":"p","reason":"r"}`, wantText: "waitingSince"},
		"status word":             {key: prefix + "status_nw", value: "fine", wantText: `"fine"`},
		"status, empty":           {key: prefix + "status_nw", value: "", wantText: "empty"},
		"slot state":              {key: prefix + "slot_nw", value: `{"id":"1","nodewright":"nw","state":"idle"}`, wantText: `"idle"`},
		"batch without id":        {key: prefix + "batch_nw", value: `{"nodewright":"nw"}`, wantText: "id"},
		"cordon time":             {key: prefix + "cordon_nw", value: "yesterday", wantText: "RFC 3339"},
		"cordon beyond year 9999": {key: prefix + "cordon_nw", value: "9999-12-31T23:59:59-23:00", wantText: "RFC 3339"},
		"drain start, empty":      {key: prefix + "drainStart_nw", value: "", wantText: "empty"},
		"handled":                 {key: prefix + "handled_nw", value: `"a"`, wantText: "ids"},
		"handled, null":           {key: prefix + "handled_nw", value: `null`, wantText: "ids"},
		"migration phase":         {key: prefix + "legacy_nw", value: "gone", wantText: `"gone"`},
		"blob, empty":             {key: prefix + "nodeState_nw", value: "", wantText: "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			neighbour := strings.Replace(goodStatus, `"pa"`, `"pz"`, 1)
			annotations := map[string]string{tc.key: tc.value, prefix + "nodeState_nw_pz": neighbour, "example.com/x": ""}
			got := nodestate.Decode(annotations, []string{"nw"})
			if len(got.Malformed) != 1 {
				t.Fatalf("Decode() reports %d malformed values, want 1", len(got.Malformed))
			}
			m := got.Malformed[0]
			if m.Key != tc.key || m.Value != tc.value || m.NodeWright != "nw" {
				t.Errorf("malformed = %q of %q, want %q", m.Key, m.NodeWright, tc.key)
			}
			if !strings.Contains(m.Err.Error(), tc.wantText) || len(m.Err.Error()) > 1024 {
				t.Errorf("error = %q, want it to say %q briefly", m.Err, tc.wantText)
			}
			if diff := cmp.Diff(map[string]string{tc.key: tc.value}, got.Raw); diff != "" {
				t.Errorf("Raw (-want +got):\n%s", diff)
			}
			if len(got.Packages) != 1 {
				t.Errorf("Decode() has %d packages, want the neighbour", len(got.Packages))
			}
		})
	}
}

// What cannot be read survives the owner's applies byte for byte.
func TestMalformedValuesAreCarried(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		prefix + "nodeState_nw_pa": "",
		prefix + "nodeState_nw_pb": "{\"version\": \"\"}\xff",
		prefix + "status_nw":       "fine",
	}
	got := nodestate.Decode(want, []string{"nw"})
	set := nodestate.Set{Raw: got.Raw}
	encoded, err := set.Encode(nodestate.OwnerNode, 1)
	if err != nil {
		t.Fatal(err)
	}
	want = maps.Clone(want)
	want[prefix+"seq_node"] = "1"
	if diff := cmp.Diff(want, encoded.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestMalformedFenceAndRequest(t *testing.T) {
	t.Parallel()
	got := nodestate.Decode(map[string]string{
		prefix + "seq_node":      "-4",
		prefix + "request_nw":    `{"action":"explode","id":"1"}`,
		prefix + "request_nw_pa": `{"action":"rerun","id":"1","stage":"foo"}`,
	}, nil)
	if len(got.Malformed) != 3 || len(got.Raw) != 0 || len(got.Seq) != 0 || len(got.Requests) != 0 {
		t.Errorf("Decode() = %+v, want three malformed values that nobody carries", got)
	}
}

func TestDecodeRequests(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("w", 253)
	longKey := nodestate.NewPackageKey(nodestate.KindPackageRequest, long, "pa").String()
	longValue := `{"action":"reset","id":"2","nodewright":"` + long + `","package":"pa"}`
	got := nodestate.Decode(map[string]string{
		prefix + "request_nw_pa": `{"action":"rerun","id":"1","stage":"config"}`,
		prefix + "request_nw":    `{"action":"reset","id":"3"}`,
		longKey:                  longValue,
	}, nil)
	want := []nodestate.RequestAt{
		{
			Request: nodestate.Request{Action: nodestate.ActionReset, ID: "3", NodeWright: "nw"},
			Key:     prefix + "request_nw", Value: `{"action":"reset","id":"3"}`,
		},
		{
			Request: nodestate.Request{Action: nodestate.ActionRerun, ID: "1", NodeWright: "nw", Package: "pa", Stage: "config"},
			Key:     prefix + "request_nw_pa", Value: `{"action":"rerun","id":"1","stage":"config"}`,
		},
		{
			Request: nodestate.Request{Action: nodestate.ActionReset, ID: "2", NodeWright: long, Package: "pa"},
			Key:     longKey, Value: longValue,
		},
	}
	if diff := cmp.Diff(want, got.Requests); diff != "" {
		t.Errorf("Requests (-want +got):\n%s", diff)
	}
}

// A shortened key whose value does not say the name is resolved by what is
// known, else kept.
func TestShortenedKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("w", 253)
	key := nodestate.NewKey(nodestate.KindStatus, long).String()
	annotations := map[string]string{key: "complete"}
	if got := nodestate.Decode(annotations, []string{"other", long}); got.Status[long] != nodestate.StatusComplete {
		t.Errorf("Decode() with the name known: status = %v", got.Status)
	}
	if got := nodestate.Decode(annotations, []string{"other"}); len(got.Status) > 0 || got.Raw[key] != "complete" {
		t.Errorf("Decode() with the name unknown: status = %v, raw = %v", got.Status, got.Raw)
	}
	batch, err := (&nodestate.Set{Batches: map[string]nodestate.Batch{long: {ID: "1"}}}).Encode(nodestate.OwnerRollout, 1)
	if err != nil {
		t.Fatal(err)
	}
	batch.Annotations[key] = "complete"
	if got := nodestate.Decode(batch.Annotations, nil); got.Status[long] != nodestate.StatusComplete {
		t.Errorf("Decode() with the name told by another key: status = %v", got.Status)
	}
}

func FuzzDecode(f *testing.F) {
	long := strings.Repeat("w", 253)
	for _, key := range []string{
		prefix + "nodeState_nw_pa", prefix + "jobState_nw_pa", prefix + "podState_nw_pa", prefix + "status_nw",
		prefix + "slot_nw", prefix + "batch_nw", prefix + "cordon_nw", prefix + "handled_nw", prefix + "legacy_nw",
		prefix + "nodeState_nw", prefix + "seq_node", prefix + "request_nw", prefix + "request_nw_pa",
		nodestate.NewPackageKey(nodestate.KindNodeState, long, "pa").String(),
		nodestate.NewKey(nodestate.KindStatus, long).String(),
	} {
		for _, value := range []string{
			"", "null", "[]", "{}", `"x"`, "1", "complete", goodStatus, `{"version":""}`, "\xff", "{\"name\":\"\xff\"}",
			`{"id":"1","nodewright":"nw","state":"working"}`, "2026-01-02T03:04:05Z", "9999-12-31T23:59:59-23:59",
			`{"previous":null,"interrupt":null,"name":"pa"}`, strings.Repeat("[", 10_000), `{"run":99999999999999999999}`,
		} {
			f.Add(key, value)
		}
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		got := nodestate.Decode(map[string]string{key: value}, []string{"nw"})
		k, known := nodestate.ParseKey(key)
		if !known {
			return
		}
		owner, owned := k.Owner()
		if !owned || k.Kind == nodestate.KindSeq {
			return
		}
		// Whatever it was: the owner writes it back, and reads the same again.
		encoded, err := got.Encode(owner, 1)
		if err != nil {
			t.Fatalf("Encode() of what was decoded from %q=%q: %v", key, value, err)
		}
		if _, kept := encoded.Annotations[key]; !kept {
			t.Fatalf("%q is dropped: %v", key, encoded.Annotations)
		}
		if len(got.Malformed) > 0 && encoded.Annotations[key] != value {
			t.Fatalf("%q=%q was changed to %q", key, value, encoded.Annotations[key])
		}
		again := nodestate.Decode(encoded.Annotations, []string{"nw"})
		if len(again.Malformed) != len(got.Malformed) {
			t.Fatalf("%q=%q becomes malformed as %q", key, value, encoded.Annotations[key])
		}
	})
}
