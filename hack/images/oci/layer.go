package oci

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Layer is a list of files, in any order. Directories above them need no entry.
type Layer []Entry

// Entry is one file: with Link a symbolic link, with Dir a directory, with
// Source or Program a copy of that file, else one with Content.
type Entry struct {
	// Path in the image, without a leading slash.
	Path    string
	Link    string
	Dir     bool
	Source  string
	Content []byte
	// Program is a file that must be a static binary for the image's
	// architecture: there is nothing else in the image that could load it.
	Program string
	// Mode of a file or directory; 0: 0755 for programs and directories, else 0644.
	Mode fs.FileMode
	// UID and GID of a file.
	UID, GID int
}

// tar gives the bytes of the layer.
func (l Layer) tar(arch string) ([]byte, error) {
	sorted := slices.SortedFunc(slices.Values(l), func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	var b bytes.Buffer
	w := newWriter(&b)
	for i := range sorted {
		e := &sorted[i]
		if !filepath.IsLocal(e.Path) || path.Clean(e.Path) != e.Path || e.Path == "." {
			return nil, fmt.Errorf("path %q in the image is not clean and relative, want one as etc/passwd", e.Path)
		}
		if i > 0 && sorted[i-1].Path == e.Path {
			return nil, fmt.Errorf("%s is twice in one layer", e.Path)
		}
		if err := e.write(w, arch); err != nil {
			return nil, err
		}
	}
	if err := w.close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (e *Entry) write(w *writer, arch string) error {
	switch {
	case e.Link != "":
		w.link(e.Path, e.Link)
		return nil
	case e.Dir:
		w.dir(e.Path, e.mode(0o755))
		return nil
	case e.Program != "":
		data, err := program(e.Program, arch)
		if err != nil {
			return err
		}
		w.file(e.Path, e.mode(0o755), e.UID, e.GID, data)
		return nil
	case e.Source != "":
		data, err := regular(e.Source)
		if err != nil {
			return err
		}
		w.file(e.Path, e.mode(0o644), e.UID, e.GID, data)
		return nil
	default:
		w.file(e.Path, e.mode(0o644), e.UID, e.GID, e.Content)
		return nil
	}
}

// mode is in the bits of tar, in which the sticky bit has another place than in
// fs.FileMode.
func (e *Entry) mode(unset int64) int64 {
	if e.Mode == 0 {
		return unset
	}
	mode := int64(e.Mode.Perm())
	if e.Mode&fs.ModeSticky != 0 {
		mode |= 0o1000
	}
	return mode
}

func regular(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	return os.ReadFile(file)
}

// CheckProgram tells why a program cannot be in an image of that architecture.
func CheckProgram(file, arch string) error {
	_, err := program(file, arch)
	return err
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func program(file, arch string) ([]byte, error) {
	data, err := regular(file)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s is not a program for linux: %w", file, err)
	}
	defer func() { _ = f.Close() }()
	want, known := machines[arch]
	if !known {
		return nil, fmt.Errorf("architecture %q is not known, want amd64 or arm64", arch)
	}
	if f.Machine != want {
		return nil, fmt.Errorf("%s is a program for %v, want one for %s", file, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s is linked dynamically, and the image has no libraries: build it with CGO_ENABLED=0, or install the static variant", file)
		}
	}
	return data, nil
}

// Tree is the layer that has a directory's files at a place in the image. Links
// stay links; those that leave the directory are errors, except below the
// directory free in it: they are right elsewhere. So are devices and sockets.
func Tree(dir, at, free string) (Layer, error) {
	var out Layer
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		e := Entry{Path: path.Join(at, filepath.ToSlash(inside))}
		switch d.Type() {
		case fs.ModeDir:
			e.Dir = true
		case fs.ModeSymlink:
			if e.Link, err = os.Readlink(file); err != nil {
				return err
			}
			leaves := filepath.IsAbs(e.Link) || !filepath.IsLocal(filepath.Join(filepath.Dir(inside), e.Link))
			if leaves && !strings.HasPrefix(inside, free+string(filepath.Separator)) {
				return fmt.Errorf("link %s leads to %s, out of the directory", file, e.Link)
			}
		case 0:
			info, err := d.Info()
			if err != nil {
				return err
			}
			e.Source, e.Mode = file, 0o644
			if info.Mode()&0o100 != 0 {
				e.Mode = 0o755
			}
		default:
			return fmt.Errorf("%s is a %v, want files, directories and links", file, strings.TrimSpace(d.Type().String()))
		}
		out = append(out, e)
		return nil
	})
	if err == nil && len(out) < 2 {
		err = errors.New("the directory is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	return out, nil
}
