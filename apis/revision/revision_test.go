package revision

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func driverAndTuning() *v1alpha1.NodeWright {
	return &v1alpha1.NodeWright{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "1"},
		Spec: v1alpha1.NodeWrightSpec{Packages: map[string]v1alpha1.Package{
			"driver": {Version: "1.2.3", Image: "registry.example/driver", ConfigMap: map[string]string{"a.conf": "x", "b.conf": "y"}},
			"tuning": {Version: "2.0.0", Image: "registry.example/tuning"},
		}},
	}
}

// edit changes the package driver.
func edit(change func(p *v1alpha1.Package)) func(*v1alpha1.NodeWright) {
	return func(nw *v1alpha1.NodeWright) {
		p := nw.Spec.Packages["driver"]
		p.ConfigMap = maps.Clone(p.ConfigMap)
		change(&p)
		nw.Spec.Packages["driver"] = p
	}
}

func TestOf(t *testing.T) {
	tests := map[string]struct {
		change      func(*v1alpha1.NodeWright)
		wantChanged bool
	}{
		"version":       {edit(func(p *v1alpha1.Package) { p.Version = "1.2.4" }), true},
		"version text":  {edit(func(p *v1alpha1.Package) { p.Version = "v1.2.3" }), true},
		"image":         {edit(func(p *v1alpha1.Package) { p.Image = "registry.example/driver2" }), true},
		"container sha": {edit(func(p *v1alpha1.Package) { p.ContainerSHA = "sha256:" + strings.Repeat("a", 64) }), true},
		"config value":  {edit(func(p *v1alpha1.Package) { p.ConfigMap["a.conf"] = "z" }), true},
		"config key": {edit(func(p *v1alpha1.Package) {
			delete(p.ConfigMap, "a.conf")
			p.ConfigMap["c.conf"] = "x"
		}), true},
		"config moved between keys": {edit(func(p *v1alpha1.Package) { p.ConfigMap = map[string]string{"a.conf": "xb.conf", "b.conf": ""} }), true},
		"config gone":               {edit(func(p *v1alpha1.Package) { p.ConfigMap = nil }), true},
		"package gone":              {func(nw *v1alpha1.NodeWright) { delete(nw.Spec.Packages, "tuning") }, true},
		"package added": {func(nw *v1alpha1.NodeWright) {
			nw.Spec.Packages["more"] = v1alpha1.Package{Version: "1.0.0", Image: "registry.example/more"}
		}, true},
		"package renamed": {func(nw *v1alpha1.NodeWright) {
			nw.Spec.Packages["tunings"] = nw.Spec.Packages["tuning"]
			delete(nw.Spec.Packages, "tuning")
		}, true},

		"nothing":   {func(*v1alpha1.NodeWright) {}, false},
		"name said": {edit(func(p *v1alpha1.Package) { p.Name = "driver" }), false},
		"env":       {edit(func(p *v1alpha1.Package) { p.Env = []corev1.EnvVar{{Name: "A", Value: "B"}} }), false},
		"resources": {edit(func(p *v1alpha1.Package) {
			p.Resources = &v1alpha1.ResourceRequirements{CPULimit: ptr.To(resource.MustParse("4000m"))}
		}), false},
		"interrupt": {edit(func(p *v1alpha1.Package) { p.Interrupt = &v1alpha1.Interrupt{Type: v1alpha1.InterruptReboot} }), false},
		"config interrupts": {edit(func(p *v1alpha1.Package) {
			p.ConfigInterrupts = map[string]v1alpha1.Interrupt{"a.conf": {Type: v1alpha1.InterruptReboot}}
		}), false},
		"depends on":        {edit(func(p *v1alpha1.Package) { p.DependsOn = map[string]string{"tuning": "2.0.0"} }), false},
		"agent":             {edit(func(p *v1alpha1.Package) { p.AgentImageOverride = "registry.example/agent:2" }), false},
		"stage timeout":     {edit(func(p *v1alpha1.Package) { p.StageTimeout = &metav1.Duration{Duration: time.Minute} }), false},
		"graceful shutdown": {edit(func(p *v1alpha1.Package) { p.GracefulShutdown = &metav1.Duration{Duration: time.Minute} }), false},
		"uninstall":         {edit(func(p *v1alpha1.Package) { p.Uninstall = &v1alpha1.Uninstall{Enabled: true} }), false},
		"uninstall now":     {edit(func(p *v1alpha1.Package) { p.Uninstall = &v1alpha1.Uninstall{Enabled: true, Apply: true} }), true},
		"config again":      {edit(func(p *v1alpha1.Package) { p.ConfigMap = map[string]string{"b.conf": "y", "a.conf": "x"} }), false},
		"budget": {func(nw *v1alpha1.NodeWright) {
			nw.Spec.InterruptionBudget = &v1alpha1.InterruptionBudget{Count: ptr.To[int32](3)}
		}, false},
		"selector": {func(nw *v1alpha1.NodeWright) { nw.Spec.NodeSelectors.MatchLabels = map[string]string{"a": "b"} }, false},
		"serial":   {func(nw *v1alpha1.NodeWright) { nw.Spec.Serial = true }, false},
		"metadata": {func(nw *v1alpha1.NodeWright) { nw.Name, nw.UID, nw.Generation = "other", "2", 7 }, false},
	}
	before := Of(driverAndTuning())
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nw := driverAndTuning()
			tc.change(nw)
			if got := Of(nw) != before; got != tc.wantChanged {
				t.Errorf("revision changed = %t, want %t", got, tc.wantChanged)
			}
		})
	}
}

func TestOfGoesBack(t *testing.T) {
	nw := driverAndTuning()
	a := Of(nw)
	edit(func(p *v1alpha1.Package) { p.ConfigMap["a.conf"] = "B" })(nw)
	b := Of(nw)
	edit(func(p *v1alpha1.Package) { p.ConfigMap["a.conf"] = "x" })(nw)
	if again := Of(nw); a == b || again != a {
		t.Errorf("revisions of A, B and A again are %s, %s, %s: want the first again and the second different", a, b, again)
	}
}

// Hashes are stored on nodes and in names: they must not change with a new
// version of the operator, which would start every node again.
func TestHashesAreFixed(t *testing.T) {
	nw := driverAndTuning()
	got := []string{
		Of(nw),
		ConfigHash(nw.Spec.Packages["driver"].ConfigMap),
		ConfigMapName("gpu", "1", "driver", ConfigHash(nw.Spec.Packages["driver"].ConfigMap)),
	}
	want := []string{"drxu5hpwrqflbxy4", "mxwudfxta4fzto44", "gpu-driver-qsh74voikp67hyjq"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("hash %d is %s, want %s", i, got[i], want[i])
		}
	}
}

func TestConfigHashOfNothing(t *testing.T) {
	for _, m := range []map[string]string{nil, {}} {
		if got := ConfigHash(m); got != "" {
			t.Errorf("ConfigHash(%v) = %q, want empty", m, got)
		}
	}
	if ConfigHash(map[string]string{"": ""}) == "" {
		t.Error("a configMap with an entry has no hash")
	}
}

func TestConfigHashTellsContentsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		contents := rapid.MapOf(rapid.StringMatching(`[ab.]{0,3}`), rapid.StringMatching(`[ab.]{0,3}`))
		a, b := contents.Draw(t, "a"), contents.Draw(t, "b")
		if same := ConfigHash(a) == ConfigHash(b); same != maps.Equal(a, b) {
			t.Errorf("hashes of %v and %v are equal: %t", a, b, same)
		}
	})
}

func TestConfigMapName(t *testing.T) {
	long := strings.TrimSuffix(strings.Repeat(strings.Repeat("n", 62)+".", 5)[:253], ".")
	dots := strings.Repeat("n.", 126) + "n"
	pkg := strings.Repeat("p", 43)
	hash := strings.Repeat("h", HashLength)
	for _, name := range []string{"a", "gpu-nodes", "a.b", long, dots, dots[:252] + "x"} {
		for _, p := range []string{"ab", pkg} {
			t.Run(fmt.Sprintf("%d and %d bytes", len(name), len(p)), func(t *testing.T) {
				got := ConfigMapName(name, "uid", p, hash)
				if errs := validation.IsDNS1123Subdomain(got); len(errs) > 0 {
					t.Errorf("%s is not an object name: %v", got, errs)
				}
				if len(got) > 253 {
					t.Errorf("name has %d bytes, want at most 253", len(got))
				}
			})
		}
	}
}

func TestConfigMapNameCoversItsArguments(t *testing.T) {
	long := strings.Repeat("n", 252)
	type args struct {
		nw   string
		uid  types.UID
		pkg  string
		hash string
	}
	names := map[string]args{}
	for _, a := range []args{
		{"a", "1", "driver", "h1"}, {"a", "2", "driver", "h1"}, {"a", "1", "driver", "h2"}, {"a", "1", "tuning", "h1"},
		{"b", "1", "driver", "h1"}, {"a-driver", "1", "xx", "h1"}, {"a", "1", "driver-xx", "h1"},
		{long + "a", "1", "driver", "h1"}, {long + "b", "1", "driver", "h1"},
	} {
		name := ConfigMapName(a.nw, a.uid, a.pkg, a.hash)
		if other, ok := names[name]; ok {
			t.Errorf("%v and %v have the same name %s", a, other, name)
		}
		names[name] = a
	}
}

// What is uninstalled can be told from any other set of packages, also where
// texts look like the mark of an uninstall.
func TestOfTellsUninstallsApart(t *testing.T) {
	now := &v1alpha1.Uninstall{Enabled: true, Apply: true}
	seen := map[string]string{}
	for name, packages := range map[string]map[string]v1alpha1.Package{
		"none":         {"driver": {Version: "1"}, "uninstall": {}},
		"first":        {"driver": {Version: "1", Uninstall: now}, "uninstall": {}},
		"second":       {"driver": {Version: "1"}, "uninstall": {Uninstall: now}},
		"both":         {"driver": {Version: "1", Uninstall: now}, "uninstall": {Uninstall: now}},
		"alone":        {"driver": {Version: "1", Uninstall: now}},
		"no version":   {"driver": {Uninstall: now}},
		"mark as text": {"driver": {Version: "1", Image: "uninstall"}},
	} {
		got := Of(&v1alpha1.NodeWright{Spec: v1alpha1.NodeWrightSpec{Packages: packages}})
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s have the same revision", name, other)
		}
		seen[got] = name
	}
}
