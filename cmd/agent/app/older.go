package app

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// copyName is what the operator calls the copy of a package, behind the name
// of the package: version, UID of the NodeWright, run. A name of a package has
// no dots, so the name of another one is never taken for a version.
var copyName = regexp.MustCompile(`^\d+\.\d+\.\d+[0-9A-Za-z.+-]*-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-(\d+)$`)

// removeOlder removes the copies that older runs of the package left. What
// cannot be removed only takes room.
func (s *stage) removeOlder() {
	dir, own := path.Split(s.copyDir)
	run, ok := s.runOf(own)
	if !ok {
		return
	}
	entries, err := s.host.ReadDir(dir)
	if err != nil {
		s.say("warning: copies of older runs stay: %v", err)
		return
	}
	for _, e := range entries {
		if other, ok := s.runOf(e.Name()); ok && other < run && e.IsDir() {
			if err := s.host.RemoveAll(path.Join(dir, e.Name())); err != nil {
				s.say("warning: the copy of run %d stays: %v", other, err)
			}
		}
	}
}

func (s *stage) runOf(name string) (int64, bool) {
	rest, ok := strings.CutPrefix(name, s.env.name+"-")
	if !ok || s.env.name == "" {
		return 0, false
	}
	match := copyName.FindStringSubmatch(rest)
	if match == nil {
		return 0, false
	}
	run, err := strconv.ParseInt(match[1], 10, 64)
	return run, err == nil
}
