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

// passedOver are the types of file systems that other machines or programs write
// back, and of places where nothing is mounted yet; see statfs(2).
var passedOver = map[int64]bool{
	unix.AFS_SUPER_MAGIC: true, unix.AUTOFS_SUPER_MAGIC: true, unix.CEPH_SUPER_MAGIC: true, unix.CIFS_SUPER_MAGIC: true,
	unix.CODA_SUPER_MAGIC: true, unix.FUSE_SUPER_MAGIC: true, unix.NFS_SUPER_MAGIC: true, unix.OCFS2_SUPER_MAGIC: true,
	unix.SMB2_SUPER_MAGIC: true, unix.SMB_SUPER_MAGIC: true, unix.V9FS_MAGIC: true,
}

// Sync writes back the local file systems of the host, and those that the
// further paths are on. When it returns, what programs of the host wrote there
// before outlives a power cut, also where they did not see to it themselves.
// Directories of the host that cannot be reached are passed over, and so are
// paths that do not exist.
func (r *Root) Sync(paths ...string) error {
	done := map[uint64]bool{}
	for _, path := range localDirs {
		if local, err := r.toSync(path, done); err == nil && local {
			if err := r.syncFS(path); err != nil {
				return err
			}
		}
	}
	for _, path := range paths {
		local, err := r.toSync(path, done)
		if err == nil && local {
			err = r.syncFS(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// toSync tells whether the path is on a local file system that is not done yet.
// It triggers no automount, and asks no server.
func (r *Root) toSync(path string, done map[uint64]bool) (bool, error) {
	f, err := r.open(path, unix.O_PATH, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return false, wrap("stat", path, err)
	}
	var about unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &about); err != nil {
		return false, wrap("statfs", path, err)
	}
	if done[stat.Dev] || passedOver[about.Type] || stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false, nil
	}
	done[stat.Dev] = true
	return true, nil
}

func (r *Root) syncFS(path string) error {
	f, err := r.open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := r.gate(Change{Call: "syncfs", Path: path}); err != nil {
		return err
	}
	return wrap("syncfs", path, unix.Syncfs(int(f.Fd())))
}
