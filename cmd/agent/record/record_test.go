package record

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodewright/nodewright/cmd/agent/config"
	"github.com/nodewright/nodewright/cmd/agent/host"
)

func store(t *testing.T, dir, name, run string) *Store {
	t.Helper()
	r, err := host.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return &Store{
		Host: r, Dir: "/etc/skyhook/nw", Package: name, InConfig: "shellscript", Version: "1.0.0", Run: run,
		Now: func() time.Time { return time.Unix(1700000000, 0) },
	}
}

func TestMarker(t *testing.T) {
	for want, step := range map[string]config.Step{
		`[]_[0]`:                  {ReturnCodes: []int{0}},
		`['a', 'b']_[0, 3]`:       {Arguments: []string{"a", "b"}, ReturnCodes: []int{0, 3}},
		`["it's"]_[0]`:            {Arguments: []string{"it's"}, ReturnCodes: []int{0}},
		`['it\'s "x"']_[0]`:       {Arguments: []string{`it's "x"`}, ReturnCodes: []int{0}},
		`['"', 'a\\b']_[0]`:       {Arguments: []string{`"`, `a\b`}, ReturnCodes: []int{0}},
		`['\n\t\r\x00\x7f']_[-1]`: {Arguments: []string{"\n\t\r\x00\x7f"}, ReturnCodes: []int{-1}},
		`['é☃ \u200b\xa0\u2028']_[0]`: {
			Arguments: []string{"é☃ \u200b\u00a0\u2028"}, ReturnCodes: []int{0}},
		`['😀\U000e0001�']_[0]`: {Arguments: []string{"😀\U000e0001\uFFFD"}, ReturnCodes: []int{0}},
	} {
		if got := Marker(&step); got != want {
			t.Errorf("marker %s, want %s", got, want)
		}
	}
}

func done(t *testing.T, s *Store, step config.Step, want bool) {
	t.Helper()
	if got, err := s.Done(&step); err != nil || got != want {
		t.Errorf("run %s of %s: done %v, %v, want %v", s.Run, s.Package, got, err, want)
	}
}

func TestFlagsCountInTheirRun(t *testing.T) {
	dir := t.TempDir()
	step := config.Step{Path: "sub/a.sh", Arguments: []string{"x"}, ReturnCodes: []int{0}}
	s := store(t, dir, "tuning", "7")
	done(t, s, step, false)
	if err := s.SetDone(&step); err != nil {
		t.Fatal(err)
	}
	done(t, s, step, true)
	if _, err := os.Stat(filepath.Join(dir, "etc/skyhook/nw/flags/tuning/1.0.0/sub/a.sh_"+
		base64.StdEncoding.EncodeToString([]byte("['x']_[0]")))); err != nil {
		t.Error(err)
	}
	done(t, store(t, dir, "tuning", "8"), step, false)
	done(t, store(t, dir, "tuning", "0"), step, false)
	// Another package of the same image that was started in the same pass.
	done(t, store(t, dir, "limits", "7"), step, false)
	other := step
	other.Arguments = []string{"y"}
	done(t, s, other, false)
	for _, long := range []string{strings.Repeat("a", 300), strings.Repeat("/", 3000)} {
		step := config.Step{Path: "a", Arguments: []string{long}, ReturnCodes: []int{0}}
		done(t, s, step, false)
		if err := s.SetDone(&step); err != nil {
			t.Fatal(err)
		}
		done(t, s, step, true)
	}
	if err := s.ClearFlags(&config.Package{}); err != nil {
		t.Fatal(err)
	}
	done(t, s, step, false)
}

func write(t *testing.T, file, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFlagsOfEarlierAgents(t *testing.T) {
	dir := t.TempDir()
	step := config.Step{Path: "a.sh", ReturnCodes: []int{0}}
	flag := filepath.Join(dir, "etc/skyhook/nw/flags/shellscript/1.0.0/a.sh_W11fWzBd")
	write(t, flag, "last_run: 2025-01-01T00:00:00.000000\nstep_always_runs: False")
	taken := store(t, dir, "tuning", "0")
	done(t, taken, step, true)
	done(t, store(t, dir, "tuning", "5"), step, false)
	done(t, store(t, dir, "shellscript", "5"), step, false)
	done(t, store(t, dir, "shellscript", "0"), step, true)
	if err := taken.ClearFlags(&config.Package{Steps: map[config.Mode][]config.Step{config.Apply: {step}}}); err != nil {
		t.Fatal(err)
	}
	done(t, taken, step, false)
}

func previous(t *testing.T, s *Store, want string) {
	t.Helper()
	if got, _, err := s.Previous(); err != nil || got != want {
		t.Errorf("previous version %q, %v, want %q", got, err, want)
	}
}

func TestHistory(t *testing.T) {
	dir := t.TempDir()
	s := store(t, dir, "tuning", "3")
	previous(t, s, Unknown)
	file := filepath.Join(dir, "etc/skyhook/nw/history")
	write(t, filepath.Join(file, "shellscript.json"), `{"current-version": "0.9.0", "history": [{"version": "0.9.0", "time": "x"}]}`)
	previous(t, s, "0.9.0")
	for range 2 {
		if err := s.SetCurrent("1.0.0"); err != nil {
			t.Fatal(err)
		}
		// A check that runs again in this run sees what was there before it.
		previous(t, s, "0.9.0")
	}
	previous(t, store(t, dir, "tuning", "4"), "1.0.0")
	if err := store(t, dir, "tuning", "5").SetCurrent(Uninstalled); err != nil {
		t.Fatal(err)
	}
	previous(t, store(t, dir, "tuning", "6"), Uninstalled)
	data, err := os.ReadFile(filepath.Join(file, "tuning.json"))
	want := `{"current-version":"uninstalled","history":[` +
		`{"version":"uninstalled","time":"2023-11-14T22:13:20.000000+00:00","run":"5"},` +
		`{"version":"1.0.0","time":"2023-11-14T22:13:20.000000+00:00","run":"3"},{"version":"0.9.0","time":"x"}]}`
	if err != nil || string(data) != want {
		t.Errorf("history %s, %v\nwant %s", data, err, want)
	}
	for i := range maxHistory + 5 {
		if err := store(t, dir, "tuning", fmt.Sprint(i+10)).SetCurrent("1.0.0"); err != nil {
			t.Fatal(err)
		}
	}
	h, _, err := s.read()
	if err != nil || len(h.Entries) != maxHistory {
		t.Errorf("%d entries, %v", len(h.Entries), err)
	}
}

func TestUnreadableHistoryIsSetAside(t *testing.T) {
	for _, bad := range []string{"", "{", `{"current-version": 5}`, "[]"} {
		dir := t.TempDir()
		s := store(t, dir, "tuning", "3")
		file := filepath.Join(dir, "etc/skyhook/nw/history/tuning.json")
		write(t, file, bad)
		previous(t, s, Unknown)
		if data, err := os.ReadFile(file + ".backup"); err != nil || string(data) != bad {
			t.Errorf("backup %q, %v, want %q", data, err, bad)
		}
		if err := s.SetCurrent("1.0.0"); err != nil {
			t.Error(err)
		}
	}
}

// TestCut ends the power before each system call that changes the disk, also
// in the middle of a write, for a flag and for the history: each is as before or
// as after, and the next try makes it whole.
func TestCut(t *testing.T) {
	step := config.Step{Path: "a.sh", ReturnCodes: []int{0}}
	cut := errors.New("cut")
	for name, act := range map[string]func(*Store) error{
		"flag":    func(s *Store) error { return s.SetDone(&step) },
		"history": func(s *Store) error { return s.SetCurrent("1.0.0") },
	} {
		for n := 0; ; n++ {
			if n > 50 {
				t.Fatalf("%s: no end", name)
			}
			dir := t.TempDir()
			s, calls := store(t, dir, "tuning", "7"), 0
			s.Host.Gate = func(c host.Change) error {
				if calls >= n {
					if c.Call == "write" {
						_ = os.WriteFile(filepath.Join(dir, c.Path), []byte("run: 7"), 0o600)
					}
					return cut
				}
				calls++
				return nil
			}
			err := act(s)
			if err != nil && !errors.Is(err, cut) {
				t.Fatalf("%s, cut %d: %v", name, n, err)
			}
			s = store(t, dir, "tuning", "7")
			isDone, doneErr := s.Done(&step)
			version, aside, historyErr := s.Previous()
			if doneErr != nil || historyErr != nil || aside != "" || version != Unknown || isDone && name != "flag" {
				t.Errorf("%s, cut %d: done %v, %v; version %s %s, %v", name, n, isDone, doneErr, version, aside, historyErr)
			}
			if err == nil {
				if name == "flag" && !isDone {
					t.Errorf("cut %d: the flag was set and is not there", n)
				}
				break
			}
			if err := act(s); err != nil {
				t.Errorf("%s, after cut %d: %v", name, n, err)
			}
			if name == "history" {
				data, err := os.ReadFile(filepath.Join(dir, "etc/skyhook/nw/history/tuning.json"))
				if err != nil || !json.Valid(data) || strings.Count(string(data), `"time"`) != 1 {
					t.Errorf("after cut %d: history %s, %v", n, data, err)
				}
			}
		}
	}
}
