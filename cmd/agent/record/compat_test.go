package record

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodewright/nodewright/cmd/agent/config"
)

// The characters in which alphabets of base64 differ. A slash makes a directory,
// with earlier agents too.
func TestFlagNamesAreThoseOfEarlierAgents(t *testing.T) {
	for name, step := range map[string]config.Step{
		"a.sh_WydhP28+J11fWzBd":         {Path: "a.sh", Arguments: []string{"a?o>"}, ReturnCodes: []int{0}},
		"a.sh_Wyc+Pj4nLCAnPz8/J11fWzBd": {Path: "a.sh", Arguments: []string{">>>", "???"}, ReturnCodes: []int{0}},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "etc/skyhook/nw/flags/shellscript/1.0.0", name), "last_run: 2025-01-01T00:00:00.000000\n")
		done(t, store(t, dir, "shellscript", TakenOver), step, true)
	}
	if got, want := Marker(&config.Step{Arguments: []string{"\uffff", "\xad", "ÿ"}, ReturnCodes: []int{0}}), `['\uffff', '\xad', 'ÿ']_[0]`; got != want {
		t.Errorf("marker %s, want %s", got, want)
	}
}

// A name in config.json belongs to all packages of the image: a flag under it
// that names a run is another package's.
func TestFlagUnderASharedName(t *testing.T) {
	dir := t.TempDir()
	step := config.Step{Path: "a.sh", ReturnCodes: []int{0}}
	if err := store(t, dir, "shellscript", TakenOver).SetDone(&step); err != nil {
		t.Fatal(err)
	}
	done(t, store(t, dir, "shellscript", TakenOver), step, true)
	done(t, store(t, dir, "tuning", TakenOver), step, false)
}

// The longest names that a file system takes are not shortened: earlier agents
// have set them.
func TestLongestFlagName(t *testing.T) {
	for length, want := range map[int]bool{maxName: true, maxName + 1: false} {
		dir := t.TempDir()
		step := config.Step{ReturnCodes: []int{0}}
		step.Path = strings.Repeat("a", length-len("_W11fWzBd"))
		flags := filepath.Join(dir, "etc/skyhook/nw/flags/shellscript/1.0.0")
		s := store(t, dir, "shellscript", "7")
		if err := s.SetDone(&step); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(flags)
		if err != nil || len(entries) != 1 || strings.HasPrefix(entries[0].Name(), "aaa") != want {
			t.Errorf("%d bytes: %v, %v", length, entries, err)
		}
	}
	// Short parts, a long path: also one that a file system would not take.
	step := config.Step{Path: strings.Repeat("d/", 1200) + "a.sh", ReturnCodes: []int{0}}
	s := store(t, t.TempDir(), "shellscript", "7")
	if flag, err := s.flagPath("shellscript", &step); err != nil || !strings.Contains(flag, "/sha256-") {
		t.Errorf("flag %.100s, %v", flag, err)
	}
}

// What earlier agents print into a flag is there for people.
func TestFlagTellsWhetherTheStepAlwaysRuns(t *testing.T) {
	for always, want := range map[bool]string{true: "step_always_runs: True\n", false: "step_always_runs: False\n"} {
		dir := t.TempDir()
		if err := store(t, dir, "a", "7").SetDone(&config.Step{Path: "a", AlwaysRuns: always, ReturnCodes: []int{0}}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "etc/skyhook/nw/flags/a/1.0.0/a_W11fWzBd"))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("flag %q, %v, want %q", text, err, want)
		}
	}
}

// Only a check that is repeated looks past the newest entry: one of the same run
// and version that this agent wrote.
func TestPreviousVersion(t *testing.T) {
	const older = `{"version": "0.9.0", "time": "x"}`
	for name, tc := range map[string]struct {
		run, file, want string
	}{
		"its own":                {"7", entries(`{"version": "1.0.0", "run": "7"}`, older), "0.9.0"},
		"its own, the first":     {"7", entries(`{"version": "1.0.0", "run": "7"}`), Unknown},
		"another run":            {"7", entries(`{"version": "1.0.0", "run": "6"}`, older), "1.0.0"},
		"another version":        {"7", entries(`{"version": "0.9.5", "run": "7"}`, older), "0.9.5"},
		"an earlier agent's":     {"7", entries(`{"version": "1.0.0"}`, older), "1.0.0"},
		"taken over, no run":     {TakenOver, entries(`{"version": "1.0.0"}`, older), "1.0.0"},
		"taken over":             {TakenOver, entries(`{"version": "1.0.0", "run": "0"}`, older), "1.0.0"},
		"no run is given at all": {"", entries(`{"version": "1.0.0"}`, older), "1.0.0"},
		"nothing in it":          {"7", `{}`, Unknown},
		"no entries":             {"7", `{"current-version": "0.8.0"}`, "0.8.0"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "etc/skyhook/nw/history/tuning.json"), tc.file)
			previous(t, store(t, dir, "tuning", tc.run), tc.want)
		})
	}
}

// entries is a history, the newest entry first, whose version is the present one.
func entries(list ...string) string {
	var current string
	if _, err := fmt.Sscanf(list[0], `{"version": %q`, &current); err != nil {
		panic(err)
	}
	return `{"current-version": "` + current + `", "history": [` + strings.Join(list, ", ") + `]}`
}

// An unreadable history under a name that packages share is left for the one that
// it may belong to.
func TestUnreadableHistoryUnderASharedName(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "etc/skyhook/nw/history/shellscript.json")
	write(t, file, "{")
	s := store(t, dir, "tuning", "7")
	previous(t, s, Unknown)
	if err := s.SetCurrent("1.0.0"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{" {
		t.Errorf("it holds %q, %v", text, err)
	}
	previous(t, store(t, dir, "tuning", "8"), "1.0.0")
}
