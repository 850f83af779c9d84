package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Drain tunes how pods are evicted from a node before an interrupt.
type Drain struct {
	// timeout bounds the drain of a node: a Go duration of at most 2147483647s.
	// When it is over, the package is erroring and the node stays cordoned. 0 or
	// left out: no time bound. The wait for podNonInterruptLabels is not part of
	// it.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-2]?[0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?([0-9]{1,9}([.][0-9]{1,9})?(us|µs))?([0-9]{1,9}ns)?)$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]+([.][0-9]+)?(h|m|s|ms|us|µs|ns))+)$') && duration(self) <= duration('2147483647s')",message="must be a duration with units, such as 30s or 5m, of at most 2147483647s; there is no unit for days, write 24h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// gracePeriodSeconds that evicted pods get, in seconds. 0: they are killed at
	// once. Left out: each pod's own terminationGracePeriodSeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`

	// deleteEmptyDirData evicts pods with emptyDir volumes, whose data is lost.
	// If false, such a pod holds up the drain. Default true.
	// +optional
	// +kubebuilder:default=true
	DeleteEmptyDirData *bool `json:"deleteEmptyDirData,omitempty"`

	// force evicts pods that no controller would create again. If false, such a
	// pod holds up the drain. Default true.
	// +optional
	// +kubebuilder:default=true
	Force *bool `json:"force,omitempty"`

	// ignoreDaemonSets leaves pods of DaemonSets alone. If false, such a pod holds
	// up the drain. Default true.
	// +optional
	// +kubebuilder:default=true
	IgnoreDaemonSets *bool `json:"ignoreDaemonSets,omitempty"`

	// disableEviction deletes pods instead of evicting them, which passes over
	// PodDisruptionBudgets. Default false.
	// +optional
	// +kubebuilder:default=false
	DisableEviction *bool `json:"disableEviction,omitempty"`
}

// DrainConfig is Drain in the form of earlier manifests.
type DrainConfig struct {
	// disableEviction deletes pods instead of evicting them, which passes over
	// PodDisruptionBudgets. Default false.
	// +optional
	// +nullable
	DisableEviction *bool `json:"disableEviction,omitempty"`

	// deleteEmptyDirData evicts pods with emptyDir volumes, whose data is lost.
	// If false, such a pod holds up the drain. Default true.
	// +optional
	// +nullable
	DeleteEmptyDirData *bool `json:"deleteEmptyDirData,omitempty"`

	// force evicts pods that no controller would create again. If false, such a
	// pod holds up the drain. Default true.
	// +optional
	// +nullable
	Force *bool `json:"force,omitempty"`

	// ignoreDaemonSets leaves pods of DaemonSets alone. If false, such a pod holds
	// up the drain. Default true.
	// +optional
	// +nullable
	IgnoreDaemonSets *bool `json:"ignoreDaemonSets,omitempty"`

	// timeout bounds the drain of a node: a Go duration of at most 2147483647s.
	// 0 or left out: no time bound.
	// +optional
	// +nullable
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-2]?[0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?([0-9]{1,9}([.][0-9]{1,9})?(us|µs))?([0-9]{1,9}ns)?)$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]+([.][0-9]+)?(h|m|s|ms|us|µs|ns))+)$') && duration(self) <= duration('2147483647s')",message="must be a duration with units, such as 30s or 5m, of at most 2147483647s; there is no unit for days, write 24h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// gracePeriod that evicted pods get: a Go duration of at most 2147483647s,
	// taken in whole seconds, rounded up. Left out: each pod's own
	// terminationGracePeriodSeconds.
	// +optional
	// +nullable
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-2]?[0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?([0-9]{1,9}([.][0-9]{1,9})?(us|µs))?([0-9]{1,9}ns)?)$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]+([.][0-9]+)?(h|m|s|ms|us|µs|ns))+)$') && duration(self) <= duration('2147483647s')",message="must be a duration with units, such as 30s or 5m, of at most 2147483647s; there is no unit for days, write 24h"
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty"`
}
