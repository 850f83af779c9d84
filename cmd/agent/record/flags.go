package record

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodewright/nodewright/cmd/agent/config"
	"github.com/nodewright/nodewright/cmd/agent/host"
)

const (
	// TakenOver is the run of entries that an earlier operator began.
	TakenOver = "0"

	maxRecord = 1 << 20
	maxName   = 255
	maxPath   = 2048
)

// Store is what the host remembers of one package.
type Store struct {
	Host *host.Root
	// Dir on the host that holds flags and history of all packages of a
	// NodeWright.
	Dir string
	// Package is the name that the operator has for it, which no other package of
	// the NodeWright has; earlier agents go by the name in config.json, InConfig.
	Package  string
	InConfig string
	// Version in config.json.
	Version string
	// Run of the package on the node. A flag counts in the run that set it.
	Run string
	Now func() time.Time
}

// flagPath is where the flag of a step is, for a package of that name.
func (s *Store) flagPath(name string, step *config.Step) (string, error) {
	marker := base64.StdEncoding.EncodeToString([]byte(Marker(step)))
	file := path.Join(name, s.Version, step.Path+"_"+marker)
	if long(file) {
		// Earlier agents cannot have set it: no file system takes the name.
		sum := sha256.Sum256([]byte(step.Path + "_" + marker))
		file = path.Join(name, s.Version, "sha256-"+hex.EncodeToString(sum[:]))
	}
	if !filepath.IsLocal(file) {
		return "", fmt.Errorf("step %q has no place for its flag", step.Path)
	}
	return path.Join(s.Dir, "flags", file), nil
}

func long(file string) bool {
	for part := range strings.SplitSeq(file, "/") {
		if len(part) > maxName {
			return true
		}
	}
	return len(file) > maxPath
}

// Done tells whether the step was done in this run. In the run of entries that
// were taken over, flags of earlier agents count as well; those name no run.
func (s *Store) Done(step *config.Step) (bool, error) {
	names := []string{s.Package}
	if s.Run == TakenOver && s.InConfig != s.Package {
		names = append(names, s.InConfig)
	}
	for _, name := range names {
		flag, err := s.flagPath(name, step)
		if err != nil {
			return false, err
		}
		data, err := s.Host.ReadFile(flag, maxRecord)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read flag of step %s: %w", step.Path, err)
		}
		run, named := field(string(data), "run")
		if named && name == s.Package && run == s.Run || !named && s.Run == TakenOver {
			return true, nil
		}
	}
	return false, nil
}

func field(data, name string) (value string, ok bool) {
	for line := range strings.Lines(data) {
		if value, ok = strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSuffix(value, "\n"), true
		}
	}
	return "", false
}

// SetDone says that the step was done in this run. When it returns, that and
// what the step wrote outlive a power cut; at no time the flag does alone.
func (s *Store) SetDone(step *config.Step) error {
	flag, err := s.flagPath(s.Package, step)
	if err != nil {
		return err
	}
	if err := s.Host.Sync(s.Dir); err != nil {
		return fmt.Errorf("set flag of step %s: write back what it did: %w", step.Path, err)
	}
	always := "False"
	if step.AlwaysRuns {
		always = "True"
	}
	text := fmt.Sprintf("last_run: %s\nstep_always_runs: %s\nrun: %s\n", s.Now().UTC().Format(timeFormat), always, s.Run)
	if err := s.Host.MkdirAll(path.Dir(flag)); err != nil {
		return fmt.Errorf("set flag of step %s: %w", step.Path, err)
	}
	if err := s.Host.WriteFile(flag, []byte(text), 0o644); err != nil {
		return fmt.Errorf("set flag of step %s: %w", step.Path, err)
	}
	return nil
}

// ClearFlags removes the flags of all versions of the package. Of flags that
// an earlier agent kept under another name it removes those of the given
// steps, since packages may share that name.
func (s *Store) ClearFlags(p *config.Package) error {
	if err := s.Host.RemoveAll(path.Join(s.Dir, "flags", s.Package)); err != nil {
		return fmt.Errorf("remove flags: %w", err)
	}
	if s.InConfig == s.Package {
		return nil
	}
	for _, steps := range p.Steps {
		for i := range steps {
			flag, err := s.flagPath(s.InConfig, &steps[i])
			if err != nil {
				return err
			}
			if err := s.Host.Remove(flag); err != nil {
				return fmt.Errorf("remove flags: %w", err)
			}
		}
	}
	return nil
}
