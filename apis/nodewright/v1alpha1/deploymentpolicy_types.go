package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultCompartment is the compartment of nodes that no compartment of a
// policy selects. No compartment of a policy may take this name.
const DefaultCompartment = "__default__"

// Defaults of the parameters of strategies. There is none for
// failureThreshold: without it, failed batches never stop a rollout.
const (
	DefaultInitialBatch   int32 = 1
	DefaultBatchThreshold int32 = 100
	DefaultSafetyLimit    int32 = 50
	DefaultDelta          int32 = 1
	DefaultGrowthFactor   int32 = 2
)

// DeploymentPolicy says how many nodes a NodeWright works on at once, by
// groups of nodes (compartments), and when a rollout that fails stops. Several
// NodeWrights may name the same policy.
//
// +genclient
// +genclient:nonNamespaced
// +genclient:noStatus
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=deploymentpolicies,singular=deploymentpolicy,shortName=dp
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type DeploymentPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec of the policy.
	// +required
	Spec DeploymentPolicySpec `json:"spec"`
}

// DeploymentPolicyList is a list of DeploymentPolicies.
//
// +kubebuilder:object:root=true
type DeploymentPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DeploymentPolicy `json:"items"`
}

// DeploymentPolicySpec says how many nodes are worked on at once.
type DeploymentPolicySpec struct {
	// default is for nodes that no compartment selects, and its strategy for
	// compartments without one.
	// +required
	Default PolicyDefault `json:"default"`

	// compartments are groups of nodes with a budget of their own. A node that
	// several select goes to the safest: fixed before linear before exponential,
	// then the smaller budget, then by name. At most 100.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Compartments []Compartment `json:"compartments,omitempty"`

	// resetBatchStateOnCompletion starts batches anew, at initialBatch, when a
	// rollout is complete or the version of a package changes. Default true.
	// +optional
	// +kubebuilder:default=true
	ResetBatchStateOnCompletion *bool `json:"resetBatchStateOnCompletion,omitempty"`
}

// PolicyDefault is for nodes that no compartment selects.
type PolicyDefault struct {
	// budget limits how many of these nodes are worked on at once.
	// +required
	Budget DeploymentBudget `json:"budget"`

	// strategy sizes the batches.
	// +required
	Strategy *DeploymentStrategy `json:"strategy"`
}

// Compartment is a group of nodes with a budget of its own.
type Compartment struct {
	// name of the compartment, unique within the policy. __default__ is reserved
	// for the nodes that no compartment selects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self != '__default__'",message="__default__ is reserved for the nodes that no compartment selects"
	Name string `json:"name"`

	// selector selects the nodes by their labels.
	// +required
	Selector metav1.LabelSelector `json:"selector"`

	// budget limits how many nodes of the compartment are worked on at once.
	// +required
	Budget DeploymentBudget `json:"budget"`

	// strategy sizes the batches. Left out: the strategy of default.
	// +optional
	Strategy *DeploymentStrategy `json:"strategy,omitempty"`
}

// DeploymentBudget is the most nodes that are worked on at once, by percent or
// by count.
//
// +kubebuilder:validation:XValidation:rule="has(self.percent) != has(self.count)",message="set exactly one of percent and count"
type DeploymentBudget struct {
	// percent of the nodes, 1 to 100, rounded down but at least one node.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`

	// count of nodes, at least 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Count *int32 `json:"count,omitempty"`
}

// DeploymentStrategy sizes batches: exactly one of fixed, linear and
// exponential.
//
// +kubebuilder:validation:XValidation:rule="(has(self.fixed) ? 1 : 0) + (has(self.linear) ? 1 : 0) + (has(self.exponential) ? 1 : 0) == 1",message="set exactly one of fixed, linear and exponential"
type DeploymentStrategy struct {
	// fixed keeps the size of batches.
	// +optional
	Fixed *FixedStrategy `json:"fixed,omitempty"`

	// linear adds delta to the size after a good batch, and takes it off after a
	// failed one.
	// +optional
	Linear *LinearStrategy `json:"linear,omitempty"`

	// exponential multiplies the size by growthFactor after a good batch, and
	// divides it after a failed one.
	// +optional
	Exponential *ExponentialStrategy `json:"exponential,omitempty"`
}

// FixedStrategy keeps the size of batches.
type FixedStrategy struct {
	// initialBatch is the size of the batches, in nodes. At least 1, default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	InitialBatch *int32 `json:"initialBatch,omitempty"`

	// batchThreshold is the percentage of nodes of a batch that must succeed, 1 to
	// 100; below it the batch is a failed one. Default 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	BatchThreshold *int32 `json:"batchThreshold,omitempty"`

	// failureThreshold is how many failed batches in a row stop the rollout, at
	// least 1. Left out: failed batches do not stop it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`

	// safetyLimit is the percentage of nodes, 1 to 100, from which on failed
	// batches no longer stop the rollout. Default 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	SafetyLimit *int32 `json:"safetyLimit,omitempty"`
}

// LinearStrategy changes the size of batches by a number of nodes.
type LinearStrategy struct {
	// initialBatch is the size of the first batch, in nodes. At least 1, default
	// 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	InitialBatch *int32 `json:"initialBatch,omitempty"`

	// delta is the change of size from batch to batch, in nodes. At least 1,
	// default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Delta *int32 `json:"delta,omitempty"`

	// batchThreshold is the percentage of nodes of a batch that must succeed, 1 to
	// 100; below it the batch is a failed one. Default 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	BatchThreshold *int32 `json:"batchThreshold,omitempty"`

	// failureThreshold is how many failed batches in a row stop the rollout, at
	// least 1. Left out: failed batches do not stop it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`

	// safetyLimit is the percentage of nodes, 1 to 100, from which on failed
	// batches no longer stop the rollout nor make batches smaller. Default 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	SafetyLimit *int32 `json:"safetyLimit,omitempty"`
}

// ExponentialStrategy changes the size of batches by a factor.
type ExponentialStrategy struct {
	// initialBatch is the size of the first batch, in nodes. At least 1, default
	// 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	InitialBatch *int32 `json:"initialBatch,omitempty"`

	// growthFactor is the factor from batch to batch. At least 2, default 2.
	// +optional
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=2147483647
	GrowthFactor *int32 `json:"growthFactor,omitempty"`

	// batchThreshold is the percentage of nodes of a batch that must succeed, 1 to
	// 100; below it the batch is a failed one. Default 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	BatchThreshold *int32 `json:"batchThreshold,omitempty"`

	// failureThreshold is how many failed batches in a row stop the rollout, at
	// least 1. Left out: failed batches do not stop it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`

	// safetyLimit is the percentage of nodes, 1 to 100, from which on failed
	// batches no longer stop the rollout nor make batches smaller. Default 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	SafetyLimit *int32 `json:"safetyLimit,omitempty"`
}
