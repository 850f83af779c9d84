package nodestate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nodewright/nodewright/apis/nodestate"
)

func size(annotations map[string]string) int {
	n := 0
	for k, v := range annotations {
		n += len(k) + len(v)
	}
	return n
}

func statuses(n int, message string) nodestate.Set {
	var set nodestate.Set
	for i := range n {
		ref := nodestate.PackageRef{NodeWright: "tuning", Package: fmt.Sprintf("pkg-%dx", i)}
		put(&set.Packages, ref, nodestate.PackageStatus{
			Image: "registry.example/team/package", Message: message, Run: 1_000, Since: "2026-01-02T03:04:05Z",
			Stage: nodestate.StageConfig, State: nodestate.StateComplete, Version: "1.2.3",
			Previous: []nodestate.PreviousVersion{{Image: "registry.example/team/package", Version: "1.2.2"}},
			UID:      "01234567-89ab-cdef-0123-456789abcdef", Rollout: "0123456789abcdef",
		})
	}
	return set
}

func reports(n int, message, log string) nodestate.Set {
	var set nodestate.Set
	nodeWright := strings.Repeat("w", 253)
	for i := range n {
		ref := nodestate.PackageRef{NodeWright: nodeWright, Package: fmt.Sprintf("pkg-%dx", i)}
		put(&set.JobReports, ref, nodestate.JobReport{
			Attempt: 1, Job: "j", LogTail: log, Message: message, Reason: "Error", Stage: nodestate.StageApply, Version: "1",
		})
	}
	return set
}

// The design's promise: a hundred packages stay below 45 KB and a half.
func TestHundredPackagesAreSmall(t *testing.T) {
	t.Parallel()
	set := statuses(100, "")
	got, err := set.Encode(nodestate.OwnerNode, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n := size(got.Annotations); n > 45_000 || got.Shrunk {
		t.Errorf("100 packages take %d bytes, shrunk = %t, want at most 45000", n, got.Shrunk)
	}
}

// Texts are cut one by one before anything is given up for the share.
func TestTextsAreCapped(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"plain": strings.Repeat("x", 10_000), "runes": strings.Repeat("日", 10_000), "bad bytes": strings.Repeat("x\xff", 10_000),
		"control characters": strings.Repeat("\x00", 10_000), "quotes": strings.Repeat(`"`, 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, jobs := statuses(1, text), reports(1, text, text)
			for owner, set := range map[nodestate.Owner]nodestate.Set{nodestate.OwnerNode: states, nodestate.OwnerJob: jobs} {
				encoded, err := set.Encode(owner, 1)
				if err != nil {
					t.Fatal(err)
				}
				got := nodestate.Decode(encoded.Annotations, nil)
				if len(got.Malformed) > 0 {
					t.Fatalf("what Encode wrote cannot be read: %v", got.Malformed[0].Err)
				}
				for _, s := range got.Packages {
					checkText(t, "message", s.Message, nodestate.MaxMessage)
				}
				for _, r := range got.JobReports {
					checkText(t, "message", r.Message, nodestate.MaxMessage)
					checkText(t, "logTail", r.LogTail, nodestate.MaxLogTail)
				}
			}
		})
	}
}

func checkText(t *testing.T, what, got string, limit int) {
	t.Helper()
	if len(got) > limit || len(got) < limit-3 || !utf8.ValidString(got) {
		t.Errorf("%s has %d bytes, valid = %t, want nearly %d", what, len(got), utf8.ValidString(got), limit)
	}
}

func TestPreviousIsCapped(t *testing.T) {
	t.Parallel()
	set := statuses(1, "")
	for ref, s := range set.Packages {
		s.Previous = nil
		for i := range 10 {
			s.Previous = append(s.Previous, nodestate.PreviousVersion{Version: fmt.Sprintf("1.0.%d", i)})
		}
		set.Packages[ref] = s
	}
	encoded, err := set.Encode(nodestate.OwnerNode, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range nodestate.Decode(encoded.Annotations, nil).Packages {
		if len(s.Previous) != nodestate.MaxPrevious || s.Previous[0].Version != "1.0.0" {
			t.Errorf("Previous = %v, want the newest %d", s.Previous, nodestate.MaxPrevious)
		}
	}
	for _, s := range set.Packages {
		if len(s.Previous) != 10 {
			t.Error("Encode changed the set that it was given")
		}
	}
}

// Over the share texts go first, then previous versions; names, stages and
// states never.
func TestSharesShrinkInOrder(t *testing.T) {
	t.Parallel()
	message, log := strings.Repeat("m", nodestate.MaxMessage), strings.Repeat("l", nodestate.MaxLogTail)
	for name, tc := range map[string]struct {
		set         nodestate.Set
		owner       nodestate.Owner
		wantShrunk  bool
		wantMessage int
		wantLog     int
		wantOlder   bool
		wantErr     bool
	}{
		"nodes, fits":        {set: statuses(100, message), owner: nodestate.OwnerNode, wantMessage: 256, wantOlder: true},
		"nodes, short texts": {set: statuses(170, message), owner: nodestate.OwnerNode, wantShrunk: true, wantMessage: 96, wantOlder: true},
		"nodes, no texts":    {set: statuses(220, message), owner: nodestate.OwnerNode, wantShrunk: true, wantOlder: true},
		"nodes, no previous": {set: statuses(300, message), owner: nodestate.OwnerNode, wantShrunk: true},
		"nodes, too many":    {set: statuses(500, message), owner: nodestate.OwnerNode, wantErr: true},
		"jobs, fits":         {set: reports(10, message, log), owner: nodestate.OwnerJob, wantMessage: 256, wantLog: 1024},
		"jobs, short texts":  {set: reports(20, message, log), owner: nodestate.OwnerJob, wantShrunk: true, wantMessage: 96, wantLog: 256},
		"jobs, no texts":     {set: reports(45, message, log), owner: nodestate.OwnerJob, wantShrunk: true},
		"jobs, too many":     {set: reports(500, message, log), owner: nodestate.OwnerJob, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			encoded, err := tc.set.Encode(tc.owner, 1)
			if tc.wantErr {
				var share *nodestate.ShareError
				if !errors.As(err, &share) || share.Owner != tc.owner || share.Size <= share.Limit || share.Limit != tc.owner.Share() {
					t.Fatalf("Encode() error = %v, want a ShareError with sizes", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := size(encoded.Annotations); n > tc.owner.Share() {
				t.Errorf("set takes %d bytes, share is %d", n, tc.owner.Share())
			}
			if encoded.Shrunk != tc.wantShrunk {
				t.Errorf("Shrunk = %t, want %t", encoded.Shrunk, tc.wantShrunk)
			}
			got := nodestate.Decode(encoded.Annotations, nil)
			if len(got.Packages) != len(tc.set.Packages) || len(got.JobReports) != len(tc.set.JobReports) {
				t.Fatalf("%d of %d entries are left", len(got.Packages)+len(got.JobReports),
					len(tc.set.Packages)+len(tc.set.JobReports))
			}
			for _, s := range got.Packages {
				if len(s.Message) != tc.wantMessage || (len(s.Previous) > 0) != tc.wantOlder || !s.Complete(nodestate.StageConfig) {
					t.Fatalf("entry = %+v", s)
				}
			}
			for _, r := range got.JobReports {
				if len(r.Message) != tc.wantMessage || len(r.LogTail) != tc.wantLog {
					t.Fatalf("message of %d, log of %d bytes, want %d and %d",
						len(r.Message), len(r.LogTail), tc.wantMessage, tc.wantLog)
				}
			}
		})
	}
}

// One oversized value that nobody can read does not stop the owner.
func TestRawValuesDoNotCount(t *testing.T) {
	t.Parallel()
	set := reports(1, "m", "l")
	key := prefix + "jobState_tuning_pa"
	set.Raw = map[string]string{key: strings.Repeat("x", nodestate.ShareJob+1)}
	got, err := set.Encode(nodestate.OwnerJob, 1)
	if err != nil || got.Shrunk || got.Annotations[key] != set.Raw[key] {
		t.Errorf("Encode() = shrunk %t, %v, want the set and the raw value", got.Shrunk, err)
	}
}

func TestSharesLeaveHalfToOthers(t *testing.T) {
	t.Parallel()
	sum := 0
	for _, o := range nodestate.Owners() {
		sum += o.Share()
	}
	if limit := 256 << 10; sum > limit*9/16 {
		t.Errorf("shares are %d bytes together, want about half of %d", sum, limit)
	}
}

// CL-02: texts are JSON strings, not Go strings.
func TestTextsAreJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`a"b`, `a\b`, "a\nb", "ä😀", "\x7f", "\u2028", "\a\v", "<script>"} {
		set := statuses(1, text)
		encoded, err := set.Encode(nodestate.OwnerNode, 1)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range encoded.Annotations {
			if key == nodestate.OwnerNode.SeqKey() {
				continue
			}
			var got struct{ Message string }
			if err := json.Unmarshal([]byte(value), &got); err != nil || got.Message != text {
				t.Errorf("message %q is written as %s (%v)", text, value, err)
			}
		}
	}
}
