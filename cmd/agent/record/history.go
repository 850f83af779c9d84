package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

const (
	// Unknown is the version before, where nobody knows it.
	Unknown = "unknown"
	// Uninstalled is the version of a package that was taken off.
	Uninstalled = "uninstalled"

	timeFormat = "2006-01-02T15:04:05.000000-07:00"
	// maxHistory is how many entries are kept.
	maxHistory = 100
)

// history is the file of one package, newest entry first.
type history struct {
	Current string  `json:"current-version"`
	Entries []entry `json:"history"`
}

type entry struct {
	Version string `json:"version"`
	Time    string `json:"time"`
	// Run is missing in entries of earlier agents.
	Run string `json:"run,omitempty"`
}

func (s *Store) historyPath(name string) string {
	return path.Join(s.Dir, "history", name+".json")
}

// read gives the history of the package; until it has one of its own, what an
// earlier agent wrote under the name in config.json. A file that cannot be read
// is set aside as .backup, and said in aside.
func (s *Store) read() (h history, aside string, err error) {
	names := []string{s.Package}
	if s.InConfig != s.Package {
		names = append(names, s.InConfig)
	}
	for _, name := range names {
		file := s.historyPath(name)
		data, err := s.Host.ReadFile(file, maxRecord)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, &h)
		}
		if err == nil {
			return h, "", nil
		}
		if name != s.Package {
			// It may be another package's.
			return history{Current: Unknown}, "", nil
		}
		if err := s.Host.Rename(file, path.Base(file)+".backup"); err != nil {
			return history{}, "", fmt.Errorf("set aside history: %w", err)
		}
		return history{Current: Unknown}, file + ".backup", nil
	}
	return history{Current: Unknown}, "", nil
}

// Previous is the version that was on the host before this run, Unknown or
// Uninstalled. aside names where a history that could not be read was put.
func (s *Store) Previous() (version, aside string, err error) {
	h, aside, err := s.read()
	if err != nil {
		return "", "", err
	}
	// A check that runs again finds what it wrote itself.
	if len(h.Entries) > 0 && s.wrote(h.Entries[0], s.Version) {
		if len(h.Entries) > 1 {
			return h.Entries[1].Version, aside, nil
		}
		return Unknown, aside, nil
	}
	if h.Current == "" {
		h.Current = Unknown
	}
	return h.Current, aside, nil
}

func (s *Store) wrote(e entry, version string) bool {
	return e.Run != "" && e.Run != TakenOver && e.Run == s.Run && e.Version == version
}

// SetCurrent writes that the version is what the host has from now on: that of
// the package, or Uninstalled.
func (s *Store) SetCurrent(version string) error {
	h, _, err := s.read()
	if err != nil {
		return err
	}
	if len(h.Entries) == 0 || !s.wrote(h.Entries[0], version) {
		h.Entries = append([]entry{{Version: version, Time: s.Now().UTC().Format(timeFormat), Run: s.Run}}, h.Entries...)
	}
	h.Current, h.Entries = version, h.Entries[:min(len(h.Entries), maxHistory)]
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode history: %w", err)
	}
	file := s.historyPath(s.Package)
	if err := s.Host.MkdirAll(path.Dir(file)); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	if err := s.Host.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}
