package app

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
	"github.com/nodewright/nodewright/cmd/agent/validate"
	"github.com/nodewright/nodewright/test/fakehost"
)

var samples = filepath.Join("..", "..", "..", "config", "samples", "packages")

// newSample is a host with a shell and a sample of a package on it.
func newSample(t *testing.T, name string, configMap map[string]string) *tree {
	t.Helper()
	needRoot(t)
	tr := newTree(t, nil)
	if err := os.RemoveAll(tr.path(copyDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(tr.path(copyDir), os.DirFS(filepath.Join(samples, name, "nodewright-package"))); err != nil {
		t.Fatal(err)
	}
	tr.configMap(configMap)
	tr.set("PATH", "/sbin:/bin")
	tr.shell()
	for _, dir := range []string{"/etc/systemd/system/timers.target.wants", "/etc/sysctl.d", "/run", "/var/lib"} {
		if err := os.MkdirAll(tr.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tr.file("/sbin/systemctl", fakehost.Systemctl)
	if err := os.Chmod(tr.path("/sbin/systemctl"), 0o755); err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr *tree) configMap(files map[string]string) {
	for name, content := range files {
		tr.file(copyDir+"/configmaps/"+name, content)
	}
}

// shell puts the machine's static busybox into the tree.
func (tr *tree) shell() {
	tr.t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		tr.t.Skip("there is no busybox to run shell scripts with in a tree of their own: install busybox-static")
	}
	f, err := elf.Open(busybox)
	if err != nil {
		tr.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			tr.t.Skip("busybox needs libraries, which a tree does not have: install busybox-static")
		}
	}
	data, err := os.ReadFile(busybox)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.file("/bin/busybox", string(data))
	if err := os.Chmod(tr.path("/bin/busybox"), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	for _, name := range strings.Fields("sh awk cat cmp cp cut dirname grep ln mkdir mv readlink rm sed sync sysctl") {
		if err := os.Symlink("busybox", tr.path("/bin/"+name)); err != nil {
			tr.t.Fatal(err)
		}
	}
}

// state is all of the host but what the agent keeps there.
func (tr *tree) state() map[string]string {
	tr.t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(tr.dir), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if file == "var/lib/nw" || file == "var/log" || file == "bin" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case d.Type() == fs.ModeSymlink:
			content, err = os.Readlink(tr.path(file))
		case d.Type().IsRegular():
			content = tr.read(file)
		}
		if strings.HasPrefix(file, "proc/sys/") {
			// The kernel prints values in its own way, whatever was written.
			content = strings.Join(strings.Fields(content), " ")
		}
		out[file] = fmt.Sprint(info.Mode(), " ", content)
		return err
	})
	if err != nil {
		tr.t.Fatal(err)
	}
	return out
}

// install runs all modes of an installation, each twice: a step may be ended at
// any point and run again.
func (tr *tree) install() {
	tr.t.Helper()
	for _, mode := range []string{"apply", "apply", "apply-check", "config", "config", "config-check", "post-interrupt", "post-interrupt-check"} {
		tr.stage(mode, ExitOK)
	}
}

func (tr *tree) uninstall() {
	tr.t.Helper()
	tr.stage("uninstall-check", ExitFailed)
	for _, mode := range []string{"uninstall", "uninstall", "uninstall-check"} {
		tr.stage(mode, ExitOK)
	}
}

func (tr *tree) same(before map[string]string) {
	tr.t.Helper()
	if diff := cmp.Diff(before, tr.state()); diff != "" {
		tr.t.Errorf("the host is not what it was:\n%s", diff)
	}
}

func TestSamplesAreValid(t *testing.T) {
	entries, err := os.ReadDir(samples)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		count++
		r, err := validate.Dir(filepath.Join(samples, e.Name()))
		if err != nil || len(r.Findings) > 0 || r.Name != e.Name() {
			t.Errorf("%s: %+v, %v", e.Name(), r, err)
		}
	}
	if count != 3 {
		t.Errorf("%d samples are checked, want 3", count)
	}
}

// TestManifestOfSamples holds that the operator takes the NodeWright, and that it
// names what the packages are.
func TestManifestOfSamples(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(samples, "nodewright_samples.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var nw v1alpha1.NodeWright
	if err := yaml.UnmarshalStrict(data, &nw); err != nil {
		t.Fatal(err)
	}
	if errs := validation.NodeWright(&nw, validation.Rules{}); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	for name, p := range nw.Spec.Packages {
		r, err := validate.Dir(filepath.Join(samples, name))
		if err != nil || r.Version != p.Version {
			t.Errorf("%s: version %s, the package has %+v, %v", name, p.Version, r, err)
		}
	}
	if len(nw.Spec.Packages) != 3 {
		t.Errorf("%d packages", len(nw.Spec.Packages))
	}
}

func TestSampleSysctl(t *testing.T) {
	tr := newSample(t, "sysctl", map[string]string{"sysctl.conf": "# more maps\nvm.max_map_count = 262144\nnet.ipv4.tcp_rmem=4096 131072 6291456"})
	tr.file("/proc/sys/vm/max_map_count", "65530\n")
	tr.file("/proc/sys/net/ipv4/tcp_rmem", "4096\t87380\t4194304\n")
	before := tr.state()
	tr.stage("apply-check", ExitFailed)
	tr.install()
	if got := tr.read("/proc/sys/vm/max_map_count"); strings.TrimSpace(got) != "262144" {
		t.Errorf("max_map_count is %q", got)
	}
	tr.file("/proc/sys/vm/max_map_count", "65530\n")
	contains(t, tr.stage("config-check", ExitFailed), "vm.max_map_count is 65530, want 262144")

	// A parameter that is wanted no more gets its value from before.
	tr.configMap(map[string]string{"sysctl.conf": "vm.max_map_count = 524288\n"})
	tr.stage("config-check", ExitFailed)
	tr.install()
	if got := tr.read("/proc/sys/net/ipv4/tcp_rmem"); strings.TrimSpace(got) != "4096 87380 4194304" {
		t.Errorf("tcp_rmem is %q", got)
	}
	tr.configMap(map[string]string{"sysctl.conf": "vm.no_such = 1\n"})
	contains(t, tr.stage("config", ExitFailed), "the kernel has no parameter vm.no_such")
	if got := tr.read("/etc/sysctl.d/90-nodewright-sysctl.conf"); got != "vm.max_map_count = 524288\n" {
		t.Errorf("a configuration that failed is on the host: %q", got)
	}
	tr.uninstall()
	tr.same(before)
}

func TestSampleJournalVacuum(t *testing.T) {
	tr := newSample(t, "journal-vacuum", nil)
	before := tr.state()
	tr.install()
	if _, err := os.Stat(tr.path("/run/active-journal-vacuum.timer")); err != nil {
		t.Error(err)
	}
	for _, mode := range []string{"upgrade", "upgrade-check"} {
		tr.stage(mode, ExitOK)
	}
	if err := os.Remove(tr.path("/run/active-journal-vacuum.timer")); err != nil {
		t.Fatal(err)
	}
	tr.stage("upgrade-check", ExitFailed)
	tr.stage("upgrade", ExitOK)
	tr.stage("upgrade-check", ExitOK)
	tr.uninstall()
	tr.same(before)
}

func TestSampleHostsBlock(t *testing.T) {
	tr := newSample(t, "hosts-block", map[string]string{"hosts": "10.0.0.1 one\n10.0.0.2 two"})
	tr.file("/etc/hosts", "127.0.0.1 localhost\n\n")
	if err := os.Chmod(tr.path("/etc/hosts"), 0o640); err != nil {
		t.Fatal(err)
	}
	before := tr.state()
	tr.install()
	const block = "# BEGIN nodewright hosts-block\n10.0.0.1 one\n10.0.0.2 two\n# END nodewright hosts-block\n"
	if got := tr.read("/etc/hosts"); got != "127.0.0.1 localhost\n\n"+block {
		t.Errorf("hosts:\n%s", got)
	}
	tr.configMap(map[string]string{"hosts": "10.0.0.3 three\n"})
	tr.stage("config-check", ExitFailed)
	tr.install()
	contains(t, tr.read("/etc/hosts"), "three")

	// What others add stays; a block that has lost its end is not guessed at.
	whole := tr.read("/etc/hosts")
	tr.file("/etc/hosts", strings.ReplaceAll(whole, "# END nodewright hosts-block\n", ""))
	contains(t, tr.stage("config", ExitFailed), "has no end: mend it by hand")
	tr.stage("uninstall", ExitFailed)
	tr.file("/etc/hosts", whole)
	tr.uninstall()
	tr.same(before)
}
