package realnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// sysctls are what a kubelet sets for the whole machine.
var sysctls = []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"}

// KeepSysctls notes what kubelets change on the machine. The function that it
// returns puts it back.
func KeepSysctls() (restore func() error, err error) {
	before := map[string][]byte{}
	for _, name := range sysctls {
		if before[name], err = os.ReadFile(filepath.Join("/proc/sys", name)); err != nil {
			return nil, fmt.Errorf("note sysctls: %w", err)
		}
	}
	return func() error {
		var errs []error
		for _, name := range sysctls {
			// Not truncated: these are no plain files.
			file, err := os.OpenFile(filepath.Join("/proc/sys", name), os.O_WRONLY, 0)
			if err == nil {
				_, err = file.Write(before[name])
				err = errors.Join(err, file.Close())
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("restore sysctl %s: %w", name, err))
			}
		}
		return errors.Join(errs...)
	}, nil
}
