package stagejob

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
)

var update = flag.Bool("update", false, "rewrite golden files")

func settings() *Settings {
	return &Settings{
		Namespace: "nodewright", AgentImage: "registry:5000/agent:7.0.0", ImagePullSecret: "pull",
		AlwaysPull:  []string{"registry:5000/dev/tuning"},
		CopyDirRoot: "/var/lib/skyhook", AgentLogRoot: "/var/log/skyhook", HostRoot: "/",
		Tolerated: []corev1.Taint{{Key: "nodewright.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}},
	}
}

func request() *Request {
	q := func(s string) *resource.Quantity { v := resource.MustParse(s); return &v }
	pkg := v1alpha1.Package{
		Version: "1.2.3", Image: "registry:5000/tuning",
		Env:              []corev1.EnvVar{{Name: "MODE", Value: "fast"}, {Name: "SKYHOOK_LOG_DIR", Value: "/elsewhere"}},
		ConfigMap:        map[string]string{"b.conf": "b", "a.conf": "a"},
		GracefulShutdown: &metav1.Duration{Duration: 1500 * time.Millisecond},
		Resources: &v1alpha1.ResourceRequirements{
			CPURequest: q("4000m"), CPULimit: q("4"), MemoryRequest: q("64Mi"), MemoryLimit: q("128Mi"),
		},
		Interrupt: &v1alpha1.Interrupt{Type: v1alpha1.InterruptReboot},
	}
	nw := &v1alpha1.NodeWright{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-hosts", UID: "nw-uid"},
		Spec: v1alpha1.NodeWrightSpec{
			Packages:              map[string]v1alpha1.Package{"tuning": pkg},
			AdditionalTolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
		},
	}
	deadline := int64(3600)
	return &Request{
		Identity: packagejob.Identity{
			Attempt: 2, Node: "worker-1", NodeUID: "node-uid", NodeWright: "gpu-hosts", NodeWrightUID: "nw-uid",
			Package: "tuning", Run: 9, Stage: nodestate.StageApply, Version: "1.2.3",
		},
		NodeWright: nw, Package: &pkg, Image: pkg.Image, SpecHash: "abc", ConfigMapName: "cm-1",
		DeadlineSeconds: &deadline, Order: 5, BootID: "boot-1",
		Labels: map[string]string{"zone": "a"},
		Annotations: map[string]string{
			"example.com/rack": "r7",
			nodestate.NewPackageKey(nodestate.KindNodeState, "gpu-hosts", "tuning").String(): "{}",
			nodestate.Prefix + "my-team": "x",
		},
	}
}

func build(t *testing.T, s *Settings, r *Request) *batchv1.Job {
	t.Helper()
	job, _, err := Build(s, r)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return job
}

// Existing packages and agents depend on every line of this Job.
func TestJobGolden(t *testing.T) {
	golden(t, "job.yaml", build(t, settings(), request()))
}

// golden compares a Job with the file in testdata.
func golden(t *testing.T, name string, job *batchv1.Job) {
	t.Helper()
	got, err := yaml.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Fatalf("job changed (-want +got):\n%s", diff)
	}
}

func TestImages_SE07(t *testing.T) {
	sha := "sha256:" + strings.Repeat("a", 64)
	tests := map[string]struct {
		image, sha string
		want       string
		wantPull   corev1.PullPolicy
	}{
		"version":               {"r/p", "", "r/p:1.2.3", corev1.PullIfNotPresent},
		"registry with port":    {"localhost:5000/p", "", "localhost:5000/p:1.2.3", corev1.PullIfNotPresent},
		"tag equal to version":  {"r/p:1.2.3", "", "r/p:1.2.3", corev1.PullIfNotPresent},
		"digest":                {"r/p", sha, "r/p@" + sha, corev1.PullIfNotPresent},
		"tag and digest":        {"localhost:5000/p:1.2.3", sha, "localhost:5000/p@" + sha, corev1.PullIfNotPresent},
		"pulled at every start": {"registry:5000/dev/tuning", "", "registry:5000/dev/tuning:1.2.3", corev1.PullAlways},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := request()
			r.Image, r.ContainerSHA = tc.image, tc.sha
			init := build(t, settings(), r).Spec.Template.Spec.InitContainers[0]
			if init.Image != tc.want || init.ImagePullPolicy != tc.wantPull {
				t.Fatalf("image %s (%s), want %s (%s)", init.Image, init.ImagePullPolicy, tc.want, tc.wantPull)
			}
		})
	}
}

func TestAgentOverrideDoesNotReachTheLastContainer(t *testing.T) {
	r := request()
	r.Package.AgentImageOverride = "old/agent:6.4"
	spec := build(t, settings(), r).Spec.Template.Spec
	for _, c := range spec.InitContainers[1:] {
		if c.Image != "old/agent:6.4" {
			t.Fatalf("container %s runs %s", c.Name, c.Image)
		}
	}
	if spec.Containers[0].Image != settings().AgentImage {
		t.Fatalf("agents of earlier releases do not know mode done, but %s would run it", spec.Containers[0].Image)
	}
}

// SE-01: a package pod has no token, so an owned node is not the cluster.
func TestNoToken_SE01(t *testing.T) {
	spec := build(t, settings(), request()).Spec.Template.Spec
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Fatal("the token of the service account is mounted")
	}
}

// JB-15, CV-09, ST-22: no name is too long, and whatever a volume or a mount
// names is there.
func TestLongNames_JB15_CV09_ST22(t *testing.T) {
	r := request()
	long := strings.Repeat("a", 253)
	r.Identity.Node, r.Identity.NodeWright, r.NodeWright.Name = long, long, long
	r.Identity.Package = strings.Repeat("p", 43)
	r.Identity.Version = "1.2.3-rc.1+build.7"
	r.Identity.Stage = nodestate.StagePostInterrupt
	job := build(t, settings(), r)
	if errs := validation.IsDNS1123Label(job.Name); len(errs) != 0 || len(job.Name) > 57 {
		t.Fatalf("job name %q: %v", job.Name, errs)
	}
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		for k, v := range labels {
			if errs := validation.IsValidLabelValue(v); len(errs) != 0 {
				t.Errorf("label %s: %v", k, errs)
			}
		}
	}
	volumes := map[string]bool{}
	for _, v := range job.Spec.Template.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range append(job.Spec.Template.Spec.InitContainers, job.Spec.Template.Spec.Containers...) {
		if errs := validation.IsDNS1123Label(c.Name); len(errs) != 0 {
			t.Errorf("container name %q: %v", c.Name, errs)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("container %s mounts volume %s, which is not there", c.Name, m.Name)
			}
		}
	}
}

func TestMetadataFiles(t *testing.T) {
	annotations := build(t, settings(), request()).Spec.Template.Annotations
	var labels, foreign map[string]string
	var packages packagesFile
	for annotation, v := range map[string]any{
		annotationLabels: &labels, annotationAnnotations: &foreign, annotationPackages: &packages,
	} {
		if err := json.Unmarshal([]byte(annotations[annotation]), v); err != nil {
			t.Fatalf("%s: %v", annotation, err)
		}
	}
	if diff := cmp.Diff(map[string]string{"zone": "a"}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	want := map[string]string{"example.com/rack": "r7", nodestate.Prefix + "my-team": "x"}
	if diff := cmp.Diff(want, foreign); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if packages.AgentVersion != "7.0.0" || packages.Packages["tuning"].Interrupt.Type != v1alpha1.InterruptReboot {
		t.Errorf("packages %+v", packages)
	}
}

func TestLargeForeignAnnotationsAreDroppedLargestFirst(t *testing.T) {
	r := request()
	r.Annotations["example.com/huge"] = strings.Repeat("x", 60<<10)
	r.Annotations["example.com/large"] = strings.Repeat("x", 40<<10)
	_, dropped, err := Build(settings(), r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.com/huge"}, dropped); diff != "" {
		t.Fatalf("dropped (-want +got):\n%s", diff)
	}
}

// JB-29: quantities count by value.
func TestSpecHash_JB29(t *testing.T) {
	hash := func(edit func(*Request)) string {
		r := request()
		edit(r)
		h, err := SpecHash(r.NodeWright, r.Package)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	base := hash(func(*Request) {})
	q := func(s string) *resource.Quantity { v := resource.MustParse(s); return &v }
	same := map[string]func(*Request){
		"4000m is 4":   func(r *Request) { r.Package.Resources.CPURequest = q("4") },
		"64Mi in Ki":   func(r *Request) { r.Package.Resources.MemoryRequest = q("65536Ki") },
		"version":      func(r *Request) { r.Package.Version = "2.0.0" },
		"stageTimeout": func(r *Request) { r.Package.StageTimeout = &metav1.Duration{Duration: time.Minute} },
		"dependsOn":    func(r *Request) { r.Package.DependsOn = map[string]string{"other": "1.0.0"} },
	}
	for name, edit := range same {
		if hash(edit) != base {
			t.Errorf("%s: the hash changed", name)
		}
	}
	other := map[string]func(*Request){
		"env":         func(r *Request) { r.Package.Env[0].Value = "slow" },
		"resources":   func(r *Request) { r.Package.Resources.CPULimit = q("5") },
		"no limits":   func(r *Request) { r.Package.Resources = nil },
		"grace":       func(r *Request) { r.Package.GracefulShutdown = nil },
		"agent":       func(r *Request) { r.Package.AgentImageOverride = "a:1" },
		"tolerations": func(r *Request) { r.NodeWright.Spec.AdditionalTolerations = nil },
		"interrupt":   func(r *Request) { r.Package.Interrupt = nil },
	}
	for name, edit := range other {
		if hash(edit) == base {
			t.Errorf("%s: the hash did not change", name)
		}
	}
}
