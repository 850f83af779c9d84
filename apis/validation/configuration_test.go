package validation

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/nodewright/nodewright/apis/config/v1alpha1"
)

func valid() *configv1alpha1.ManagerConfiguration {
	c := &configv1alpha1.ManagerConfiguration{AgentImage: "registry.example:5000/agent:7.0.0"}
	configv1alpha1.SetDefaults(c)
	return c
}

func TestManagerConfiguration(t *testing.T) {
	type conf = configv1alpha1.ManagerConfiguration
	d := func(s time.Duration) *metav1.Duration { return &metav1.Duration{Duration: s} }
	tests := map[string]struct {
		edit func(*conf)
		// want is the field that is wrong, empty for none.
		want string
	}{
		"defaults":                {func(*conf) {}, ""},
		"no agent":                {func(c *conf) { c.AgentImage = "" }, "agentImage"},
		"agent with scheme":       {func(c *conf) { c.AgentImage = "https://r/a" }, "agentImage"},
		"relative directory":      {func(c *conf) { c.CopyDirRoot = "var/lib" }, "copyDirRoot"},
		"directory with dots":     {func(c *conf) { c.HostRoot = "/a/../b" }, "hostRoot"},
		"another host root":       {func(c *conf) { c.HostRoot = "/srv/node" }, ""},
		"TTL of 0":                {func(c *conf) { c.JobTTL.Succeeded = d(0) }, "jobTTL.succeeded"},
		"TTL of 59s":              {func(c *conf) { c.JobTTL.Failed = d(59 * time.Second) }, "jobTTL.failed"},
		"TTL of 1m":               {func(c *conf) { c.JobTTL.Failed = d(time.Minute) }, ""},
		"stage timeout -1s":       {func(c *conf) { c.StageTimeout = d(-time.Second) }, "stageTimeout"},
		"stage timeout 500ms":     {func(c *conf) { c.StageTimeout = d(500 * time.Millisecond) }, "stageTimeout"},
		"stage timeout 1s":        {func(c *conf) { c.StageTimeout = d(time.Second) }, ""},
		"stage timeout 0":         {func(c *conf) { c.StageTimeout = d(0) }, ""},
		"stage timeout too large": {func(c *conf) { c.StageTimeout = d(700000 * time.Hour) }, "stageTimeout"},
		"largest stage timeout":   {func(c *conf) { c.StageTimeout = d(MaxDuration) }, ""},
		"retry limit -1":          {func(c *conf) { c.Retry.Limit = ptr.To[int32](-1) }, "retry.limit"},
		"retry limit 0":           {func(c *conf) { c.Retry.Limit = ptr.To[int32](0) }, ""},
		"grace period":            {func(c *conf) { c.PodStartGracePeriod = d(25 * time.Hour) }, "podStartGracePeriod"},
		"taint with space":        {func(c *conf) { c.RuntimeRequiredTaints = []string{"foo bar=true:NoSchedule"} }, "runtimeRequiredTaints[0]"},
		"taint with slash":        {func(c *conf) { c.RuntimeRequiredTaints = []string{"example.com/x=y:NoSchedule"} }, ""},
		"taint without effect":    {func(c *conf) { c.RuntimeRequiredTaints = []string{"x=y"} }, "runtimeRequiredTaints[0]"},
		"no taint":                {func(c *conf) { c.RuntimeRequiredTaints = []string{} }, "runtimeRequiredTaints"},
		"percent":                 {func(c *conf) { c.Disruption.MaxUnavailable = ptr.To(intstr.FromString("10%")) }, ""},
		"percent over 100":        {func(c *conf) { c.Disruption.MaxUnavailable = ptr.To(intstr.FromString("101%")) }, "disruption.maxUnavailable"},
		"words":                   {func(c *conf) { c.Disruption.MaxUnavailable = ptr.To(intstr.FromString("ten")) }, "disruption.maxUnavailable"},
		"group without name": {func(c *conf) {
			c.Disruption.Groups = []configv1alpha1.DisruptionGroup{{MaxUnavailable: intstr.FromInt32(1)}}
		}, "disruption.groups[0].name"},
		"metrics off":                          {func(c *conf) { c.Metrics.BindAddress = "0" }, ""},
		"metrics junk":                         {func(c *conf) { c.Metrics.BindAddress = "8443" }, "metrics.bindAddress"},
		"webhook port":                         {func(c *conf) { c.Webhook.Port = ptr.To[int32](0) }, "webhook.port"},
		"certificates in a relative directory": {func(c *conf) { c.Webhook.CertDir = "certs" }, "webhook.certDir"},
		"certificates elsewhere":               {func(c *conf) { c.Webhook.CertDir = "/certs" }, ""},
		"no admission":                         {func(c *conf) { c.Webhook.Enabled = ptr.To(false) }, ""},
		"too few workers":                      {func(c *conf) { c.Concurrency.Job = ptr.To[int32](3) }, "concurrency.job"},
		"one node at a time":                   {func(c *conf) { c.Concurrency.Node = ptr.To[int32](1) }, ""},
		"lease name":                           {func(c *conf) { c.LeaderElection.Name = "A_b" }, "leaderElection.name"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := valid()
			tc.edit(c)
			errs := ManagerConfiguration(c)
			if tc.want == "" {
				if len(errs) != 0 {
					t.Fatalf("errors %v", errs)
				}
				return
			}
			if len(errs) != 1 || errs[0].Field != tc.want {
				t.Fatalf("errors %v, want one at %s", errs, tc.want)
			}
			if errs[0].Detail == "" && !strings.Contains(errs[0].Error(), "Duplicate") {
				t.Fatalf("error %v does not say what is allowed", errs[0])
			}
		})
	}
}

func TestManagerConfigurationFindsAllAtOnce(t *testing.T) {
	c := valid()
	c.AgentImage, c.HostRoot, c.CopyDirRoot = "", "x", "y"
	c.JobTTL.Failed.Duration = 0
	errs := ManagerConfiguration(c)
	var fields []string
	for _, e := range errs {
		fields = append(fields, e.Field)
	}
	if got := strings.Join(fields, " "); got != "agentImage copyDirRoot hostRoot jobTTL.failed" {
		t.Fatalf("fields %s", got)
	}
}
