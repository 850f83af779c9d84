package validate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodewright/nodewright/cmd/agent/config"
)

// bed is a package that is valid until it is spoilt.
type bed struct {
	t   *testing.T
	dir string
	doc map[string]any
}

func step(path string) map[string]any {
	return map[string]any{
		"name": "s", "path": path, "arguments": []any{}, "returncodes": []any{0}, "on_host": true, "idempotence": true, "upgrade_step": false,
	}
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, dir: t.TempDir(), doc: map[string]any{
		"schema_version": "v1", "package_name": "tuning", "package_version": "1.2.3", "expected_config_files": []any{"a.conf"},
		"modes": map[string]any{"apply": []any{step("apply.sh")}, "apply-check": []any{step("check")}},
	}}
	b.file("skyhook_dir/apply.sh", "#!/bin/sh\n")
	b.file("skyhook_dir/check", "\x7fELF....")
	b.file("root_dir/etc/x", "")
	b.link("/usr/share/x", "root_dir/etc/y")
	b.write()
	return b
}

func (b *bed) file(name, content string) {
	b.t.Helper()
	file := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) link(target, name string) {
	b.t.Helper()
	if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) write() {
	b.t.Helper()
	data, err := json.Marshal(b.doc)
	if err != nil {
		b.t.Fatal(err)
	}
	b.file("config.json", string(data))
}

func (b *bed) remove(name string) {
	b.t.Helper()
	if err := os.RemoveAll(filepath.Join(b.dir, name)); err != nil {
		b.t.Fatal(err)
	}
}

// mode sets the steps of a mode.
func (b *bed) mode(name string, steps ...any) {
	b.doc["modes"].(map[string]any)[name] = steps
	b.write()
}

// with is a step with one field changed.
func with(path, field string, value any) map[string]any {
	s := step(path)
	s[field] = value
	return s
}

func TestGoodPackage(t *testing.T) {
	b := newBed(t)
	for _, home := range []string{"", "nodewright-package", "skyhook-package"} {
		dir := b.dir
		if home != "" {
			dir = t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, home), os.DirFS(b.dir)); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Dir(dir)
		if err != nil || len(r.Findings) != 0 || r.Name != "tuning" || r.Version != "1.2.3" || r.Dir != filepath.Join(dir, home) {
			t.Errorf("%q: %+v, %v", home, r, err)
		}
	}
}

func TestNoPackage(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "/no/such", "validate_test.go"} {
		if _, err := Dir(dir); !errors.Is(err, ErrNoPackage) || !strings.Contains(err.Error(), "config.json") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestFindings(t *testing.T) {
	apply := func(field string, value any) func(*bed) {
		return func(b *bed) { b.mode("apply", with("apply.sh", field, value)) }
	}
	top := func(field string, value any) func(*bed) {
		return func(b *bed) { b.doc[field] = value; b.write() }
	}
	for name, tc := range map[string]struct {
		spoil func(*bed)
		want  []string
	}{
		"schema": {top("package_version", "1.2"), []string{`config.json: package_version: error: "1.2" is not valid, want a semantic version as 1.2.3`}},
		"all at once": {func(b *bed) {
			b.doc["package_version"] = 1
			b.mode("apply", with("gone", "returncodes", nil), step("also-gone"))
		},
			[]string{"package_version: error: is of type number", "modes.apply[0].returncodes: error:", "modes.apply[0].path: error: skyhook_dir/gone does not exist, want a file in the package; in skyhook_dir there are: apply.sh, check", "modes.apply[1].path: error: skyhook_dir/also-gone"}},
		"no JSON":          {func(b *bed) { b.file("config.json", "{") }, []string{"config.json: error: it is not JSON"}},
		"config directory": {func(b *bed) { b.remove("config.json"); b.file("config.json/x", "") }, []string{"config.json: error: cannot be read: it is not a regular file"}},
		"config pipe":      {func(b *bed) { b.remove("config.json"); b.pipe("config.json") }, []string{"config.json: error: cannot be read: it is not a regular file"}},
		"config large": {func(b *bed) { b.file("config.json", strings.Repeat(" ", config.MaxSize+1)) },
			[]string{"config.json: error: cannot be read: it has 1048577 bytes, at most 1048576 are read"}},
		"step pipe":       {func(b *bed) { b.pipe("skyhook_dir/p"); b.mode("apply", step("p")) }, []string{"path: error: skyhook_dir/p is not a regular file"}},
		"step link loop":  {func(b *bed) { b.link("l", "skyhook_dir/l"); b.mode("apply", step("l")) }, []string{"path: error: skyhook_dir/l cannot be reached: too many levels"}},
		"other schema":    {top("schema_version", "v9"), []string{`schema_version: error: "v9" is not known, want one of v1`}},
		"unknown mode":    {func(b *bed) { b.mode("aply") }, []string{"modes.aply: error: is not known, want one of apply"}},
		"step leaves":     {apply("path", "../../x"), []string{`path: error: "../../x" leaves the package`}},
		"no regular file": {apply("path", "."), []string{"modes.apply[0].path: error: skyhook_dir is not a regular file"}},
		"through a file":  {apply("path", "apply.sh/x"), []string{"path: error: skyhook_dir/apply.sh/x cannot be reached: not a directory"}},
		"dangling link":   {func(b *bed) { b.link("gone", "skyhook_dir/l"); b.mode("apply", step("l")) }, []string{"path: error: skyhook_dir/l does not exist"}},
		"link leaves":     {func(b *bed) { b.link("/bin/true", "skyhook_dir/l"); b.mode("apply", step("l")) }, []string{"path: warning: skyhook_dir/l is a link that leads out of the package"}},
		"no start":        {func(b *bed) { b.file("skyhook_dir/apply.sh", "echo") }, []string{"skyhook_dir/apply.sh: error: can be started by no host", "#!/bin/sh"}},
		"CR alone":        {func(b *bed) { b.file("skyhook_dir/apply.sh", "#!/bin/sh\r") }, []string{"error: has lines that end with CR LF"}},
		"long first line": {func(b *bed) { b.file("skyhook_dir/apply.sh", "#!/"+strings.Repeat("a", 260)+"\n") }, []string{"error: has a first line that is too long"}},
		"long argument":   {apply("arguments", []any{strings.Repeat("a", 128<<10)}), []string{"arguments[0]: error: has 131072 bytes", "want at most 131071"}},
		"config dots":     {top("expected_config_files", []any{".", "..data"}), []string{`expected_config_files[0]: error: "." can be no key`, `expected_config_files[1]: error: "..data" can be no key`}},
		"forged":          {top("a\nconfig.json: error: \x1b[1m", 1), []string{`config.json: a\nconfig.json: error: \x1b[1m: warning: is not known`}},
		"forged file":     {apply("path", "a\n\x1b[1m"), []string{`path: error: skyhook_dir/a\n\x1b[1m does not exist`}},
		"large number":    {func(b *bed) { b.number("1e999999") }, []string{`modes.apply[0].returncodes[0]: error: "1e999999" is not valid, want a number of a few digits`}},
		"long number":     {func(b *bed) { b.number(strings.Repeat("9", 50)) }, []string{"returncodes[0]: error: "}},
		"not UTF-8":       {func(b *bed) { b.file("root_dir/\xff/a", "") }, []string{`root_dir/\xff: warning: has a name that is not UTF-8`}},
		"many links": {func(b *bed) {
			for i := range 12 {
				b.link(fmt.Sprintf("l%d", i+1), fmt.Sprintf("skyhook_dir/l%d", i))
			}
			b.file("skyhook_dir/l12", "#!/bin/sh\n")
			b.mode("apply", step("l0"))
		}, []string{"path: warning: skyhook_dir/l0 is at the end of more links"}},
		"long variable":  {apply("env", map[string]any{"A": strings.Repeat("a", 128<<10)}), []string{"apply[0].env.A: error: has 131074 bytes with its name"}},
		"variable names": {apply("env", map[string]any{"A=": "", "": ""}), []string{`apply[0].env: error: has names as "", "A=", want`}},
		"beside":         {apply("path", "../config.json"), []string{`modes.apply[0].path: warning: "../config.json" is not below skyhook_dir`, "config.json: error: can be started by no host"}},
		"root_dir gone":  {func(b *bed) { b.remove("root_dir"); b.link("gone", "root_dir") }, []string{"root_dir: warning: is a link to nothing"}},
		"never":          {func(b *bed) { b.mode("interrupt", step("gone")) }, []string{"modes.interrupt: warning: never runs"}},
		"empty step":     {func(b *bed) { b.file("skyhook_dir/apply.sh", "") }, []string{"can be started by no host"}},
		"CR LF":          {func(b *bed) { b.file("skyhook_dir/apply.sh", "#!/bin/sh\r\n") }, []string{"error: has lines that end with CR LF"}},
		"relative":       {func(b *bed) { b.file("skyhook_dir/apply.sh", "#!sh\n") }, []string{"error: names no interpreter by an absolute path"}},
		"config key":     {top("expected_config_files", []any{"sub/a"}), []string{`expected_config_files[0]: error: "sub/a" can be no key`}},
		"env argument":   {apply("arguments", []any{"env:"}), []string{"modes.apply[0].arguments[0]: error: \"env:\" names no variable"}},
		"root_dir":       {func(b *bed) { b.remove("root_dir"); b.file("root_dir", "") }, []string{"root_dir: error: is not a directory"}},
		"root_dir link":  {func(b *bed) { b.remove("root_dir"); b.link("/etc", "root_dir") }, []string{"root_dir: warning: is a link that leads out of the package"}},
		"linked pipe":    {func(b *bed) { b.remove("root_dir"); b.pipe("other/p"); b.link("other", "root_dir") }, []string{"root_dir/p: error: is neither a file"}},
		"copied loop":    {func(b *bed) { b.link("l", "root_dir/l") }, []string{"root_dir/l: warning: is a link that leads back to itself"}},
		"pipe":           {func(b *bed) { b.pipe("root_dir/p") }, []string{"root_dir/p: error: is neither a file"}},

		"no check":      {func(b *bed) { b.mode("config", step("check")) }, []string{"modes.config: warning: has no check", "config-check"}},
		"no steps":      {func(b *bed) { b.doc["modes"] = map[string]any{}; b.write() }, []string{"modes: warning: has no steps"}},
		"interrupt":     {func(b *bed) { b.mode("interrupt", step("check")) }, []string{"modes.interrupt: warning: never runs"}},
		"not on host":   {apply("on_host", false), []string{"modes.apply[0].on_host: warning: is false"}},
		"unknown field": {apply("retruncodes", 1), []string{"modes.apply[0].retruncodes: warning: is not known"}},
		"idempotence": {func(b *bed) {
			b.mode("config", with("check", "idempotence", false))
			b.mode("config-check", step("check"))
		}, []string{"modes.config[0].idempotence: warning: is false"}},
		"upgrade_step": {apply("upgrade_step", true), []string{"upgrade_step: warning: is true, but steps of apply"}},
		"return code":  {apply("returncodes", []any{0, -1}), []string{"returncodes[1]: warning: -1 is no exit code"}},
		"variable":     {apply("env", map[string]any{"SKYHOOK_DIR": "x"}), []string{"modes.apply[0].env.SKYHOOK_DIR: warning: is set by the agent"}},
		"name":         {top("package_name", "Tuning_1"), []string{`package_name: warning: "Tuning_1" cannot be the name of a package in a NodeWright, want lower-case`}},
		"tag":          {top("package_version", "1.2.3+4"), []string{`package_version: warning: "1.2.3+4" cannot be the tag`}},
		"configmaps":   {func(b *bed) { b.file("configmaps/a.conf", "") }, []string{"configmaps: warning: is in the package"}},
		"file twice":   {top("expected_config_files", []any{"a", "a"}), []string{`expected_config_files[1]: warning: "a" is there twice`}},
		"field twice": {func(b *bed) {
			b.file("config.json", `{"modes":{"apply":[],"apply":[]},"package_name":"a",`+strings.TrimPrefix(b.read(), "{"))
		}, []string{"config.json: modes.apply: warning: is there more than once", "package_name: warning: is there more than once"}},
		"skipped":         {func(b *bed) { b.mode("apply", step("apply.sh"), with("apply.sh", "idempotence", false)) }, []string{"modes.apply[1]: warning: is skipped: modes.apply[0] has the same path"}},
		"skipped in next": {func(b *bed) { b.mode("post-interrupt", with("apply.sh", "idempotence", false)) }, []string{"modes.post-interrupt[0]: warning: is skipped: modes.apply[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			tc.spoil(b)
			r, err := Dir(b.dir)
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, f := range r.Findings {
				lines = append(lines, f.String())
			}
			got := strings.Join(lines, "\n")
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("found:\n%s\nwant %s", got, want)
				}
			}
			errors := strings.Contains(strings.Join(tc.want, " "), "error:") && name != "forged" || name == "empty step"
			if (r.Count(Error) > 0) != errors {
				t.Errorf("%d errors, want some: %v\n%s", r.Count(Error), errors, got)
			}
		})
	}
}

// TestOneFindingForOneFault: what follows from a fault is not told beside it.
func TestOneFindingForOneFault(t *testing.T) {
	for name, spoil := range map[string]func(*bed){
		"name":    func(b *bed) { b.doc["package_name"] = "a/b"; b.write() },
		"version": func(b *bed) { b.doc["package_version"] = "1.0.0-" + strings.Repeat("a", 300); b.write() },
		"modes":   func(b *bed) { delete(b.doc, "modes"); b.write() },
		"file":    func(b *bed) { b.doc["expected_config_files"] = []any{"../x"}; b.write() },
		"path":    func(b *bed) { b.mode("apply", step("a\x00b")) },
		"code":    func(b *bed) { b.mode("apply", with("apply.sh", "returncodes", []any{1e30})) },
		"step":    func(b *bed) { b.mode("apply", nil) },
		"schema":  func(b *bed) { b.doc["schema_version"] = "v9"; b.write() },
		"list":    func(b *bed) { b.file("config.json", "[]") },
		"script": func(b *bed) {
			b.file("skyhook_dir/apply.sh", "echo")
			b.mode("apply", step("apply.sh"), with("apply.sh", "arguments", []any{"again"}))
		},
	} {
		b := newBed(t)
		spoil(b)
		if r, err := Dir(b.dir); err != nil || len(r.Findings) != 1 || r.Count(Error) != 1 {
			t.Errorf("%s: found %v, %v, want one error", name, r.Findings, err)
		}
	}
}

// TestTwoHomes: both are copied to the host, one over the other.
func TestTwoHomes(t *testing.T) {
	b := newBed(t)
	dir := t.TempDir()
	for _, home := range []string{"nodewright-package", "skyhook-package"} {
		if err := os.CopyFS(filepath.Join(dir, home), os.DirFS(b.dir)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Dir(dir)
	if err != nil || len(r.Findings) != 1 || !strings.Contains(r.Findings[0].String(), "skyhook-package: warning: is there as well") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestManyMissingSteps: their number times that of the files was minutes.
func TestManyMissingSteps(t *testing.T) {
	b := newBed(t)
	for i := range 1000 {
		b.file(fmt.Sprintf("skyhook_dir/f%d", i), "")
	}
	var steps []any
	for i := range 3000 {
		steps = append(steps, step(fmt.Sprintf("gone%d", i)))
	}
	b.mode("apply", steps...)
	begun := time.Now()
	r, err := Dir(b.dir)
	if err != nil || r.Count(Error) != 3000 || time.Since(begun) > 10*time.Second {
		t.Errorf("%d errors in %v, %v", r.Count(Error), time.Since(begun), err)
	}
}

// TestHugeKeys: what is told of a place takes no more than the place.
func TestHugeKeys(t *testing.T) {
	b := newBed(t)
	key := strings.Repeat("k", 200<<10)
	inner := strings.Repeat(`"a":1,`, 30000)
	b.file("config.json", `{"`+key+`":{`+inner+`"b":2},`+strings.TrimPrefix(b.read(), "{"))
	before := allocated()
	r, err := Dir(b.dir)
	if err != nil || r.Count(Warning) == 0 || r.Count(Warning) > maxDuplicates+1 {
		t.Errorf("%d findings, %v", len(r.Findings), err)
	}
	for _, f := range r.Findings {
		if len(f.String()) > 1000 {
			t.Errorf("a finding of %d bytes", len(f.String()))
		}
	}
	if took := allocated() - before; took > 200<<20 {
		t.Errorf("took %d MiB for a file of %d KiB", took>>20, len(b.read())>>10)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// number makes a return code of what JSON takes for a number.
func (b *bed) number(text string) {
	b.mode("apply", with("apply.sh", "returncodes", []any{12345}))
	b.file("config.json", strings.Replace(b.read(), "12345", text, 1))
}

// TestRootDirThatIsALink: what leads to a directory of the package is as good.
func TestRootDirThatIsALink(t *testing.T) {
	b := newBed(t)
	b.remove("root_dir")
	b.file("files/etc/x", "")
	b.link("files", "root_dir")
	// A link that is right on the host only is copied as a link.
	b.link("../usr/lib/x", "files/etc/y")
	if r, err := Dir(b.dir); err != nil || len(r.Findings) != 0 {
		t.Errorf("found %v, %v", r.Findings, err)
	}
}

func (b *bed) pipe(name string) {
	b.t.Helper()
	file := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) read() string {
	data, err := os.ReadFile(filepath.Join(b.dir, "config.json"))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}
