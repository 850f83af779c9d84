package assets

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// The one place for versions. The go.mod files below hack/ pin the same ones for the builds; a test compares them.
const (
	// KubernetesVersion is the version of kube-apiserver, kube-controller-manager, kubectl, kubelet and kube-scheduler. Its minor is
	// the one that the controller-runtime of go.mod pairs with.
	KubernetesVersion = "1.37.2"
	// EtcdVersion is the version of etcd.
	EtcdVersion = "3.7.3"
	// KwokVersion is the version of kwok.
	KwokVersion = "0.8.0"
	// CertManagerVersion is the version of cert-manager's controller and cainjector.
	CertManagerVersion = "1.21.2"
)

// buildDate is constant, so that two builds of one version are equal byte for byte.
const buildDate = "1970-01-01T00:00:00Z"

// Component is one binary.
type Component struct {
	// Name is the file name of the binary.
	Name string
	// Version is the wanted version, without a leading v.
	Version string

	// moduleDir is the directory, relative to the root of the project, of the module that pins the sources.
	moduleDir string
	// modulePath is the module that moduleDir must require at Version.
	modulePath string
	// pkg is the main package to build.
	pkg string
	// ldflags are linker flags that tell the binary its version.
	ldflags []string
	// versionArgs make the binary print its version.
	versionArgs []string
	// release says where the official release is, for one operating system and architecture. Without it there is none.
	release func(goos, goarch string) release
	// onRequest keeps the component out of what is provided when nobody names components.
	onRequest bool
}

// String returns name and version, for messages.
func (c Component) String() string { return c.Name + " v" + c.Version }

// fileName is the name of the binary in the store of the cache.
func (c Component) fileName() string {
	return fmt.Sprintf("%s-v%s-%s-%s", c.Name, c.Version, runtime.GOOS, runtime.GOARCH)
}

// Components returns all known components, the one that takes longest to build first.
func Components() []Component {
	return []Component{
		kubernetes("kube-apiserver", "--version"),
		kubernetes("kube-controller-manager", "--version"),
		kubernetes("kubectl", "version", "--client"),
		onRequest(kubernetes("kubelet", "--version")),
		onRequest(kubernetes("kube-scheduler", "--version")),
		{
			Name: "etcd", Version: EtcdVersion,
			moduleDir: "hack/etcd", modulePath: "go.etcd.io/etcd/server/v3", pkg: "go.etcd.io/etcd/server/v3",
			ldflags:     []string{"-X", "go.etcd.io/etcd/api/v3/version.GitSHA=v" + EtcdVersion},
			versionArgs: []string{"--version"},
			release:     etcdRelease,
		},
		{
			Name: "kwok", Version: KwokVersion,
			moduleDir: "hack/kwok", modulePath: "sigs.k8s.io/kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok",
			ldflags:     []string{"-X", "sigs.k8s.io/kwok/pkg/consts.Version=v" + KwokVersion},
			versionArgs: []string{"--version"},
			release:     kwokRelease,
		},
		certManager("controller"),
		certManager("cainjector"),
	}
}

// certManager returns a component of cert-manager, which only some tests need. The project releases images, and its module holds no
// commands, so the commands are ours.
func certManager(name string) Component {
	return Component{
		Name: "cert-manager-" + name, Version: CertManagerVersion,
		moduleDir: "hack/certmanager", modulePath: "github.com/cert-manager/cert-manager", pkg: "./" + name,
		ldflags:     []string{"-X", "github.com/cert-manager/cert-manager/pkg/util.AppVersion=v" + CertManagerVersion},
		versionArgs: []string{"--version"},
		onRequest:   true,
	}
}

// kubernetes returns a component that is a command of k8s.io/kubernetes. Such a binary keeps its version in two packages: what it
// serves comes from component-base, what it calls itself as a client from client-go. Without both it says v0.0.0 and clients
// refuse it.
func kubernetes(name string, versionArgs ...string) Component {
	major, rest, _ := strings.Cut(KubernetesVersion, ".")
	minor, _, _ := strings.Cut(rest, ".")
	values := []string{
		"gitVersion=v" + KubernetesVersion, "gitMajor=" + major, "gitMinor=" + minor,
		// What a build outside of a work tree of git says.
		"gitTreeState=archive", "gitCommit=v" + KubernetesVersion, "buildDate=" + buildDate,
	}
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, value := range values {
			flags = append(flags, "-X", pkg+"."+value)
		}
	}
	return Component{
		Name: name, Version: KubernetesVersion,
		moduleDir: "hack/kube", modulePath: "k8s.io/kubernetes", pkg: "k8s.io/kubernetes/cmd/" + name,
		ldflags: flags, versionArgs: versionArgs,
		release: func(goos, goarch string) release { return kubernetesRelease(name, goos, goarch) },
	}
}

// onRequest returns c as one that has to be named: only real nodes need it.
func onRequest(c Component) Component {
	c.onRequest = true
	return c
}

// selectComponents returns the components with these names. If there are none it returns all but those that have to be named.
func selectComponents(names []string) ([]Component, error) {
	all := Components()
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(c Component) bool { return c.onRequest }), nil
	}
	var selected []Component
	for _, name := range names {
		i := slices.IndexFunc(all, func(c Component) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("select components: no component is called %q", name)
		}
		selected = append(selected, all[i])
	}
	return selected, nil
}
