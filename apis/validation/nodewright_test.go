package validation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// sound is a NodeWright with one package and nothing to say about.
func sound(edits ...func(*v1alpha1.NodeWright)) *v1alpha1.NodeWright {
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: v1alpha1.NodeWrightSpec{
		NodeSelectors: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}},
		Packages:      map[string]v1alpha1.Package{"driver": {Version: "1.2.3", Image: "registry.example/driver"}},
	}}
	for _, edit := range edits {
		edit(nw)
	}
	return nw
}

// pkg changes the package of sound.
func pkg(edit func(*v1alpha1.Package)) func(*v1alpha1.NodeWright) {
	return func(nw *v1alpha1.NodeWright) {
		p := nw.Spec.Packages["driver"]
		edit(&p)
		nw.Spec.Packages["driver"] = p
	}
}

func spec(edit func(*v1alpha1.NodeWrightSpec)) func(*v1alpha1.NodeWright) {
	return func(nw *v1alpha1.NodeWright) { edit(&nw.Spec) }
}

// rename gives the package of sound another key.
func rename(key string) func(*v1alpha1.NodeWright) {
	return spec(func(s *v1alpha1.NodeWrightSpec) { s.Packages = map[string]v1alpha1.Package{key: s.Packages["driver"]} })
}

func image(text string) func(*v1alpha1.NodeWright) {
	return pkg(func(p *v1alpha1.Package) { p.Image = text })
}

func version(text string) func(*v1alpha1.NodeWright) {
	return pkg(func(p *v1alpha1.Package) { p.Version = text })
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func quantities(cpuRequest, cpuLimit, memoryRequest, memoryLimit string) func(*v1alpha1.NodeWright) {
	read := func(text string) *resource.Quantity {
		if text == "" {
			return nil
		}
		return ptr.To(resource.MustParse(text))
	}
	return pkg(func(p *v1alpha1.Package) {
		p.Resources = &v1alpha1.ResourceRequirements{
			CPURequest: read(cpuRequest), CPULimit: read(cpuLimit), MemoryRequest: read(memoryRequest), MemoryLimit: read(memoryLimit),
		}
	})
}

func tolerate(t corev1.Toleration) func(*v1alpha1.NodeWright) {
	return spec(func(s *v1alpha1.NodeWrightSpec) { s.AdditionalTolerations = []corev1.Toleration{t} })
}

func configInterrupt(pattern string, keys ...string) func(*v1alpha1.NodeWright) {
	return pkg(func(p *v1alpha1.Package) {
		p.ConfigMap = map[string]string{}
		for _, key := range keys {
			p.ConfigMap[key] = "x"
		}
		p.ConfigInterrupts = map[string]v1alpha1.Interrupt{pattern: {Type: v1alpha1.InterruptReboot}}
	})
}

func uninstall(enabled, apply bool) func(*v1alpha1.NodeWright) {
	return pkg(func(p *v1alpha1.Package) { p.Uninstall = &v1alpha1.Uninstall{Enabled: enabled, Apply: apply} })
}

func fields(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Field)
	}
	return out
}

// Each rule has the refusal and, beside it, the nearest that is legal.
func TestNodeWright(t *testing.T) {
	const at = "spec.packages[driver]."
	tests := map[string]struct {
		edit func(*v1alpha1.NodeWright)
		// want is the field that is wrong, empty for none, and words its message.
		want, words string
	}{
		"sound": {edit: func(*v1alpha1.NodeWright) {}},

		"CV-01 long names of NodeWright and package": {edit: func(nw *v1alpha1.NodeWright) {
			nw.Name = strings.Repeat("n", 253)
			rename(strings.Repeat("p", 43))(nw)
		}},
		"CV-01 name of 44":            {edit: rename(strings.Repeat("p", 44)), want: "spec.packages[" + strings.Repeat("p", 44) + "]", words: "43"},
		"CV-02 underscore":            {edit: rename("x_y"), want: "spec.packages[x_y]", words: "dashes"},
		"CV-02 dot":                   {edit: rename("x.y"), want: "spec.packages[x.y]", words: "dashes"},
		"CV-02 upper case":            {edit: rename("X"), want: "spec.packages[X]", words: "lower-case"},
		"CV-02 one letter":            {edit: rename("x"), want: "spec.packages[x]", words: "2 to 43"},
		"CV-02 two letters":           {edit: rename("xy")},
		"CV-02 dash":                  {edit: rename("x-y")},
		"CV-02 digit at the end":      {edit: rename("x1"), want: "spec.packages[x1]", words: "ends with a letter"},
		"name is not the key":         {edit: pkg(func(p *v1alpha1.Package) { p.Name = "other" }), want: at + "name", words: "leave it out"},
		"name is the key":             {edit: pkg(func(p *v1alpha1.Package) { p.Name = "driver" })},
		"version missing":             {edit: version(""), want: at + "version"},
		"version of four numbers":     {edit: version("1.2.3.4"), want: at + "version", words: "one to three numbers"},
		"version of one number":       {edit: version("1")},
		"version with v":              {edit: version("v1.2")},
		"version is a word":           {edit: version("latest"), want: at + "version"},
		"version pre-release":         {edit: version("1.0.0-rc.1")},
		"version build":               {edit: version("1.0.0+build"), want: at + "version", words: "containerSHA"},
		"version build with a digest": {edit: pkg(func(p *v1alpha1.Package) { p.Version, p.ContainerSHA = "1.0.0+build", digest })},

		"WH-07 tag":                    {edit: image("r/p:1.0"), want: at + "image", words: "write image: r/p"},
		"WH-07 tag that is version":    {edit: image("r/p:1.2.3")},
		"WH-07 digest":                 {edit: image("r/p@" + digest), want: at + "image", words: "containerSHA"},
		"WH-07 port":                   {edit: image("localhost:5000/p")},
		"WH-07 port and tag":           {edit: image("localhost:5000/p:1"), want: at + "image", words: "write image: localhost:5000/p"},
		"WH-07 space":                  {edit: image(" r/p"), want: at + "image", words: "spaces"},
		"WH-07 empty":                  {edit: image(""), want: at + "image"},
		"WH-07 upper case":             {edit: image("r/P"), want: at + "image", words: "lower-case"},
		"image with scheme":            {edit: image("https://r/p"), want: at + "image", words: "scheme"},
		"image of one word":            {edit: image("busybox")},
		"image with an empty part":     {edit: image("r.example//p"), want: at + "image"},
		"image with a wrong port":      {edit: image("r.example:port/p"), want: at + "image", words: "registry"},
		"image with colon at the end":  {edit: image("r/p:"), want: at + "image", words: "colon"},
		"image of 256":                 {edit: image("r/" + strings.Repeat("p", 254)), want: at + "image", words: "255"},
		"image of 255":                 {edit: image("r/" + strings.Repeat("p", 253))},
		"containerSHA":                 {edit: pkg(func(p *v1alpha1.Package) { p.ContainerSHA = digest })},
		"containerSHA without sha256:": {edit: pkg(func(p *v1alpha1.Package) { p.ContainerSHA = digest[7:] }), want: at + "containerSHA"},
		"containerSHA too short":       {edit: pkg(func(p *v1alpha1.Package) { p.ContainerSHA = digest[:70] }), want: at + "containerSHA"},
		"agent image":                  {edit: pkg(func(p *v1alpha1.Package) { p.AgentImageOverride = "r:5000/agent:1.0@" + digest })},
		"agent image, wrong digest":    {edit: pkg(func(p *v1alpha1.Package) { p.AgentImageOverride = "r/agent@sha256:1" }), want: at + "agentImageOverride", words: "digest"},
		"agent image, wrong tag":       {edit: pkg(func(p *v1alpha1.Package) { p.AgentImageOverride = "r/agent:+" }), want: at + "agentImageOverride", words: "tag"},

		"WH-11 stageTimeout -1s":          {edit: pkg(func(p *v1alpha1.Package) { p.StageTimeout = duration(-time.Second) }), want: at + "stageTimeout"},
		"WH-11 stageTimeout 0":            {edit: pkg(func(p *v1alpha1.Package) { p.StageTimeout = duration(0) })},
		"WH-11 stageTimeout 500ms":        {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.StageTimeout = duration(500 * time.Millisecond) }), want: "spec.stageTimeout", words: "1s"},
		"WH-11 stageTimeout 1s":           {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.StageTimeout = duration(time.Second) })},
		"WH-11 stageTimeout 700000h":      {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.StageTimeout = duration(700000 * time.Hour) }), want: "spec.stageTimeout", words: "2147483647s"},
		"WH-11 stageTimeout, the longest": {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.StageTimeout = duration(MaxDuration) })},
		"WH-11 jobTTL 0":                  {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.JobTTL = &v1alpha1.JobTTL{Failed: duration(0)} }), want: "spec.jobTTL.failed", words: "cannot be switched off"},
		"WH-11 jobTTL 59s":                {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.JobTTL = &v1alpha1.JobTTL{Succeeded: duration(59 * time.Second)} }), want: "spec.jobTTL.succeeded"},
		"WH-11 jobTTL 60s":                {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.JobTTL = &v1alpha1.JobTTL{Succeeded: duration(time.Minute)} })},
		"WH-11 retry limit -1":            {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.Retry = &v1alpha1.Retry{Limit: ptr.To[int32](-1)} }), want: "spec.retry.limit"},
		"CV-10 retry limit 0":             {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.Retry = &v1alpha1.Retry{Limit: ptr.To[int32](0)} })},
		"CV-10 priority 0":                {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.Priority = ptr.To[int32](0) }), want: "spec.priority", words: "at least 1"},
		"CV-10 priority 1":                {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.Priority = ptr.To[int32](1) })},
		"CV-10 gracePeriodSeconds 0":      {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.Drain = &v1alpha1.Drain{GracePeriodSeconds: ptr.To[int64](0)} })},
		"gracePeriodSeconds -1":           {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.Drain = &v1alpha1.Drain{GracePeriodSeconds: ptr.To[int64](-1)} }), want: "spec.drain.gracePeriodSeconds"},
		"drain timeout -1s":               {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.Drain = &v1alpha1.Drain{Timeout: duration(-time.Second)} }), want: "spec.drain.timeout"},
		"drain timeout 0":                 {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.Drain = &v1alpha1.Drain{Timeout: duration(0)} })},
		"drainConfig, too long": {edit: spec(func(s *v1alpha1.NodeWrightSpec) {
			s.DrainConfig = &v1alpha1.DrainConfig{GracePeriod: duration(MaxDuration + 1)}
		}), want: "spec.drainConfig.gracePeriod"},
		"drainConfig": {edit: spec(func(s *v1alpha1.NodeWrightSpec) {
			s.DrainConfig = &v1alpha1.DrainConfig{GracePeriod: duration(MaxDuration)}
		})},
		"drain and drainConfig": {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.Drain, s.DrainConfig = &v1alpha1.Drain{}, &v1alpha1.DrainConfig{} }),
			want: "spec.drainConfig", words: "use drain only"},
		"gracefulShutdown 0":   {edit: pkg(func(p *v1alpha1.Package) { p.GracefulShutdown = duration(0) })},
		"gracefulShutdown -1s": {edit: pkg(func(p *v1alpha1.Package) { p.GracefulShutdown = duration(-time.Second) }), want: at + "gracefulShutdown"},

		"budget of 101%": {edit: spec(func(s *v1alpha1.NodeWrightSpec) {
			s.InterruptionBudget = &v1alpha1.InterruptionBudget{Percent: ptr.To[int32](101)}
		}), want: "spec.interruptionBudget.percent"},
		"budget of 100%": {edit: spec(func(s *v1alpha1.NodeWrightSpec) {
			s.InterruptionBudget = &v1alpha1.InterruptionBudget{Percent: ptr.To[int32](100)}
		})},
		"budget count -1": {edit: spec(func(s *v1alpha1.NodeWrightSpec) {
			s.InterruptionBudget = &v1alpha1.InterruptionBudget{Count: ptr.To[int32](-1)}
		}), want: "spec.interruptionBudget.count"},
		"CV-10 budget 0": {edit: spec(func(s *v1alpha1.NodeWrightSpec) {
			s.InterruptionBudget = &v1alpha1.InterruptionBudget{Count: ptr.To[int32](0)}
		})},
		"percent and count": {edit: spec(func(s *v1alpha1.NodeWrightSpec) {
			s.InterruptionBudget = &v1alpha1.InterruptionBudget{Percent: ptr.To[int32](1), Count: ptr.To[int32](1)}
		}), want: "spec.interruptionBudget", words: "not both"},
		"budget and policy": {edit: spec(func(s *v1alpha1.NodeWrightSpec) {
			s.DeploymentPolicy, s.InterruptionBudget = "p", &v1alpha1.InterruptionBudget{Count: ptr.To[int32](1)}
		}), want: "spec.interruptionBudget", words: "deploymentPolicy"},
		"empty budget and policy": {edit: spec(func(s *v1alpha1.NodeWrightSpec) {
			s.DeploymentPolicy, s.InterruptionBudget = "p", &v1alpha1.InterruptionBudget{}
		})},
		"sequencing":     {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.Sequencing = "both" }), want: "spec.sequencing"},
		"sequencing all": {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.Sequencing = v1alpha1.SequencingAll })},

		"four resources":              {edit: quantities("50m", "200m", "64Mi", "128Mi")},
		"limit is the request":        {edit: quantities("1", "1000m", "1Gi", "1024Mi")},
		"three resources":             {edit: quantities("50m", "200m", "64Mi", ""), want: at + "resources", words: "memoryLimit is missing"},
		"empty resources":             {edit: quantities("", "", "", "")},
		"limit below request":         {edit: quantities("201m", "200m", "64Mi", "128Mi"), want: at + "resources.cpuLimit", words: "201m"},
		"memory below request":        {edit: quantities("50m", "200m", "64Mi", "64M"), want: at + "resources.memoryLimit"},
		"resources of 0":              {edit: quantities("0", "200m", "64Mi", "64Mi"), want: at + "resources.cpuRequest"},
		"config interrupt":            {edit: configInterrupt("a*.conf", "ab.conf")},
		"config interrupt of nothing": {edit: configInterrupt("a*.conf", "b.conf"), want: at + "configInterrupts[a*.conf]", words: "no key of configMap"},
		"interrupt of no type":        {edit: pkg(func(p *v1alpha1.Package) { p.Interrupt = &v1alpha1.Interrupt{Type: "halt"} }), want: at + "interrupt.type"},
		"service": {edit: pkg(func(p *v1alpha1.Package) {
			p.Interrupt = &v1alpha1.Interrupt{Type: v1alpha1.InterruptService, Services: []string{"a@b.service"}}
		})},
		"service is an option": {edit: pkg(func(p *v1alpha1.Package) {
			p.Interrupt = &v1alpha1.Interrupt{Type: v1alpha1.InterruptService, Services: []string{"a", "--force"}}
		}), want: at + "interrupt.services[1]", words: "dash"},
		"configMap key":           {edit: pkg(func(p *v1alpha1.Package) { p.ConfigMap = map[string]string{"a/b": ""} }), want: at + "configMap[a/b]"},
		"configMap key with dots": {edit: pkg(func(p *v1alpha1.Package) { p.ConfigMap = map[string]string{"a.b_c-d": ""} })},
		"configMap of 1 MiB":      {edit: pkg(func(p *v1alpha1.Package) { p.ConfigMap = map[string]string{"a": strings.Repeat("x", 1<<20)} })},
		"configMap over 1 MiB": {edit: pkg(func(p *v1alpha1.Package) {
			p.ConfigMap = map[string]string{"a": strings.Repeat("x", 1<<20), "b": "x"}
		}), want: at + "configMap", words: "1048576"},
		"variable":              {edit: pkg(func(p *v1alpha1.Package) { p.Env = []corev1.EnvVar{{Name: "A_B"}} })},
		"variable with equals":  {edit: pkg(func(p *v1alpha1.Package) { p.Env = []corev1.EnvVar{{Name: "A=B"}} }), want: at + "env[0].name"},
		"uninstall":             {edit: uninstall(true, true)},
		"uninstall not enabled": {edit: uninstall(false, true), want: at + "uninstall.apply", words: "enabled: true"},

		"selector": {edit: spec(func(s *v1alpha1.NodeWrightSpec) {
			s.NodeSelectors.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"b"}}}
		})},
		"selector without values": {edit: spec(func(s *v1alpha1.NodeWrightSpec) {
			s.NodeSelectors.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}}
		}), want: "spec.nodeSelectors.matchExpressions[0].values"},
		"selector of pods": {edit: spec(func(s *v1alpha1.NodeWrightSpec) { s.PodNonInterruptLabels.MatchLabels = map[string]string{"a b": "c"} }),
			want: "spec.podNonInterruptLabels.matchLabels"},
		"SE-05 toleration of a key with a space": {edit: tolerate(corev1.Toleration{Key: "foo bar", Operator: corev1.TolerationOpExists}), want: "spec.additionalTolerations[0].key"},
		"SE-05 toleration":                       {edit: tolerate(corev1.Toleration{Key: "example.com/foo", Operator: corev1.TolerationOpExists})},
		"toleration of all":                      {edit: tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists})},
		"toleration of nothing":                  {edit: tolerate(corev1.Toleration{Value: "x"}), want: "spec.additionalTolerations[0].operator"},
		"toleration, operator":                   {edit: tolerate(corev1.Toleration{Key: "a", Operator: "In"}), want: "spec.additionalTolerations[0].operator"},
		"toleration, value":                      {edit: tolerate(corev1.Toleration{Key: "a", Value: "b c"}), want: "spec.additionalTolerations[0].value"},
		"toleration, value too much":             {edit: tolerate(corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Value: "b"}), want: "spec.additionalTolerations[0].value"},
		"toleration, effect":                     {edit: tolerate(corev1.Toleration{Key: "a", Value: "b", Effect: "NoRun"}), want: "spec.additionalTolerations[0].effect"},
		"toleration, seconds":                    {edit: tolerate(corev1.Toleration{Key: "a", Value: "b", Effect: corev1.TaintEffectNoSchedule, TolerationSeconds: ptr.To[int64](1)}), want: "spec.additionalTolerations[0].effect"},
		"toleration, seconds NoExecute":          {edit: tolerate(corev1.Toleration{Key: "a", Value: "b", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](1)})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			checkErrors(t, NodeWright(sound(tc.edit), Rules{}), tc.want, tc.words)
		})
	}
}

func TestTooManyPackages(t *testing.T) {
	for count, want := range map[int]int{v1alpha1.MaxPackages: 0, v1alpha1.MaxPackages + 1: 1} {
		nw := sound()
		nw.Spec.Packages = map[string]v1alpha1.Package{}
		for i := range count {
			nw.Spec.Packages[fmt.Sprintf("p%dx", i)] = v1alpha1.Package{Version: "1", Image: "r/p"}
		}
		if errs := NodeWright(nw, Rules{}); len(errs) != want {
			t.Errorf("%d packages: errors %v, want %d", count, errs, want)
		}
	}
}

func TestAllowedRegistries(t *testing.T) {
	tests := map[string]struct {
		image   string
		allowed []string
		ok      bool
	}{
		"no list":                    {"anywhere.example/p", nil, true},
		"below":                      {"r.example/team/p", []string{"r.example/team"}, true},
		"the repository itself":      {"r.example/team", []string{"r.example/team"}, true},
		"beside":                     {"r.example/teams/p", []string{"r.example/team"}, false},
		"registry alone":             {"r.example:5000/p", []string{"r.example:5000"}, true},
		"other port":                 {"r.example:5001/p", []string{"r.example:5000"}, false},
		"registry that begins alike": {"r.example.evil/p", []string{"r.example"}, false},
		"second of two":              {"b.example/p", []string{"a.example", "b.example/"}, true},
		"no registry":                {"team/p", []string{"docker.io/team"}, true},
		"no registry on either side": {"team/p", []string{"team"}, true},
		"registry written out":       {"docker.io/team/p", []string{"team"}, true},
		"a directory of a registry":  {"r.example/team/p", []string{"team"}, false},
		"one word":                   {"busybox", []string{"docker.io/library"}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			rules := Rules{AllowedRegistries: tc.allowed}
			errs := NodeWright(sound(image(tc.image)), rules)
			if tc.ok && len(errs) != 0 || !tc.ok && (len(errs) != 1 || errs[0].Type != field.ErrorTypeForbidden) {
				t.Errorf("image: errors %v, allowed: want %t", errs, tc.ok)
			}
			errs = NodeWright(sound(image("busybox"), pkg(func(p *v1alpha1.Package) { p.AgentImageOverride = tc.image + ":1" })),
				Rules{AllowedRegistries: append(tc.allowed, "docker.io/library/busybox")})
			if len(tc.allowed) > 0 && !tc.ok && (len(errs) != 1 || errs[0].Field != "spec.packages[driver].agentImageOverride") {
				t.Errorf("agent: errors %v", errs)
			}
		})
	}
}

// WH-09: a graph is judged by what it is, not by the order of maps.
func TestDependenciesAllAtOnce_WH09(t *testing.T) {
	packages := func(on map[string]map[string]string) func(*v1alpha1.NodeWright) {
		return spec(func(s *v1alpha1.NodeWrightSpec) {
			s.Packages = map[string]v1alpha1.Package{}
			for name, deps := range on {
				s.Packages[name] = v1alpha1.Package{Version: "1.0.0", Image: "r/p", DependsOn: deps}
			}
		})
	}
	tests := map[string]struct {
		on   map[string]map[string]string
		want []string
	}{
		"bc on a, d on bc": {map[string]map[string]string{"aa": nil, "bc": {"aa": "1.0.0"}, "dd": {"bc": "1.0.0"}}, nil},
		"all of it": {map[string]map[string]string{
			"aa": {"bb": "2.0.0", "xx": "1.0.0"}, "bb": {"aa": "v1.0"},
		}, []string{"spec.packages", "spec.packages[aa].dependsOn[bb]", "spec.packages[aa].dependsOn[xx]"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			first := ""
			for range 1000 {
				errs := NodeWright(sound(packages(tc.on)), Rules{})
				if diff := cmp.Diff(tc.want, fields(errs)); diff != "" {
					t.Fatalf("fields (-want +got):\n%s", diff)
				}
				text := fmt.Sprint(errs)
				if first == "" {
					first = text
				}
				if text != first {
					t.Fatalf("the errors are once\n%s\nand once\n%s", first, text)
				}
			}
		})
	}
}

// Equal NodeWrights get equal answers, however maps are walked, and every error
// says where and what.
func TestAnswersAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "aa", "a-b", "x_y", "1.0", "v2.0.0-rc.1", "r/p", "r/P:1", "a b", "*", "a*"})
		number := rapid.Int32Range(-1, 3)
		p := func() v1alpha1.Package {
			return v1alpha1.Package{
				Name: text.Draw(t, "name"), Version: text.Draw(t, "version"), Image: text.Draw(t, "image"),
				DependsOn:        rapid.MapOfN(text, text, 0, 3).Draw(t, "dependsOn"),
				ConfigMap:        rapid.MapOfN(text, text, 0, 3).Draw(t, "configMap"),
				ConfigInterrupts: map[string]v1alpha1.Interrupt{text.Draw(t, "pattern"): {Type: "reboot"}, text.Draw(t, "pattern"): {}},
			}
		}
		nw := sound()
		nw.Spec.Priority = ptr.To(number.Draw(t, "priority"))
		nw.Spec.NodeSelectors.MatchLabels = rapid.MapOfN(text, text, 0, 3).Draw(t, "selector")
		for range rapid.IntRange(1, 4).Draw(t, "packages") {
			nw.Spec.Packages[text.Draw(t, "key")] = p()
		}
		want := NodeWright(nw, Rules{AllowedRegistries: []string{"r"}})
		wantWarnings := NodeWrightWarnings(nw)
		for range 5 {
			again := nw.DeepCopy()
			if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(NodeWright(again, Rules{AllowedRegistries: []string{"r"}}))); diff != "" {
				t.Fatalf("errors differ:\n%s", diff)
			}
			if diff := cmp.Diff(wantWarnings, NodeWrightWarnings(again)); diff != "" {
				t.Fatalf("warnings differ:\n%s", diff)
			}
		}
		for _, e := range want {
			if e.Field == "" || e.Detail == "" && e.Type != field.ErrorTypeDuplicate {
				t.Fatalf("%v says too little", e)
			}
		}
	})
}
