package host

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// CopyTree copies what is below the directory from over the directory to, both
// on the host, as a user of the host would: links that the host has there are
// followed. Modes are kept. A relative link to a file below from is copied as
// that file, as earlier agents did; any other link is copied as it is. It is an
// error if there is anything but files, directories and links.
func (r *Root) CopyTree(from, to string) error {
	if err := r.MkdirAll(to); err != nil {
		return err
	}
	entries, err := r.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := from+"/"+e.Name(), strings.TrimRight(to, "/")+"/"+e.Name()
		switch e.Type() {
		case fs.ModeDir:
			err = r.CopyTree(source, target)
		case fs.ModeSymlink:
			err = r.copyLink(source, target)
		case 0:
			err = r.copyFile(source, target)
		default:
			err = fmt.Errorf("copy %s: only files, directories and links are copied", source)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Root) copyLink(from, to string) error {
	link, err := r.Readlink(from)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(link, "/") {
		info, err := r.Stat(from)
		if err == nil && info.Mode().IsRegular() {
			return r.copyFile(from, to)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// A link that the host has where the package has one is replaced.
	return r.Symlink(link, to)
}

func (r *Root) copyFile(from, to string) error {
	f, err := r.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return r.Replace(to, f, info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
}
