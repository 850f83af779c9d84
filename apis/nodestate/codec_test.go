package nodestate_test

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// What an owner writes is what a reader gets, whatever the names and texts.
func TestEncodeDecodeRoundTrip(t *testing.T) {
	t.Parallel()
	for _, owner := range nodestate.Owners() {
		t.Run(owner.Controller(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				set, names := drawSet(t, owner)
				seq := rapid.Int64Range(1, nodestate.MaxSeq).Draw(t, "seq")
				encoded, err := set.Encode(owner, seq)
				if err != nil {
					t.Fatalf("Encode(): %v", err)
				}
				got := nodestate.Decode(encoded.Annotations, names)
				if len(got.Malformed) > 0 {
					t.Fatalf("Decode(Encode(set)) has malformed values: %+v", got.Malformed)
				}
				if diff := cmp.Diff(set, got.Set, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("Decode(Encode(set)) (-want +got):\n%s", diff)
				}
				if got.Seq[owner] != seq || len(got.Seq) != 1 {
					t.Fatalf("Decode(Encode(set)).Seq = %v, want %d of %s", got.Seq, seq, owner)
				}
				again, err := got.Encode(owner, seq)
				if err != nil || !maps.Equal(encoded.Annotations, again.Annotations) {
					t.Fatalf("encoding what was decoded differs (%v):\n%s", err, cmp.Diff(encoded.Annotations, again.Annotations))
				}
				for key := range encoded.Annotations {
					if o, owned := nodestate.OwnerOf(key); !owned || o != owner {
						t.Fatalf("Encode(%s) writes %s, which belongs to %q", owner, key, o)
					}
				}
			})
		})
	}
}

// Encoding is canonical: fields in the order of their names, no spaces.
func TestEncodeIsCanonical(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		owner := rapid.SampledFrom(nodestate.Owners()).Draw(t, "owner")
		set, _ := drawSet(t, owner)
		set.Blobs = nil // carried byte for byte
		encoded, err := set.Encode(owner, 1)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range encoded.Annotations {
			if !strings.HasPrefix(value, "{") {
				continue
			}
			dec := json.NewDecoder(strings.NewReader(value))
			dec.UseNumber()
			var sorted map[string]any
			if err := dec.Decode(&sorted); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			var b strings.Builder
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(sorted); err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimSuffix(b.String(), "\n"); value != want {
				t.Fatalf("%s is not canonical:\n got %s\nwant %s", key, value, want)
			}
		}
	})
}

func TestEncodeGolden(t *testing.T) {
	t.Parallel()
	ref := nodestate.PackageRef{NodeWright: "tuning", Package: "driver"}
	set := nodestate.Set{
		Packages: map[nodestate.PackageRef]nodestate.PackageStatus{ref: {
			Attempt: 2, Failures: 1, Image: "registry.example/driver", Message: `exit 1: "no" <x>`,
			Run: 7, Since: "2026-01-02T03:04:05Z", Stage: nodestate.StageApply,
			State: nodestate.StateInProgress, UID: "u1", Version: "1.2.3",
		}},
		Status:  map[string]nodestate.StatusWord{"tuning": nodestate.StatusInProgress},
		Cordons: map[string]time.Time{"tuning": time.Date(2026, 1, 2, 4, 4, 5, 999, time.FixedZone("", 3600))},
		Handled: map[string][]string{"tuning": {"b", "a"}},
	}
	got, err := set.Encode(nodestate.OwnerNode, 9)
	if err != nil {
		t.Fatal(err)
	}
	want := nodestate.Encoded{
		Annotations: map[string]string{
			prefix + "nodeState_tuning_driver": `{"attempt":2,"failures":1,"image":"registry.example/driver",` +
				`"message":"exit 1: \"no\" <x>","name":"driver","nodewright":"tuning","restarts":1,"run":7,` +
				`"since":"2026-01-02T03:04:05Z","stage":"apply","state":"in_progress","uid":"u1","version":"1.2.3"}`,
			prefix + "status_tuning":  "in_progress",
			prefix + "cordon_tuning":  "2026-01-02T03:04:05Z",
			prefix + "handled_tuning": `["a","b"]`,
			prefix + "seq_node":       "9",
		},
		Labels: map[string]string{prefix + "status_tuning": "in_progress"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Encode() (-want +got):\n%s", diff)
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	ref := nodestate.PackageRef{NodeWright: "a", Package: "pa"}
	for name, tc := range map[string]struct {
		set          nodestate.Set
		owner        nodestate.Owner
		seq          int64
		wantNotOwner bool
	}{
		"report of the job controller": {
			set:   nodestate.Set{JobReports: map[nodestate.PackageRef]nodestate.JobReport{ref: {}}},
			owner: nodestate.OwnerNode, seq: 1, wantNotOwner: true,
		},
		"state key by the job controller": {
			set:   nodestate.Set{Packages: map[nodestate.PackageRef]nodestate.PackageStatus{ref: {}}},
			owner: nodestate.OwnerJob, seq: 1, wantNotOwner: true,
		},
		"raw key of another owner": {
			set:   nodestate.Set{Raw: map[string]string{prefix + "batch_a": "x"}},
			owner: nodestate.OwnerPod, seq: 1, wantNotOwner: true,
		},
		"raw key of a user": {
			set:   nodestate.Set{Raw: map[string]string{prefix + "pause": "x"}},
			owner: nodestate.OwnerNode, seq: 1, wantNotOwner: true,
		},
		"raw request": {
			set:   nodestate.Set{Raw: map[string]string{prefix + "request_a": "x"}},
			owner: nodestate.OwnerNode, seq: 1, wantNotOwner: true,
		},
		"raw key of nobody": {
			set:   nodestate.Set{Raw: map[string]string{"example.com/x": "x"}},
			owner: nodestate.OwnerNode, seq: 1, wantNotOwner: true,
		},
		"stranger":       {owner: "kubectl", seq: 1, wantNotOwner: true},
		"seq 0":          {owner: nodestate.OwnerNode},
		"negative seq":   {owner: nodestate.OwnerNode, seq: -1},
		"seq of 19 dig.": {owner: nodestate.OwnerNode, seq: 1_000_000_000_000_000_000},
		"package that is no package name": {
			set: nodestate.Set{Packages: map[nodestate.PackageRef]nodestate.PackageStatus{
				{NodeWright: "a", Package: "x_y"}: {},
			}},
			owner: nodestate.OwnerNode, seq: 1,
		},
		"nodewright that is no name": {
			set:   nodestate.Set{Status: map[string]nodestate.StatusWord{"a_b": nodestate.StatusComplete}},
			owner: nodestate.OwnerNode, seq: 1,
		},
		"blob whose key would be shortened": {
			set:   nodestate.Set{Blobs: map[string]string{strings.Repeat("w", 54): "{}"}},
			owner: nodestate.OwnerMigration, seq: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.set.Encode(tc.owner, tc.seq)
			if err == nil {
				t.Fatalf("Encode() = %v, want an error", got.Annotations)
			}
			if errors.Is(err, nodestate.ErrNotOwner) != tc.wantNotOwner {
				t.Errorf("Encode() error = %v, want ErrNotOwner = %t", err, tc.wantNotOwner)
			}
		})
	}
}

func TestSeqRoundTrip(t *testing.T) {
	t.Parallel()
	for _, seq := range []int64{0, 1, 10, nodestate.MaxSeq} {
		if got, err := nodestate.ParseSeq(nodestate.FormatSeq(seq)); err != nil || got != seq {
			t.Errorf("ParseSeq(FormatSeq(%d)) = %d, %v", seq, got, err)
		}
	}
	for _, bad := range []string{"", "-1", "+1", " 1", "1e3", "0x1", "1.0", "x", "１", "1234567890123456789", "999999999999999999"} {
		if got, err := nodestate.ParseSeq(bad); err == nil {
			t.Errorf("ParseSeq(%q) = %d, want an error", bad, got)
		}
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	batch := nodestate.Batch{ID: "2"}
	for name, tc := range map[string]struct {
		slot *nodestate.Slot
		want bool
	}{
		"not answered":         {want: true},
		"working":              {slot: &nodestate.Slot{ID: "2", State: nodestate.SlotWorking}, want: true},
		"released":             {slot: &nodestate.Slot{ID: "2", State: nodestate.SlotReleased}},
		"released another one": {slot: &nodestate.Slot{ID: "1", State: nodestate.SlotReleased}, want: true},
		"working on another":   {slot: &nodestate.Slot{ID: "1", State: nodestate.SlotWorking}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := batch.Holds(tc.slot); got != tc.want {
				t.Errorf("Holds() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestSameVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		a, b string
		want bool
	}{
		"bytes":          {a: "1.2.3", b: "1.2.3", want: true},
		"leading v":      {a: "v1.2.3", b: "1.2.3", want: true},
		"short":          {a: "1.2", b: "1.2.0", want: true},
		"build":          {a: "1.2.0", b: "1.2.0+b2", want: true},
		"pre-release":    {a: "1.2.0", b: "1.2.0-rc.1"},
		"higher":         {a: "1.2.0", b: "1.10.0"},
		"unreadable":     {a: "latest", b: "latest", want: true},
		"two unreadable": {a: "latest", b: "newest"},
		"one unreadable": {a: "1", b: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := nodestate.SameVersion(tc.a, tc.b); got != tc.want {
				t.Errorf("SameVersion(%q, %q) = %t, want %t", tc.a, tc.b, got, tc.want)
			}
		})
	}
}
