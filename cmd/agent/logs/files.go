package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nodewright/nodewright/cmd/agent/host"
)

const (
	// Keep is how many logs of one step are kept.
	Keep = 5
	// MaxSize of one file, in bytes; what follows is in the log of the container
	// only.
	MaxSize = 4 << 20

	fileTime  = "2006-01-02-150405"
	suffixOut = ".log"
	suffixErr = ".log.err"
	sameTime  = 100
	cutNotice = "the log is cut here\n"
)

// Dir keeps the logs of one version of a package.
type Dir struct {
	Host *host.Root
	// Path of the directory on the host; empty for no files.
	Path string
	Now  func() time.Time
}

// Files are the logs of one run of one step. Nil is no files.
type Files struct {
	Out, Err *File
}

// File is a log of bounded size.
type File struct {
	file *os.File
	// left is negative once the log says that it is cut.
	left int
}

// Create begins the logs of a step, named by its path below Dir, and removes
// the oldest ones.
func (d *Dir) Create(step string) (*Files, error) {
	if d.Path == "" {
		return nil, nil
	}
	base := path.Join(d.Path, path.Clean("/"+step))
	if err := d.Host.MkdirAll(path.Dir(base)); err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	if err := d.removeOld(base); err != nil {
		return nil, fmt.Errorf("remove old logs: %w", err)
	}
	name := base + "-" + d.Now().UTC().Format(fileTime)
	for i := range sameTime {
		try := name
		if i > 0 {
			try = fmt.Sprintf("%s-%d", name, i)
		}
		out, err := d.Host.Append(try + suffixOut)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("create log: %w", err)
		}
		failed, err := d.Host.Append(try + suffixErr)
		if err != nil {
			_ = out.Close()
			return nil, fmt.Errorf("create log: %w", err)
		}
		return &Files{Out: &File{out, MaxSize}, Err: &File{failed, MaxSize}}, nil
	}
	return nil, fmt.Errorf("create log: %s has too many logs of one second", base)
}

// removeOld leaves room for one more.
func (d *Dir) removeOld(base string) error {
	dir := path.Dir(base)
	entries, err := d.Host.ReadDir(dir)
	if err != nil {
		return err
	}
	type log struct {
		name string
		time time.Time
	}
	var found []log
	for _, e := range entries {
		stamp, ours := strings.CutPrefix(e.Name(), path.Base(base)+"-")
		if !ours || len(stamp) < len(fileTime) || !strings.HasSuffix(stamp, suffixOut) {
			continue
		}
		if _, err := time.Parse(fileTime, stamp[:len(fileTime)]); err != nil {
			// The log of a step whose name begins alike.
			continue
		}
		info, err := d.Host.Lstat(dir + "/" + e.Name())
		if err != nil {
			return err
		}
		found = append(found, log{e.Name(), info.ModTime()})
	}
	slices.SortFunc(found, func(a, b log) int {
		return cmp.Or(b.time.Compare(a.time), cmp.Compare(b.name, a.name))
	})
	for _, l := range found[min(len(found), Keep-1):] {
		name := strings.TrimSuffix(dir+"/"+l.name, suffixOut)
		if err := errors.Join(d.Host.Remove(name+suffixOut), d.Host.Remove(name+suffixErr)); err != nil {
			return err
		}
	}
	return nil
}

// Write writes until the file is full.
func (f *File) Write(p []byte) (int, error) {
	switch {
	case f.left < 0:
		return len(p), nil
	case len(p) > f.left:
		f.left = -1
		p = []byte(cutNotice)
	default:
		f.left -= len(p)
	}
	return f.file.Write(p)
}

// Close closes both files.
func (f *Files) Close() error {
	return errors.Join(f.Out.file.Close(), f.Err.file.Close())
}
