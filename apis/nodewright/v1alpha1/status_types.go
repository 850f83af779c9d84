package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// Bounds of the status. It does not grow with the number of nodes.
const (
	// MaxProblems is how many kinds of problems the status lists.
	MaxProblems = 16
	// MaxProblemNodes is how many nodes are named per problem.
	MaxProblemNodes = 10
	// MaxStatusMessage is the longest message of a problem, in bytes.
	MaxStatusMessage = 256
	// MaxPackages is how many packages a NodeWright may have.
	MaxPackages = 100
	// MaxCompartments is how many compartments the status lists: those of a
	// policy and the default one.
	MaxCompartments = 101
)

// NodeWrightStatus is what the operator has seen. Counts are of nodes.
type NodeWrightStatus struct {
	// observedGeneration is the generation of the spec that all of this status was
	// computed from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// status sums up all nodes in a word.
	// +optional
	// +kubebuilder:validation:Enum=complete;in_progress;erroring;blocked;waiting;paused;disabled;unknown
	Status nodestate.StatusWord `json:"status,omitempty"`

	// conditions by type.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// nodesInProgress is how many nodes hold a slot of the rollout.
	// +optional
	// +kubebuilder:default=0
	NodesInProgress int32 `json:"nodesInProgress,omitempty"`

	// completeNodes is complete nodes/selected nodes, as in 3/5.
	// +optional
	// +kubebuilder:default="0/0"
	// +kubebuilder:validation:MaxLength=32
	CompleteNodes string `json:"completeNodes,omitempty"`

	// packageList names the packages of the spec, in alphabetical order, separated
	// by commas.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	PackageList string `json:"packageList,omitempty"`

	// nodes counts the selected nodes by status word.
	// +optional
	Nodes NodeCounts `json:"nodes,omitempty,omitzero"`

	// problems names nodes that need a look, by kind of problem: at most 10 nodes
	// each.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Problems []Problem `json:"problems,omitempty"`

	// rollout is the revision of the packages that nodes are brought to.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Rollout string `json:"rollout,omitempty"`

	// nextOrder is the order that the next node gets in the rollout. Orders are
	// never reused: the first node has 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NextOrder int64 `json:"nextOrder,omitempty"`

	// compartments of the rollout, with their batches.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=101
	Compartments []CompartmentStatus `json:"compartments,omitempty"`

	// runtimeRequiredTaint is the taint that is put on new nodes and taken off
	// complete ones, as key=value:effect. Empty without runtimeRequired.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	RuntimeRequiredTaint string `json:"runtimeRequiredTaint,omitempty"`
}

// NodeCounts counts selected nodes by status word.
type NodeCounts struct {
	// selected by nodeSelectors.
	// +optional
	Selected int32 `json:"selected,omitempty"`
	// complete: every package is at its last stage.
	// +optional
	Complete int32 `json:"complete,omitempty"`
	// inProgress: being worked on.
	// +optional
	InProgress int32 `json:"inProgress,omitempty"`
	// erroring: a package failed.
	// +optional
	Erroring int32 `json:"erroring,omitempty"`
	// blocked: something outside holds the node up.
	// +optional
	Blocked int32 `json:"blocked,omitempty"`
	// waiting for a slot, a dependency or an earlier NodeWright.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// paused by annotation.
	// +optional
	Paused int32 `json:"paused,omitempty"`
	// disabled by annotation.
	// +optional
	Disabled int32 `json:"disabled,omitempty"`
	// unknown: nothing is recorded yet, or it cannot be read.
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
}

// Problem names nodes that need a look for one kind of problem.
type Problem struct {
	// type is the condition that the nodes are behind.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Type string `json:"type"`

	// count of all nodes concerned.
	// +required
	Count int32 `json:"count"`

	// nodes are the first 10 of them, by name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Nodes []ProblemNode `json:"nodes,omitempty"`
}

// ProblemNode says what is wrong on one node.
type ProblemNode struct {
	// name of the node.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// package concerned, if it is one.
	// +optional
	// +kubebuilder:validation:MaxLength=43
	Package string `json:"package,omitempty"`

	// reason in CamelCase.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message for the reader.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// CompartmentStatus is the rollout in one compartment.
type CompartmentStatus struct {
	// name of the compartment; __default__ without a policy.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// matched nodes.
	// +optional
	Matched int32 `json:"matched,omitempty"`

	// ceiling is the most nodes that may be worked on at once.
	// +optional
	Ceiling int32 `json:"ceiling,omitempty"`

	// inProgress counts nodes that use the ceiling up: those with a slot, and
	// those that are erroring or cordoned.
	// +optional
	InProgress int32 `json:"inProgress,omitempty"`

	// complete nodes.
	// +optional
	Complete int32 `json:"complete,omitempty"`

	// progressPercent is the percentage of matched nodes that are complete, 0 to
	// 100.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ProgressPercent int32 `json:"progressPercent,omitempty"`

	// batch is the present batch, with a policy only.
	// +optional
	Batch *BatchStatus `json:"batch,omitempty"`
}

// BatchStatus is the present batch of a compartment and what came before.
type BatchStatus struct {
	// number of the batch, from 1.
	// +optional
	Number int32 `json:"number,omitempty"`
	// size of the batch, in nodes.
	// +optional
	Size int32 `json:"size,omitempty"`
	// completed nodes of all batches so far.
	// +optional
	Completed int32 `json:"completed,omitempty"`
	// failed nodes of all batches so far.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// consecutiveFailures is how many batches failed in a row.
	// +optional
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`
	// lastSize is the size of the batch before, 0 for the first.
	// +optional
	LastSize int32 `json:"lastSize,omitempty"`
	// lastFailed says that the batch before failed.
	// +optional
	LastFailed bool `json:"lastFailed,omitempty"`
	// stopped says that failed batches stopped the rollout.
	// +optional
	Stopped bool `json:"stopped,omitempty"`
}
