package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// CopyTree copies what is below the directory from over the directory to, both
// on the host, as a user of the host would: links that the host has there are
// followed. Modes are kept, except of directories that the host has already. A
// relative link to a file below from is copied as that file, as earlier agents
// did; any other link is copied as it is. It is an error if there is anything but
// files, directories and links.
func (r *Root) CopyTree(from, to string) error {
	if err := r.copyDir(from, to); err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	entries, err := r.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := from+"/"+e.Name(), strings.TrimRight(to, "/")+"/"+e.Name()
		switch e.Type() {
		case fs.ModeDir:
			if err := r.CopyTree(source, target); err != nil {
				return err
			}
		case fs.ModeSymlink:
			err = r.copyLink(source, target)
		case 0:
			err = r.copyFile(source, target)
		default:
			err = errors.New("only files, directories and links are copied")
		}
		if err != nil {
			return fmt.Errorf("copy %s to %s: %w", source, target, err)
		}
	}
	return nil
}

// copyDir makes the directory to, if there is none, with the mode of from.
func (r *Root) copyDir(from, to string) error {
	if f, err := r.open(to, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
		return f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := r.Stat(from)
	if err != nil {
		return err
	}
	to, err = r.follow(to)
	if err != nil {
		return err
	}
	return r.swap(to, func(dir *os.File, temp, tempPath string) error {
		if err := r.gate(Change{Call: "mkdir", Path: tempPath}); err != nil {
			return err
		}
		if err := unix.Mkdirat(int(dir.Fd()), temp, 0o700); err != nil {
			return wrap("mkdir", tempPath, err)
		}
		if err := r.gate(Change{Call: "chmod", Path: tempPath}); err != nil {
			return err
		}
		// Not by mkdir, whose mode the umask takes bits from.
		return wrap("chmod", tempPath, unix.Fchmodat(int(dir.Fd()), temp, unixMode(info.Mode()), 0))
	})
}

// unixMode is the mode of a file as the kernel has it.
func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for bit, value := range map[fs.FileMode]uint32{fs.ModeSetuid: unix.S_ISUID, fs.ModeSetgid: unix.S_ISGID, fs.ModeSticky: unix.S_ISVTX} {
		if m&bit != 0 {
			mode |= value
		}
	}
	return mode
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
		if err != nil && !leadsNowhere(err) {
			return err
		}
	}
	// A link that the host has where the package has one is replaced.
	return r.Symlink(link, to)
}

// leadsNowhere tells whether the error is of a link that has no file at its end.
func leadsNowhere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENAMETOOLONG)
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
