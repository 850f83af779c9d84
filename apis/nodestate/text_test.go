package nodestate_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// JB-26, F7: the cap holds after repair, at a rune boundary.
func TestCaps(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in       string
		limit    int
		wantHead string
		wantTail string
	}{
		"empty":                      {limit: 8},
		"fits":                       {in: "abc", limit: 3, wantHead: "abc", wantTail: "abc"},
		"cut":                        {in: "abcdef", limit: 3, wantHead: "abc", wantTail: "def"},
		"limit 0":                    {in: "abc", limit: 0},
		"rune on the boundary":       {in: "aäz", limit: 2, wantHead: "a", wantTail: "z"},
		"rune of four":               {in: "a😀b😀", limit: 5, wantHead: "a😀", wantTail: "b😀"},
		"rune of four, cut":          {in: "a😀b😀", limit: 4, wantHead: "a", wantTail: "😀"},
		"repair grows":               {in: "a\xffb", limit: 3, wantHead: "a", wantTail: "b"},
		"repair joins a bad run":     {in: "\xff\xfe\xfd", limit: 3, wantHead: "�", wantTail: "�"},
		"repair leaves no room":      {in: "\xff", limit: 2},
		"a cut rune is bad bytes":    {in: "ok\xf0\x9f\x98", limit: 5, wantHead: "ok�", wantTail: "ok�"},
		"bad bytes between, limited": {in: "a\xffa\xffa\xff", limit: 7, wantHead: "a�a", wantTail: "�a�"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := nodestate.CapString(tc.in, tc.limit); got != tc.wantHead {
				t.Errorf("CapString(%q, %d) = %q, want %q", tc.in, tc.limit, got, tc.wantHead)
			}
			if got := nodestate.CapTail(tc.in, tc.limit); got != tc.wantTail {
				t.Errorf("CapTail(%q, %d) = %q, want %q", tc.in, tc.limit, got, tc.wantTail)
			}
		})
	}
}

// JB-26: a log of 1 MiB, multibyte and broken.
func TestCapTailOfALargeLog_JB26(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{
		"multibyte": "日本語", "four bytes": "😀", "bad bytes": "a\xff", "all bad": "\xff", "cut runes": "\xe6\x97x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := nodestate.CapTail(strings.Repeat(unit, (1<<20)/len(unit)), nodestate.MaxLogTail)
			if len(got) > nodestate.MaxLogTail || !utf8.ValidString(got) {
				t.Errorf("CapTail gives %d bytes, valid = %t, want at most %d valid ones",
					len(got), utf8.ValidString(got), nodestate.MaxLogTail)
			}
			if name == "multibyte" && len(got) < nodestate.MaxLogTail-3 {
				t.Errorf("CapTail keeps only %d bytes", len(got))
			}
		})
	}
}

func FuzzCap(f *testing.F) {
	f.Add("a\xffb", 3)
	f.Add("😀😀", 5)
	f.Add("\x80\x80\x80", 1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, limit%(4<<10))
		for _, got := range []string{nodestate.CapString(s, limit), nodestate.CapTail(s, limit)} {
			if len(got) > limit || !utf8.ValidString(got) {
				t.Errorf("cap of %q at %d = %q", s, limit, got)
			}
			if utf8.ValidString(s) && len(s) <= limit && got != s {
				t.Errorf("cap changed %q to %q though it fits", s, got)
			}
		}
	})
}
