package host

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// localDirs are where packages put what must outlive a power cut. Not each file
// system of the host is written back: that of a data disk may take minutes, and
// waits on one of a network may have no end.
var localDirs = []string{"/", "/boot", "/boot/efi", "/etc", "/opt", "/usr", "/var", "/var/lib"}

// remote are the types of file systems that other machines or programs write
// back; see statfs(2).
var remote = map[int64]bool{
	unix.NFS_SUPER_MAGIC: true, unix.SMB_SUPER_MAGIC: true, unix.SMB2_SUPER_MAGIC: true, unix.CIFS_SUPER_MAGIC: true,
	unix.FUSE_SUPER_MAGIC: true, unix.CEPH_SUPER_MAGIC: true, unix.V9FS_MAGIC: true, unix.AFS_SUPER_MAGIC: true,
	unix.CODA_SUPER_MAGIC: true, unix.OCFS2_SUPER_MAGIC: true,
}

// Sync writes back the local file systems of the host, and those that the
// further paths are on. When it returns, what programs of the host wrote there
// before outlives a power cut, also where they did not see to it themselves.
// Paths that do not exist are passed over.
func (r *Root) Sync(paths ...string) error {
	done := map[uint64]bool{}
	for _, path := range append(append([]string{}, localDirs...), paths...) {
		if err := r.syncFS(path, done); err != nil {
			return err
		}
	}
	return nil
}

// syncFS writes back the file system of a directory unless that is done.
func (r *Root) syncFS(path string, done map[uint64]bool) error {
	f, err := r.open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return wrap("stat", path, err)
	}
	if done[stat.Dev] {
		return nil
	}
	done[stat.Dev] = true
	var about unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &about); err != nil {
		return wrap("statfs", path, err)
	}
	if remote[about.Type] {
		return nil
	}
	if err := r.gate(Change{Call: "syncfs", Path: path}); err != nil {
		return err
	}
	return wrap("syncfs", path, unix.Syncfs(int(f.Fd())))
}
