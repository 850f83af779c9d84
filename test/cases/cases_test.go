package cases

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

var (
	// A row is `| ST-01 | fault | tests |`; tests are `directory.TestName`, or there
	// is a reason why there are none yet.
	row   = regexp.MustCompile(`^\| ([A-Z]{2}-\d\d) \| ([^|]+) \| ([^|]+) \|$`)
	named = regexp.MustCompile("`([^`]+)[.]((?:Test|Fuzz)\\w+)`")
	// In names of tests an id has no dash.
	ids    = regexp.MustCompile(`\b[A-Z]{2}-\d\d`)
	inName = regexp.MustCompile(`_([A-Z]{2})(\d\d)(?:_|$)`)
)

const later = "later: "

// listed are the tests of each id, as docs/cases.md has them.
func listed(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	last := ""
	for line := range strings.Lines(string(text)) {
		m := row.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		id := m[1]
		if _, twice := out[id]; twice {
			t.Errorf("%s is there twice", id)
		}
		if last != "" && last[:2] == id[:2] && last > id {
			t.Errorf("%s comes after %s", id, last)
		}
		last = id
		tests := []string{}
		for _, test := range named.FindAllStringSubmatch(m[3], -1) {
			tests = append(tests, test[1]+"."+test[2])
		}
		if len(tests) == 0 && !strings.HasPrefix(m[3], later) {
			t.Errorf("%s has neither a test nor a reason that begins with %q", id, later)
		}
		out[id] = tests
	}
	return out
}

// said is what the tests of the repository say about ids.
type said struct {
	// tests are the ids that each test has in its name, its comment or its text.
	tests map[string][]string
	// names are those in its name.
	names map[string][]string
	// tables are the ids in functions that are no tests, by directory: rows that a
	// test runs.
	tables map[string][]string
}

func read(t *testing.T) *said {
	t.Helper()
	s := &said{tests: map[string][]string{}, names: map[string][]string{}, tables: map[string][]string{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		return s.file(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *said) file(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	dir, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		return err
	}
	dir = filepath.ToSlash(dir)
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		comment := ""
		if f.Doc != nil {
			comment = f.Doc.Text()
		}
		body := text[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset]
		if !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			s.tables[dir] = append(s.tables[dir], ids.FindAllString(string(body)+comment, -1)...)
			continue
		}
		test := dir + "." + f.Name.Name
		s.tests[test] = ids.FindAllString(string(body)+comment, -1)
		// Ids in a name may share the dash between them.
		for rest := f.Name.Name; ; {
			m := inName.FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			id := rest[m[2]:m[3]] + "-" + rest[m[4]:m[5]]
			s.names[test] = append(s.names[test], id)
			s.tests[test] = append(s.tests[test], id)
			rest = rest[m[5]:]
		}
	}
	return nil
}

func TestTableAndTestsAgree(t *testing.T) {
	table, s := listed(t), read(t)
	if len(table) < 100 {
		t.Fatalf("the table has %d ids", len(table))
	}
	for id, tests := range table {
		for _, test := range tests {
			says, exists := s.tests[test]
			dir := test[:strings.LastIndexByte(test, '.')]
			switch {
			case !exists:
				t.Errorf("%s: there is no %s", id, test)
			case !slices.Contains(says, id) && !slices.Contains(s.tables[dir], id):
				t.Errorf("%s: %s says nothing of it", id, test)
			}
		}
	}
	// Families that the table has at all, it has whole.
	for test, names := range s.names {
		for _, id := range names {
			if tests, ok := table[id]; ok && !slices.Contains(tests, test) {
				t.Errorf("%s: %s is not in the table", id, test)
			} else if !ok && family(table, id) {
				t.Errorf("%s of %s is not in the table", id, test)
			}
		}
	}
}

func family(table map[string][]string, id string) bool {
	for other := range table {
		if other[:2] == id[:2] {
			return true
		}
	}
	return false
}

// What the documents name exists: a table that cannot be read proves nothing.
func TestRowsAreRead(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, line := range bytes.Split(text, []byte("\n")) {
		if regexp.MustCompile(`^\|\s*[A-Z]{2}-`).Match(line) {
			rows++
		}
	}
	if got := len(listed(t)); got != rows {
		t.Errorf("%d rows are read of %d", got, rows)
	}
}
