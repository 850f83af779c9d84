package assets

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const projectRoot = "../../.."

// requirements returns module -> version of a go.mod, replacements not looked at.
func requirements(t *testing.T, path string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read go.mod: %v", err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(content)) {
		line, _, _ = strings.Cut(line, "//")
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) == 2 && strings.HasPrefix(fields[1], "v") {
			found[fields[0]] = fields[1]
		}
	}
	return found
}

func TestVersionsMatchPinnedModules(t *testing.T) {
	for _, c := range Components() {
		t.Run(c.Name, func(t *testing.T) {
			goMod := filepath.Join(projectRoot, c.moduleDir, "go.mod")
			if got, want := requirements(t, goMod)[c.modulePath], "v"+c.Version; got != want {
				t.Errorf("%s requires %s %q, the component is %q", goMod, c.modulePath, got, want)
			}
			content, err := os.ReadFile(goMod)
			if err != nil {
				t.Fatal(err)
			}
			// What a command of our own imports is pinned without a tool line.
			if !strings.HasPrefix(c.pkg, "./") && !strings.Contains(string(content), c.pkg+"\n") {
				t.Errorf("%s has no tool line for %s: its dependencies are not pinned", goMod, c.pkg)
			}
		})
	}
}

// The client libraries of the project and the API server are of one minor.
func TestKubernetesMinorMatchesClientLibraries(t *testing.T) {
	_, minorAndPatch, _ := strings.Cut(KubernetesVersion, ".")
	minor, _, _ := strings.Cut(minorAndPatch, ".")
	got := requirements(t, filepath.Join(projectRoot, "go.mod"))["k8s.io/client-go"]
	if want := "v0." + minor + "."; !strings.HasPrefix(got, want) {
		t.Errorf("client-go is %s, want %s*", got, want)
	}
}

func TestReleaseURLs(t *testing.T) {
	want := map[string][2]string{
		"kube-apiserver": {
			"https://dl.k8s.io/release/v1.37.2/bin/linux/arm64/kube-apiserver",
			"https://dl.k8s.io/release/v1.37.2/bin/linux/arm64/kube-apiserver.sha256",
		},
		"kube-controller-manager": {
			"https://dl.k8s.io/release/v1.37.2/bin/linux/arm64/kube-controller-manager",
			"https://dl.k8s.io/release/v1.37.2/bin/linux/arm64/kube-controller-manager.sha256",
		},
		"kubectl": {
			"https://dl.k8s.io/release/v1.37.2/bin/linux/arm64/kubectl",
			"https://dl.k8s.io/release/v1.37.2/bin/linux/arm64/kubectl.sha256",
		},
		"kubelet": {
			"https://dl.k8s.io/release/v1.37.2/bin/linux/arm64/kubelet",
			"https://dl.k8s.io/release/v1.37.2/bin/linux/arm64/kubelet.sha256",
		},
		"kube-scheduler": {
			"https://dl.k8s.io/release/v1.37.2/bin/linux/arm64/kube-scheduler",
			"https://dl.k8s.io/release/v1.37.2/bin/linux/arm64/kube-scheduler.sha256",
		},
		"etcd": {
			"https://github.com/etcd-io/etcd/releases/download/v3.7.3/etcd-v3.7.3-linux-arm64.tar.gz",
			"https://github.com/etcd-io/etcd/releases/download/v3.7.3/SHA256SUMS",
		},
		"kwok": {
			"https://github.com/kubernetes-sigs/kwok/releases/download/v0.8.0/kwok-linux-arm64",
			"https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags/v0.8.0",
		},
	}
	for _, c := range Components() {
		if c.release == nil {
			continue
		}
		r := c.release("linux", "arm64")
		if got := [2]string{r.url, r.sumURL}; got != want[c.Name] {
			t.Errorf("%s: got %q, want %q", c.Name, got, want[c.Name])
		}
	}
}

// A server without its version in both packages calls itself v0.0.0 in one of them.
func TestKubernetesVersionFlagsNameBothPackages(t *testing.T) {
	flags := kubernetes("kubectl").ldflags
	for _, want := range []string{
		"k8s.io/component-base/version.gitVersion=v" + KubernetesVersion,
		"k8s.io/client-go/pkg/version.gitVersion=v" + KubernetesVersion,
		"k8s.io/component-base/version.gitMajor=1",
		"k8s.io/client-go/pkg/version.gitMinor=37",
	} {
		if !slices.Contains(flags, want) {
			t.Errorf("no flag %s in %q", want, flags)
		}
	}
}

// The demo builds nothing that it does not run.
func TestSelectComponents(t *testing.T) {
	names := func(components []Component) string {
		var out []string
		for _, c := range components {
			out = append(out, c.Name)
		}
		return strings.Join(out, " ")
	}
	for _, tc := range []struct {
		names []string
		want  string
	}{
		{nil, "kube-apiserver kube-controller-manager kubectl etcd kwok"},
		{[]string{"cert-manager-controller", "etcd"}, "cert-manager-controller etcd"},
	} {
		got, err := selectComponents(tc.names)
		if err != nil || names(got) != tc.want {
			t.Errorf("%v selects %q, want %q: %v", tc.names, names(got), tc.want, err)
		}
	}
}

func TestSelectComponentsRefusesUnknownName(t *testing.T) {
	if _, err := selectComponents([]string{"etcd", "kube-nothing"}); err == nil || !strings.Contains(err.Error(), "kube-nothing") {
		t.Errorf("want an error that names kube-nothing, got %v", err)
	}
}
