package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What apiVersion and kind of a configuration file say.
const (
	APIVersion = "config.nodewright.nvidia.com/v1alpha1"
	Kind       = "ManagerConfiguration"
)

// ManagerConfiguration is the configuration of the manager. Fields that are
// left out have the defaults that are given with them.
type ManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// copyDirRoot is the directory on hosts that packages are copied to, below a
	// directory per NodeWright. Absolute. Default /var/lib/skyhook, where earlier
	// agents keep their flags and history.
	CopyDirRoot string `json:"copyDirRoot,omitempty"`
	// agentLogRoot is the directory on hosts for the logs of steps. Absolute.
	// Default /var/log/skyhook.
	AgentLogRoot string `json:"agentLogRoot,omitempty"`
	// hostRoot is the directory that package pods see as the host. Absolute.
	// Default /; another one is for tests on machines that must not change.
	HostRoot string `json:"hostRoot,omitempty"`
	// agentImage runs the steps of packages, with tag or digest. Required.
	AgentImage string `json:"agentImage,omitempty"`
	// imagePullSecret is the name of a secret in the operator's namespace that
	// package pods pull images with. Default none.
	ImagePullSecret string `json:"imagePullSecret,omitempty"`
	// alwaysPull are image repositories, without tag, that are pulled at every
	// start of a stage. All others are pulled when they are not on the node.
	AlwaysPull []string `json:"alwaysPull,omitempty"`
	// allowedRegistries are prefixes of image repositories, as
	// registry.example/team; packages and agents from elsewhere are refused. Empty:
	// all are allowed.
	AllowedRegistries []string `json:"allowedRegistries,omitempty"`
	// stageTimeout bounds one attempt of one stage where neither package nor
	// NodeWright says otherwise: 1s to 2147483647s, or 0 for no bound: an attempt
	// that hangs then hangs for ever. Default 1h.
	StageTimeout *metav1.Duration `json:"stageTimeout,omitempty"`
	// jobTTL is how long finished Jobs, with the logs of their pods, are kept.
	JobTTL JobTTL `json:"jobTTL,omitzero"`
	// retry limits attempts that fail.
	Retry Retry `json:"retry,omitzero"`
	// podStartGracePeriod is how long a pod may fail to start, as when its image
	// cannot be pulled, before the package shows as erroring: 0s to 24h. Default 2m.
	PodStartGracePeriod *metav1.Duration `json:"podStartGracePeriod,omitempty"`
	// runtimeRequiredTaints keep workloads off nodes that are not set up, as
	// key=value:Effect. The first is the one that the operator puts; all are
	// tolerated by package pods and removed. Default
	// nodewright.nvidia.com=runtime-required:NoSchedule and
	// skyhook.nvidia.com=runtime-required:NoSchedule.
	RuntimeRequiredTaints []string `json:"runtimeRequiredTaints,omitempty"`
	// reapplyOnReboot runs all packages again on a node that was booted by
	// somebody else. Default false.
	ReapplyOnReboot bool `json:"reapplyOnReboot,omitempty"`
	// disruption limits unavailable nodes over all NodeWrights. Default none.
	Disruption Disruption `json:"disruption,omitzero"`
	// migration is about records of earlier operators.
	Migration Migration `json:"migration,omitzero"`
	// metrics is the endpoint for Prometheus.
	Metrics Metrics `json:"metrics,omitzero"`
	// health is the endpoint for probes, /healthz and /readyz.
	Health Health `json:"health,omitzero"`
	// webhook is the admission server.
	Webhook Webhook `json:"webhook,omitzero"`
	// leaderElection lets one of several managers work.
	LeaderElection LeaderElection `json:"leaderElection,omitzero"`
	// concurrency is how many nodes the controllers work on at once.
	Concurrency Concurrency `json:"concurrency,omitzero"`
}

// JobTTL is how long finished Jobs are kept, by outcome: 1m to 2147483647s. It
// cannot be switched off.
type JobTTL struct {
	// succeeded is for Jobs that succeeded: 1m to 2147483647s; 0 is refused.
	// Default 1h.
	Succeeded *metav1.Duration `json:"succeeded,omitempty"`
	// failed is for Jobs that failed: 1m to 2147483647s; 0 is refused. Default
	// 24h.
	Failed *metav1.Duration `json:"failed,omitempty"`
}

// Retry limits attempts that fail.
type Retry struct {
	// limit is how many more attempts follow the first failure, 0 to 100. 0: the
	// first failure is final. Default 3.
	Limit *int32 `json:"limit,omitempty"`
}

// Disruption limits how many nodes may be unavailable at once, whoever caused
// it.
type Disruption struct {
	// maxUnavailable of all nodes, a count or a percent as 10%. 0: no node is
	// interrupted. Left out: no limit.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// groups have limits of their own besides.
	Groups []DisruptionGroup `json:"groups,omitempty"`
}

// DisruptionGroup limits the unavailable nodes among some.
type DisruptionGroup struct {
	// name of the group, unique.
	Name string `json:"name"`
	// selector of its nodes.
	Selector metav1.LabelSelector `json:"selector"`
	// maxUnavailable of its nodes, a count or a percent as 10%.
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable"`
}

// Migration is about records of earlier operators.
type Migration struct {
	// rollbackWindow is how long an earlier operator can take over again: its form
	// of the record is kept up to date so long. 0s to 8760h. Default 168h.
	RollbackWindow *metav1.Duration `json:"rollbackWindow,omitempty"`
}

// Metrics is the endpoint for Prometheus.
type Metrics struct {
	// bindAddress as host:port; "0" switches the endpoint off. Default :8443.
	BindAddress string `json:"bindAddress,omitempty"`
	// secure serves with TLS, to clients that the API server knows and that may
	// get /metrics. Default true.
	Secure *bool `json:"secure,omitempty"`
}

// Health is the endpoint for probes.
type Health struct {
	// bindAddress as host:port; "0" switches the endpoint off. Default :8081.
	BindAddress string `json:"bindAddress,omitempty"`
}

// Webhook is the admission server.
type Webhook struct {
	// enabled serves admission, on every replica. Default true. Switch it off only
	// where no webhook configuration leads to this manager: with one that does,
	// what it names is refused.
	Enabled *bool `json:"enabled,omitempty"`
	// host to listen on. Default all addresses.
	Host string `json:"host,omitempty"`
	// port to listen on, 1 to 65535. Default 9443.
	Port *int32 `json:"port,omitempty"`
	// certDir holds tls.crt and tls.key; files that change are read again. Absolute.
	// Default /tmp/k8s-webhook-server/serving-certs.
	CertDir string `json:"certDir,omitempty"`
}

// LeaderElection lets one of several managers work. The times are fixed: the
// lease lasts 30s and is renewed within 20s, so that no request to a node
// outlives its leader.
type LeaderElection struct {
	// enabled. Default true; switch it off only where one manager runs at most.
	Enabled *bool `json:"enabled,omitempty"`
	// name of the lease. Default nodewright-manager.
	Name string `json:"name,omitempty"`
	// namespace of the lease. Default the operator's.
	Namespace string `json:"namespace,omitempty"`
}

// Concurrency is how many nodes the controllers work on at once, 1 to 256.
type Concurrency struct {
	// node is for running packages, 1 to 256. Default 16.
	Node *int32 `json:"node,omitempty"`
	// job is for recording finished Jobs, 4 to 256. Default 8.
	Job *int32 `json:"job,omitempty"`
	// pod is for reporting pods that cannot start, 4 to 256. Default 4.
	Pod *int32 `json:"pod,omitempty"`
}
