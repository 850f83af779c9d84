package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadConstants(t *testing.T) {
	for name, tc := range map[string]struct {
		source  string
		want    []constant
		wantErr string
	}{
		"one alone":       {"// SlotA is the Reason\n// of it.\nconst SlotA = \"A\"\n", []constant{{"SlotA", "A", "the Reason of it."}}, ""},
		"in a block":      {"// All of them.\nconst (\n\t// SlotB: b | c.\n\tSlotB = \"B\"\n)\n", []constant{{"SlotB", "B", "b | c."}}, ""},
		"without comment": {"// All of them.\nconst (\n\tSlotB = \"B\"\n)\n", nil, "constant SlotB has no comment"},
		"others":          {"const (\n\tOther = \"x\"\n\tSlotC State = \"c\"\n\tSlotD = other.D\n\tSlotE = 1\n)\n", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.go")
			if err := os.WriteFile(file, []byte("package x\n\n"+tc.source), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readConstants(file, "Slot")
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(constant{})); err == nil && diff != "" {
				t.Errorf("constants (-want +got):\n%s", diff)
			}
		})
	}
}

// Every reason that users meet is on the page, with what it means.
func TestPageOfReasonsIsComplete(t *testing.T) {
	root := filepath.Join("..", "..")
	want, err := renderReasons(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs", "reference", reasonsFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("the page is not that of the constants, run make generate (-want +got):\n%s", diff)
	}
}
