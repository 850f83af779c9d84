package validate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nodewright/nodewright/cmd/agent/config"
)

// Severity of a finding.
type Severity string

const (
	// Error is what keeps the package from running.
	Error Severity = "error"
	// Warning is what runs, but most likely not as meant.
	Warning Severity = "warning"
)

// Finding is one thing that is wrong.
type Finding struct {
	Severity Severity `json:"severity"`
	// File in the directory of the package.
	File string `json:"file"`
	// Field of config.json, as modes.apply[0].path.
	Field string `json:"field,omitempty"`
	Is    string `json:"is"`
	// Want says what would be valid.
	Want string `json:"want"`
}

func (f Finding) String() string {
	place := f.File
	if f.Field != "" {
		place += ": " + f.Field
	}
	return fmt.Sprintf("%s: %s: %s, want %s", place, f.Severity, f.Is, f.Want)
}

// Report is what was found in one directory.
type Report struct {
	// Dir holds config.json.
	Dir      string    `json:"directory"`
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Findings []Finding `json:"findings"`
	// wrong are the places that have an error.
	wrong map[string]bool
}

// Count gives the number of findings of a severity.
func (r *Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// add adds a finding. One error is enough for a field: what else there is to say
// of a wrong value, or of what is in it, follows from that. A file that several
// steps run is told once.
func (r *Report) add(s Severity, file, field, is, want string) {
	f := Finding{Severity: s, File: config.Printable(file), Field: config.Printable(field), Is: config.Printable(is), Want: want}
	place := f.String()
	if field != "" {
		place = file + "\x00" + field
	}
	if r.wrong[place] || s == Warning && r.inWrong(file, field) {
		return
	}
	if s == Error {
		r.wrong[place] = true
	}
	r.Findings = append(r.Findings, f)
}

// inWrong tells whether the field is part of one that has an error.
func (r *Report) inWrong(file, field string) bool {
	for i, c := range field {
		if (c == '.' || c == '[') && r.wrong[file+"\x00"+field[:i]] {
			return true
		}
	}
	return false
}

const configFile = "config.json"

// homes are where a package may lie in what an image is built from.
var homes = []string{".", "nodewright-package", "skyhook-package"}

// ErrNoPackage says that there is no package to check.
var ErrNoPackage = errors.New("no package")

// Dir checks a package. The directory is that of the package itself, or one that
// holds it as the image will: in nodewright-package or skyhook-package. An error
// means that nothing could be checked.
func Dir(dir string) (*Report, error) {
	home, err := find(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	r := &Report{Dir: home, Findings: []Finding{}, wrong: map[string]bool{}}
	data, err := readConfig(root)
	if err != nil {
		r.add(Error, configFile, "", "cannot be read: "+reason(err), "a regular file in the package")
		return r, nil
	}
	c, err := config.Inspect(data)
	if err != nil {
		r.add(Error, configFile, "", err.Error(), "an object as in schema v1")
		return r, nil
	}
	r.Name, r.Version = c.Name, c.Version
	for _, p := range c.Problems {
		r.add(Error, configFile, p.Field, p.Is, p.Want)
	}
	for _, field := range duplicates(data) {
		r.add(Warning, configFile, field, "is there more than once, and only the last one counts", "each field once")
	}
	if !c.Known {
		return r, nil
	}
	r.meaning(c)
	r.otherHome(home)
	r.files(root, c)
	return r, nil
}

// readConfig reads config.json, if it is a file that the agent would read.
func readConfig(root *os.Root) ([]byte, error) {
	info, err := root.Stat(configFile)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		// To open a pipe would wait for somebody to write.
		return nil, errors.New("it is not a regular file")
	case info.Size() > config.MaxSize:
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), config.MaxSize)
	}
	return root.ReadFile(configFile)
}

func find(dir string) (string, error) {
	switch info, err := os.Stat(dir); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w: %w", ErrNoPackage, err)
	case err != nil || !info.IsDir():
		return "", fmt.Errorf("%w: %s is not a directory, want that of a package, with %s", ErrNoPackage, dir, configFile)
	}
	for _, home := range homes {
		at := filepath.Join(dir, home)
		switch _, err := os.Lstat(filepath.Join(at, configFile)); {
		case err == nil:
			return at, nil
		case errors.Is(err, fs.ErrPermission):
			return "", fmt.Errorf("%w: %w", ErrNoPackage, err)
		}
	}
	return "", fmt.Errorf("%w: %s has no %s, neither by itself nor in %s", ErrNoPackage, dir, configFile, strings.Join(homes[1:], " or "))
}

// otherHome warns of a second package beside this one, which would be mixed with
// it on the host.
func (r *Report) otherHome(home string) {
	if filepath.Base(home) != homes[1] {
		return
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(home), homes[2])); err == nil {
		r.add(Warning, "../"+homes[2], "", "is there as well: its files are copied over those of "+homes[1]+", and are not looked at here", "one of the two")
	}
}

// reason is an error without the path, which the finding names.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
