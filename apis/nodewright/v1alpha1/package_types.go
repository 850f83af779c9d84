package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Package is a container image with scripts for the host, and how to run it.
type Package struct {
	// name of the package: the key in packages. Leave it out.
	// +optional
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:Pattern=`^[a-z][-a-z0-9]{0,41}[a-z]$`
	Name string `json:"name,omitempty"`

	// version of the package: one to three numbers, optionally with a leading v,
	// a pre-release and build metadata. Its text is the tag of the image; it is
	// compared as a semantic version. A higher one than the node has is an
	// upgrade.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^v?[0-9]+([.][0-9]+){0,2}(-[0-9A-Za-z.-]+)?([+][0-9A-Za-z.-]+)?$`
	Version string `json:"version"`

	// image is the repository of the package image, as registry/path. A registry
	// may have a port. The tag comes from version.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image"`

	// containerSHA pins the image to a digest, sha256: and 64 hexadecimal digits.
	// The image is then pulled by digest instead of by version. A changed digest
	// applies the package again.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	ContainerSHA string `json:"containerSHA,omitempty"`

	// agentImageOverride is the image of the agent for this package, with tag or
	// digest, in place of the agentImage of the operator's configuration.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	AgentImageOverride string `json:"agentImageOverride,omitempty"`

	// interrupt is what the host needs after the package was applied. The node is
	// cordoned and drained before.
	// +optional
	Interrupt *Interrupt `json:"interrupt,omitempty"`

	// dependsOn are packages, as name: version, that must be complete on the node
	// before a stage of this one starts.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	DependsOn map[string]string `json:"dependsOn,omitempty"`

	// configInterrupts are interrupts by configMap key: which one a change of that
	// key needs. In a key, * stands for any characters.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	ConfigInterrupts map[string]Interrupt `json:"configInterrupts,omitempty"`

	// configMap holds configuration files by name. A change runs the stage config
	// again. Not for secrets.
	// +optional
	ConfigMap map[string]string `json:"configMap,omitempty"`

	// env are environment variables for the steps of the package. Those that the
	// operator sets come after them.
	// +optional
	// +listType=atomic
	Env []corev1.EnvVar `json:"env,omitempty"`

	// resources of the containers of the package. Left out: the defaults of the
	// operator's namespace.
	// +optional
	Resources *ResourceRequirements `json:"resources,omitempty"`

	// gracefulShutdown is the time that a running step has to end after SIGTERM:
	// a Go duration up to 2147483647s, taken in whole seconds, rounded up. 0:
	// none. Left out: 30s, the default of pods.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-2]?[0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?([0-9]{1,9}([.][0-9]{1,9})?(us|µs))?([0-9]{1,9}ns)?)$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]+([.][0-9]+)?(h|m|s|ms|us|µs|ns))+)$') && duration(self) <= duration('2147483647s')",message="must be a duration with units, such as 30s or 5m, of at most 2147483647s; there is no unit for days, write 24h"
	GracefulShutdown *metav1.Duration `json:"gracefulShutdown,omitempty"`

	// uninstall says whether and when the package is taken off the hosts.
	// +optional
	Uninstall *Uninstall `json:"uninstall,omitempty"`

	// stageTimeout bounds the run time of one attempt of one stage of this
	// package: a Go duration from 1s to 2147483647s. 0 means no time bound: an
	// attempt that hangs then hangs for ever. Left out: the stageTimeout of the
	// NodeWright, else of the operator's configuration (1h). A change reaches
	// running attempts.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-2]?[0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?([0-9]{1,9}([.][0-9]{1,9})?(us|µs))?([0-9]{1,9}ns)?)$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]+([.][0-9]+)?(h|m|s|ms|us|µs|ns))+)$') && (duration(self) == duration('0s') || (duration(self) >= duration('1s') && duration(self) <= duration('2147483647s')))",message="must be a duration with units, such as 90s, 30m or 1h30m, from 1s to 2147483647s, or 0 for no time bound; there is no unit for days, write 24h"
	StageTimeout *metav1.Duration `json:"stageTimeout,omitempty"`
}

// InterruptType is a kind of interrupt.
//
// +kubebuilder:validation:Enum=service;reboot;noop;restartAllServices
type InterruptType string

// The interrupts, from the weakest to the strongest.
const (
	// InterruptNoop does nothing; the node is cordoned and drained all the same.
	InterruptNoop InterruptType = "noop"
	// InterruptService restarts the systemd services that are named.
	InterruptService InterruptType = "service"
	// InterruptRestartAllServices reloads all services.
	InterruptRestartAllServices InterruptType = "restartAllServices"
	// InterruptReboot reboots the host.
	InterruptReboot InterruptType = "reboot"
)

// Interrupt is a disturbance of the host that a package needs.
type Interrupt struct {
	// type of the interrupt: reboot, restartAllServices, service or noop.
	// Interrupts that are due on a node at the same time become one, the
	// strongest, in this order.
	// +required
	Type InterruptType `json:"type"`

	// services are the systemd units to restart, for type service only.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Services []string `json:"services,omitempty"`
}

// ResourceRequirements are requests and limits of the containers of a package:
// all four or none.
//
// +kubebuilder:validation:XValidation:rule="(has(self.cpuRequest) && has(self.cpuLimit) && has(self.memoryRequest) && has(self.memoryLimit)) || (!has(self.cpuRequest) && !has(self.cpuLimit) && !has(self.memoryRequest) && !has(self.memoryLimit))",message="set all of cpuRequest, cpuLimit, memoryRequest and memoryLimit, or none"
type ResourceRequirements struct {
	// cpuRequest is the CPU the node must have free, as 100m or 0.5.
	// +optional
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// cpuLimit is the most CPU the package gets, at least cpuRequest.
	// +optional
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`
	// memoryRequest is the memory the node must have free, as 128Mi.
	// +optional
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// memoryLimit is the most memory the package gets, at least memoryRequest.
	// +optional
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
}

// Uninstall says whether and when a package is taken off the hosts.
//
// +kubebuilder:validation:XValidation:rule="!has(self.apply) || !self.apply || (has(self.enabled) && self.enabled)",message="apply needs enabled: true, which says that the package can be uninstalled"
type Uninstall struct {
	// enabled says that the package has an uninstall stage. It then runs before
	// the package may be removed from packages, and when the NodeWright is
	// deleted. Default false.
	// +optional
	// +kubebuilder:default=false
	Enabled bool `json:"enabled,omitempty"`

	// apply uninstalls the package from all selected nodes. Setting it back to
	// false cancels. Needs enabled. Default false.
	// +optional
	// +kubebuilder:default=false
	Apply bool `json:"apply,omitempty"`
}
