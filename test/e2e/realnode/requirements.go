package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// programs are what a node runs and is made with, by the Debian package that has
// them.
var programs = map[string]string{
	"containerd": "containerd", "ctr": "containerd", "containerd-shim-runc-v2": "containerd", "runc": "runc",
	"unshare": "util-linux", "mount": "mount", Busybox: "busybox-static",
}

// Busybox is the path of a busybox that needs no libraries: the shell of a node's
// tree and of packages.
const Busybox = "/bin/busybox"

// Possible says why this machine cannot run nodes, and what to do. Nil: it can.
func Possible() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("nodes need root: namespaces, mounts and cgroups are made")
	}
	var missing []string
	for program, pkg := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program+" (Debian package "+pkg+")")
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("missing: %s; hack/e2e.sh installs them", strings.Join(missing, ", "))
	}
	out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("namespaces cannot be made here: %w: %s", err, out)
	}
	if _, err := controllers(); err != nil {
		return err
	}
	return nil
}
