package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeWright names nodes by a label selector and a graph of packages. The
// operator runs each package on each of these nodes, in the order of their
// dependencies, and records on the Node how far each has come.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=nodewrights,singular=nodewright,shortName=nw
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=".status.status"
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=".spec.priority"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Nodes In-Progress",type=integer,JSONPath=".status.nodesInProgress"
// +kubebuilder:printcolumn:name="Complete Nodes",type=string,JSONPath=".status.completeNodes"
// +kubebuilder:printcolumn:name="Packages",type=string,JSONPath=".status.packageList"
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=".spec.deploymentPolicy"
type NodeWright struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what shall be on the hosts.
	// +optional
	Spec NodeWrightSpec `json:"spec,omitempty,omitzero"`
	// status is what the operator has seen. It is bounded: what stands on a
	// single node is recorded on that Node.
	// +optional
	Status NodeWrightStatus `json:"status,omitempty,omitzero"`
}

// NodeWrightList is a list of NodeWrights.
//
// +kubebuilder:object:root=true
type NodeWrightList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeWright `json:"items"`
}

// NodeWrightSpec is what shall be on the hosts.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deploymentPolicy) || size(self.deploymentPolicy) == 0 || !has(self.interruptionBudget) || (!has(self.interruptionBudget.percent) && !has(self.interruptionBudget.count))",message="interruptionBudget cannot be used together with deploymentPolicy: the policy has budgets of its own, remove one of the two"
// +kubebuilder:validation:XValidation:rule="!has(self.drain) || !has(self.drainConfig)",message="drain and drainConfig are two names of the same settings: use drain only"
type NodeWrightSpec struct {
	// serial, if true, runs one package at a time on each node, in dependency
	// order. It says nothing about how many nodes are worked on at once. Default
	// false: packages that do not depend on each other run at the same time.
	// +optional
	// +kubebuilder:default=false
	Serial bool `json:"serial,omitempty"`

	// podNonInterruptLabels selects pods that must have left a node, by
	// themselves, before the node is drained for an interrupt. The wait has no
	// time limit. Empty: no pod is waited for.
	// +optional
	PodNonInterruptLabels metav1.LabelSelector `json:"podNonInterruptLabels,omitempty,omitzero"`

	// nodeSelectors selects the nodes. Empty or left out: every node of the
	// cluster. A node that is no longer selected keeps what is on its host.
	// +optional
	NodeSelectors metav1.LabelSelector `json:"nodeSelectors,omitempty,omitzero"`

	// deploymentPolicy is the name of the DeploymentPolicy that decides how many
	// nodes are worked on at once. While no policy of that name exists the
	// rollout is held. Not together with interruptionBudget.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DeploymentPolicy string `json:"deploymentPolicy,omitempty"`

	// deploymentPolicyOptions overrides settings of the policy for this NodeWright
	// only.
	// +optional
	DeploymentPolicyOptions *DeploymentPolicyOptions `json:"deploymentPolicyOptions,omitempty"`

	// interruptionBudget limits how many of the selected nodes are worked on at
	// once. Nodes that are erroring, and nodes that are cordoned by this
	// NodeWright, count until they are complete. Without it, and without a
	// deploymentPolicy, packages without interrupts go to all nodes at once and
	// packages with interrupts to one node at a time.
	// +optional
	InterruptionBudget *InterruptionBudget `json:"interruptionBudget,omitempty"`

	// drain tunes how pods are evicted from a node before an interrupt.
	// +optional
	Drain *Drain `json:"drain,omitempty"`

	// drainConfig is drain in the form of earlier manifests. Not together with
	// drain.
	// +optional
	DrainConfig *DrainConfig `json:"drainConfig,omitempty"`

	// packages by name. A name has lower-case letters, digits and dashes, begins
	// and ends with a letter and has 2 to 43 characters. At most 100 packages.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z][-a-z0-9]{0,41}[a-z]$'))",message="the name of a package (the key) has lower-case letters, digits and dashes, begins and ends with a letter, and has 2 to 43 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !has(self[k].name) || self[k].name == k)",message="name of a package must be the same as its key; leave it out"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !has(self[k].dependsOn) || self[k].dependsOn.all(d, d != k && d in self))",message="dependsOn names a package that is not in packages, or the package itself"
	Packages map[string]Package `json:"packages,omitempty"`

	// additionalTolerations are added to the pods of all packages, besides those
	// that the operator adds itself.
	// +optional
	// +listType=atomic
	AdditionalTolerations []corev1.Toleration `json:"additionalTolerations,omitempty"`

	// runtimeRequired says that this NodeWright must be complete on a node before
	// workloads may run there: the runtime-required taint is taken off a node
	// once all such NodeWrights that select it are complete on it. Default false.
	// +optional
	// +kubebuilder:default=false
	RuntimeRequired bool `json:"runtimeRequired,omitempty"`

	// autoTaintNewNodes puts the runtime-required taint on nodes that join the
	// cluster and are selected. It means nothing without runtimeRequired.
	// Default false.
	// +optional
	// +kubebuilder:default=false
	AutoTaintNewNodes bool `json:"autoTaintNewNodes,omitempty"`

	// priority orders NodeWrights on a node: lower runs first, then by name. At
	// least 1, default 200.
	// +optional
	// +kubebuilder:default=200
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Priority *int32 `json:"priority,omitempty"`

	// sequencing says what later NodeWrights (in the order of priority) wait for.
	// node: this one is complete on the node in question. all: this one is
	// complete on all nodes. Default node.
	// +optional
	// +kubebuilder:default=node
	Sequencing SequencingMode `json:"sequencing,omitempty"`

	// stageTimeout bounds the run time of one attempt of one stage, for packages
	// that do not set their own: a Go duration from 1s to 2147483647s. 0 means no
	// time bound: an attempt that hangs then hangs for ever. Left out: the
	// stageTimeout of the operator's configuration (1h). A change reaches running
	// attempts.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-2]?[0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?([0-9]{1,9}([.][0-9]{1,9})?(us|µs))?([0-9]{1,9}ns)?)$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]+([.][0-9]+)?(h|m|s|ms|us|µs|ns))+)$') && (duration(self) == duration('0s') || (duration(self) >= duration('1s') && duration(self) <= duration('2147483647s')))",message="must be a duration with units, such as 90s, 30m or 1h30m, from 1s to 2147483647s, or 0 for no time bound; there is no unit for days, write 24h"
	StageTimeout *metav1.Duration `json:"stageTimeout,omitempty"`

	// jobTTL is how long finished Jobs, with the logs of their pods, are kept.
	// +optional
	JobTTL *JobTTL `json:"jobTTL,omitempty"`

	// retry limits attempts that fail.
	// +optional
	Retry *Retry `json:"retry,omitempty"`
}

// SequencingMode says what later NodeWrights wait for.
//
// +kubebuilder:validation:Enum=node;all
type SequencingMode string

// The sequencing modes.
const (
	// SequencingNode lets a node pass on once the NodeWright is complete on it.
	SequencingNode SequencingMode = "node"
	// SequencingAll holds all nodes until the NodeWright is complete on all.
	SequencingAll SequencingMode = "all"
)

// DeploymentPolicyOptions overrides settings of a DeploymentPolicy for one
// NodeWright.
type DeploymentPolicyOptions struct {
	// resetBatchStateOnCompletion overrides the setting of the policy. Left out:
	// as the policy says.
	// +optional
	ResetBatchStateOnCompletion *bool `json:"resetBatchStateOnCompletion,omitempty"`
}

// InterruptionBudget limits how many of the selected nodes are worked on at
// once: by percent or by count, not both. If both are left out, there is no
// limit set.
//
// +kubebuilder:validation:XValidation:rule="!has(self.percent) || !has(self.count)",message="set percent or count, not both"
type InterruptionBudget struct {
	// percent of the selected nodes, 0 to 100, rounded down but at least one
	// node. 0: no node is interrupted.
	// +optional
	// +nullable
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`

	// count of nodes. 0: no node is interrupted.
	// +optional
	// +nullable
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Count *int32 `json:"count,omitempty"`
}

// JobTTL is how long finished Jobs are kept, by outcome.
type JobTTL struct {
	// succeeded is for Jobs that succeeded: a Go duration from 1m to 2147483647s.
	// It cannot be switched off: 0 is refused. Left out: jobTTL.succeeded of the
	// operator's configuration (1h).
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-2]?[0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?([0-9]{1,9}([.][0-9]{1,9})?(us|µs))?([0-9]{1,9}ns)?)$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]+([.][0-9]+)?(h|m|s|ms|us|µs|ns))+)$') && duration(self) >= duration('1m') && duration(self) <= duration('2147483647s')",message="must be a duration with units, such as 10m, 1h or 24h, from 1m to 2147483647s: a Job that goes earlier may not have been recorded; there is no unit for days, write 24h"
	Succeeded *metav1.Duration `json:"succeeded,omitempty"`

	// failed is for Jobs that failed: a Go duration from 1m to 2147483647s. It
	// cannot be switched off: 0 is refused. Left out: jobTTL.failed of the
	// operator's configuration (24h).
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(0|([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-2]?[0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,9}([.][0-9]{1,9})?ms)?([0-9]{1,9}([.][0-9]{1,9})?(us|µs))?([0-9]{1,9}ns)?)$`
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]+([.][0-9]+)?(h|m|s|ms|us|µs|ns))+)$') && duration(self) >= duration('1m') && duration(self) <= duration('2147483647s')",message="must be a duration with units, such as 10m, 1h or 24h, from 1m to 2147483647s: a Job that goes earlier may not have been recorded; there is no unit for days, write 24h"
	Failed *metav1.Duration `json:"failed,omitempty"`
}

// Retry limits attempts that fail.
type Retry struct {
	// limit is how many more attempts a stage gets after the first failure of a
	// run, 0 to 100. 0: the first failure is final. Left out: retry.limit of the
	// operator's configuration (3). Attempts that ended for a reason outside the
	// package, as an eviction, do not count.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Limit *int32 `json:"limit,omitempty"`
}
