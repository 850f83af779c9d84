package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const whole = `{
  "schema_version": "v1", "package_name": "tuning", "package_version": "1.2.3-rc.1+build",
  "expected_config_files": ["a.conf"], "root_dir": "/x",
  "modes": {
    "apply": [{"name": "a", "path": "a.sh", "arguments": ["env:A", "b"], "returncodes": [0, 1e0], "on_host": true,
               "idempotence": false, "upgrade_step": false, "env": {"K": "v"}, "PATH": "other.sh"}],
    "upgrade-check": [{"name": "u", "path": "../configmaps/u", "arguments": [], "returncodes": [3], "on_host": false,
               "idempotence": true, "upgrade_step": true}]
  }
}`

func TestDecode(t *testing.T) {
	got, err := Decode([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := &Package{
		Name: "tuning", Version: "1.2.3-rc.1+build", ConfigFiles: []string{"a.conf"},
		Steps: map[Mode][]Step{
			Apply: {{Name: "a", Path: "a.sh", Arguments: []string{"env:A", "b"}, ReturnCodes: []int{0, 1}, OnHost: true,
				Env: map[string]string{"K": "v"}}},
			Upgrade.Check(): {{Name: "u", Path: "../configmaps/u", ReturnCodes: []int{3}, AlwaysRuns: true, Upgrades: true}},
		},
		Unknown: []string{"root_dir", "modes.apply[0].PATH"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// edit sets one field of a valid file; a nil value removes it.
func edit(t *testing.T, place string, value any) []byte {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(whole), &tree); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(place, "/")
	at := tree
	for i, part := range parts {
		if list, ok := at.([]any); ok {
			at = list[0]
		}
		object := at.(map[string]any)
		if i < len(parts)-1 {
			at = object[part]
		} else if value == nil {
			delete(object, part)
		} else {
			object[part] = value
		}
	}
	data, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestErrorsNameFieldAndWhatIsValid(t *testing.T) {
	for name, tc := range map[string]struct {
		place string
		value any
		want  []string
	}{
		"version of schema":  {"schema_version", "v2", []string{`schema_version: "v2" is not known`, "want one of v1"}},
		"schema not text":    {"schema_version", 1, []string{"schema_version: ", `want "v1"`}},
		"no schema version":  {"schema_version", nil, []string{`schema_version: is missing, want "v1"`}},
		"name leaves":        {"package_name", "../x", []string{`package_name: "../x" is not valid`, "letters, digits"}},
		"version":            {"package_version", "1.2", []string{`package_version: "1.2" is not valid`, "as 1.2.3"}},
		"leading zero":       {"package_version", "1.02.3", []string{"package_version: "}},
		"no modes":           {"modes", nil, []string{"modes: is missing, want an object with lists of steps"}},
		"unknown mode":       {"modes/aply", []any{}, []string{"modes.aply: is not known, want one of apply, apply-check"}},
		"steps no list":      {"modes/apply", map[string]any{}, []string{"modes.apply: is of type object, want a list of steps"}},
		"step field missing": {"modes/apply/returncodes", nil, []string{"modes.apply[0].returncodes: is missing, want a list of the exit codes"}},
		"no return codes":    {"modes/apply/returncodes", []any{}, []string{"modes.apply[0].returncodes: is empty, want a list"}},
		"return code text":   {"modes/apply/returncodes", []any{"0"}, []string{"modes.apply[0].returncodes[0]: is of type string, want an exit code from 0 to 255"}},
		"return code big":    {"modes/apply/returncodes", []any{1e20}, []string{"modes.apply[0].returncodes[0]: ", "want an exit code"}},
		"not bool":           {"modes/apply/idempotence", "auto", []string{"modes.apply[0].idempotence: is of type string, want true for a step"}},
		"env not text":       {"modes/apply/env", map[string]any{"A": 1}, []string{"modes.apply[0].env.A: is of type number, want a string"}},
		"env name":           {"modes/apply/env", map[string]any{"A=B": "1"}, []string{"modes.apply[0].env: ", "names without '='"}},
		"NUL":                {"modes/apply/arguments", []any{"a\x00b"}, []string{"modes.apply[0].arguments[0]: ", "without the character NUL"}},
		"step leaves":        {"modes/apply/path", "../../x", []string{`modes.apply[0].path: "../../x" leaves the package, want the path of a file below skyhook_dir`}},
		"file leaves":        {"expected_config_files", []any{"../x"}, []string{`expected_config_files[0]: "../x" leaves configmaps`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(edit(t, tc.place, tc.value))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := Decode([]byte(`{"schema_version": "v1", "modes": {"apply": [{"name": "a"}]}}`))
	for _, want := range []string{"package_name: is missing", "modes.apply[0].path: is missing", "modes.apply[0].on_host: is missing"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	for name, data := range map[string]string{
		"no JSON": "{", "two values": "{} {}", "list": "[]", "nothing": "", "large": strings.Repeat(" ", MaxSize) + "{}",
	} {
		if _, err := Decode([]byte(data)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestWhereItIsNoJSON: who edits a file by hand needs the line.
func TestWhereItIsNoJSON(t *testing.T) {
	for data, want := range map[string]string{
		"":                         "it is empty",
		" \n":                      "it is empty",
		"\ufeff{}":                 "byte order mark",
		"{\n\"a\": 1,\n}":          "line 3: invalid character '}'",
		"{\n\n  \"a\" 1}":          "line 3: invalid character '1' after object key",
		"{\n\"a\": [":              "ends in the middle, in line 2",
		"{}\n{}":                   "invalid character after top-level value",
		strings.Repeat("[", 1<<15): "exceeded max depth",
	} {
		if _, err := Decode([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: error %v lacks %q", data, err, want)
		}
	}
}

func TestModes(t *testing.T) {
	for mode, known := range map[Mode]bool{
		Apply: true, Uninstall.Check(): true, "post-interrupt-check": true,
		"interrupt": false, "": false, "-check": false, "apply-check-check": false, "done": false,
	} {
		if mode.Known() != known {
			t.Errorf("mode %q: known %v, want %v", mode, mode.Known(), known)
		}
	}
}

// TestNumbersThatTakeLong: exact numbers of this size take a second each.
func TestNumbersThatTakeLong(t *testing.T) {
	numbers := strings.Repeat("1e999999,", 2000) + "1E-0999999, 1e0003, -1.5e+2"
	begun := time.Now()
	_, err := Decode([]byte(strings.Replace(whole, `"modes"`, `"list": [`+numbers+`], "modes"`, 1)))
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if err == nil || !strings.Contains(err.Error(), `list[0]: "1e999999" is not valid`) || !strings.Contains(err.Error(), "and 1981 more") {
		t.Errorf("error %v", err)
	}
	if _, err := Decode([]byte(strings.Replace(whole, `"modes"`, `"list": [1e0003, -1.5e+2, 1e10], "modes"`, 1))); err != nil {
		t.Errorf("small numbers: %v", err)
	}
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"modes.apply[0]": "modes.apply[0]", "größe": "größe", `a"b\c`: `a"b\c`, "a\nb": `a\nb`, "\x1b[1m\"": `\x1b[1m"`, "\xff": `\xff`, "a\u202eb": `a\u202eb`,
		strings.Repeat("é", 500): strings.Repeat("é", 150) + "…",
	} {
		if got := Printable(name); got != want {
			t.Errorf("%q is printed as %s, want %s", name, got, want)
		}
	}
}

// FuzzConfig must not panic, and whatever is accepted stays in the package.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(`{"schema_version":"v1","package_name":"a","package_version":"0.0.0","expected_config_files":[],"modes":{}}`))
	f.Add([]byte(`{"schema_version":"v1","modes":{"apply":[{"returncodes":[1e400]}]}}`))
	f.Add([]byte(`[{"a":[[[[]]]]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data)
		if err != nil {
			if p != nil {
				t.Fatal("package and error")
			}
			return
		}
		if strings.ContainsAny(p.Name+p.Version, "/\x00") || p.Name == ".." {
			t.Fatalf("name %q or version %q is no file name", p.Name, p.Version)
		}
		for mode, steps := range p.Steps {
			for _, s := range steps {
				if !filepath.IsLocal(filepath.Join(StepDir, s.Path)) || len(s.ReturnCodes) == 0 {
					t.Fatalf("mode %s has step %+v", mode, s)
				}
			}
		}
	})
}

func TestSchemaIsJSON(t *testing.T) {
	data, err := os.ReadFile("v1.json")
	if err != nil || !json.Valid(data) {
		t.Fatal(err)
	}
}
