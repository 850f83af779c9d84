package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults of the configuration, in one place.
const (
	DefaultCopyDirRoot         = "/var/lib/skyhook"
	DefaultAgentLogRoot        = "/var/log/skyhook"
	DefaultHostRoot            = "/"
	DefaultStageTimeout        = time.Hour
	DefaultTTLSucceeded        = time.Hour
	DefaultTTLFailed           = 24 * time.Hour
	DefaultRetryLimit          = int32(3)
	DefaultPodStartGracePeriod = 2 * time.Minute
	DefaultRollbackWindow      = 168 * time.Hour
	DefaultMetricsAddress      = ":8443"
	DefaultHealthAddress       = ":8081"
	DefaultWebhookPort         = int32(9443)
	DefaultWebhookCertDir      = "/tmp/k8s-webhook-server/serving-certs"
	DefaultLeaseName           = "nodewright-manager"
	DefaultNodeWorkers         = int32(16)
	DefaultJobWorkers          = int32(8)
	DefaultPodWorkers          = int32(4)
)

// DefaultRuntimeRequiredTaints are the taints that nodes register with until
// they are set up: ours, and the one of earlier operators.
func DefaultRuntimeRequiredTaints() []string {
	return []string{
		"nodewright.nvidia.com=runtime-required:NoSchedule",
		"skyhook.nvidia.com=runtime-required:NoSchedule",
	}
}

// SetDefaults fills in what the file left out.
func SetDefaults(c *ManagerConfiguration) {
	or(&c.CopyDirRoot, DefaultCopyDirRoot)
	or(&c.AgentLogRoot, DefaultAgentLogRoot)
	or(&c.HostRoot, DefaultHostRoot)
	orDuration(&c.StageTimeout, DefaultStageTimeout)
	orDuration(&c.JobTTL.Succeeded, DefaultTTLSucceeded)
	orDuration(&c.JobTTL.Failed, DefaultTTLFailed)
	orPointer(&c.Retry.Limit, DefaultRetryLimit)
	orDuration(&c.PodStartGracePeriod, DefaultPodStartGracePeriod)
	if c.RuntimeRequiredTaints == nil {
		c.RuntimeRequiredTaints = DefaultRuntimeRequiredTaints()
	}
	orDuration(&c.Migration.RollbackWindow, DefaultRollbackWindow)
	or(&c.Metrics.BindAddress, DefaultMetricsAddress)
	orPointer(&c.Metrics.Secure, true)
	or(&c.Health.BindAddress, DefaultHealthAddress)
	orPointer(&c.Webhook.Enabled, true)
	orPointer(&c.Webhook.Port, DefaultWebhookPort)
	or(&c.Webhook.CertDir, DefaultWebhookCertDir)
	orPointer(&c.LeaderElection.Enabled, true)
	or(&c.LeaderElection.Name, DefaultLeaseName)
	orPointer(&c.Concurrency.Node, DefaultNodeWorkers)
	orPointer(&c.Concurrency.Job, DefaultJobWorkers)
	orPointer(&c.Concurrency.Pod, DefaultPodWorkers)
}

func or(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

func orPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func orDuration(field **metav1.Duration, value time.Duration) {
	orPointer(field, metav1.Duration{Duration: value})
}
