package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const cgroupDir = "/sys/fs/cgroup"

// needed are the controllers without which a kubelet does not start.
var needed = []string{"cpu", "cpuset", "memory", "pids"}

// controllers gives the directories below which a cgroup has to be made: one in
// the unified hierarchy, or one per controller in the earlier form.
func controllers() ([]string, error) {
	if content, err := os.ReadFile(filepath.Join(cgroupDir, "cgroup.controllers")); err == nil {
		for _, name := range needed {
			if !slices.Contains(strings.Fields(string(content)), name) {
				return nil, fmt.Errorf("the kernel offers no cgroup controller %s here", name)
			}
		}
		return []string{cgroupDir}, nil
	}
	entries, err := os.ReadDir(cgroupDir)
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	var found []string
	for _, entry := range entries {
		dir := filepath.Join(cgroupDir, entry.Name())
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil && entry.Name() != "unified" {
			found = append(found, dir)
		}
	}
	for _, name := range needed {
		if !slices.Contains(found, filepath.Join(cgroupDir, name)) {
			return nil, fmt.Errorf("no cgroup controller %s is mounted below %s", name, cgroupDir)
		}
	}
	return found, nil
}

// makeCgroup makes the cgroup below which all pods of a node are.
func makeCgroup(name string) error {
	dirs, err := controllers()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make cgroup: %w", err)
		}
		switch {
		case dir == cgroupDir:
			enable := "+" + strings.Join(needed, " +")
			for _, at := range []string{dir, filepath.Join(dir, name)} {
				if err := os.WriteFile(filepath.Join(at, "cgroup.subtree_control"), []byte(enable), 0o600); err != nil {
					return fmt.Errorf("hand controllers on to cgroup %s: %w", name, err)
				}
			}
		case filepath.Base(dir) == "cpuset":
			// Empty at first in the earlier form, and then no process may enter.
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				content, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					return fmt.Errorf("make cgroup: %w", err)
				}
				if err := os.WriteFile(filepath.Join(dir, name, file), content, 0o600); err != nil {
					return fmt.Errorf("make cgroup: %w", err)
				}
			}
		}
	}
	return nil
}

// removeCgroup removes the cgroup and all below it. Its processes have ended.
func removeCgroup(name string) error {
	dirs, err := controllers()
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		var below []string
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && entry.IsDir() {
				below = append(below, path)
			}
			return err
		})
		errs = append(errs, err)
		for _, path := range slices.Backward(below) {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}
