package realnode

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// treeDirs are directories of a host.
var treeDirs = []string{
	"bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "etc/sysctl.d", "etc/systemd/system", "proc/sys/kernel/random", "run", "tmp", "var/lib",
	"var/log", "root", "dev",
}

// shellCommands are names under which busybox is found on a host.
var shellCommands = []string{
	"sh", "cat", "cp", "mv", "rm", "ls", "ln", "mkdir", "rmdir", "touch", "test", "[", "grep", "sed", "awk", "cmp", "diff", "echo", "printf", "sleep",
	"true", "false", "env", "id", "chmod", "chown", "date", "head", "tail", "tr", "cut", "sort", "uniq", "wc", "basename", "dirname", "readlink",
	"mktemp", "seq", "kill", "uname", "hostname", "expr", "find", "xargs", "sync", "install", "sha256sum", "tee", "stat", "od", "base64",
	"sysctl",
}

// nullDevice is the number of /dev/null: major 1, minor 3.
const nullDevice = 1<<8 | 3

// makeTree makes the directory tree that pods of a node take for the host: a
// shell with the usual commands, and nothing of the machine.
func makeTree(dir string) error {
	for _, name := range treeDirs {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return fmt.Errorf("make the tree of a host: %w", err)
		}
	}
	if err := copyFile(Busybox, filepath.Join(dir, "bin/busybox")); err != nil {
		return fmt.Errorf("make the tree of a host: %w", err)
	}
	for _, name := range shellCommands {
		if err := os.Symlink("busybox", filepath.Join(dir, "bin", name)); err != nil {
			return fmt.Errorf("make the tree of a host: %w", err)
		}
	}
	if err := syscall.Mknod(filepath.Join(dir, "dev/null"), syscall.S_IFCHR|0o666, nullDevice); err != nil {
		return fmt.Errorf("make the tree of a host: %w", err)
	}
	return os.Chmod(filepath.Join(dir, "dev/null"), 0o666)
}

// copyFile makes an executable copy.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
