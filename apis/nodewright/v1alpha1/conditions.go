package v1alpha1

// Types of the conditions of a NodeWright. Ready and Progressing are always
// there; the others while, or after, they were true.
const (
	// ConditionReady is true when every selected node is at its last stage for the
	// present spec.
	ConditionReady = "Ready"
	// ConditionProgressing is true while nodes are worked on.
	ConditionProgressing = "Progressing"
	// ConditionErroring is true while a package fails on a node.
	ConditionErroring = "Erroring"
	// ConditionBlocked is true while something outside of the packages holds the
	// rollout up.
	ConditionBlocked = "Blocked"
	// ConditionDrainBlocked is true while pods cannot be evicted.
	ConditionDrainBlocked = "DrainBlocked"
	// ConditionDeletionBlocked is true while deletion cannot go on.
	ConditionDeletionBlocked = "DeletionBlocked"
	// ConditionTaintNotTolerable is true while nodes carry taints that the pods of
	// packages do not tolerate.
	ConditionTaintNotTolerable = "TaintNotTolerable"
	// ConditionNodesGated is true while a runtime-required taint keeps workloads off
	// nodes on which the NodeWright is not complete.
	ConditionNodesGated = "NodesGated"
	// ConditionDeploymentPolicyNotFound is true while the policy that is named does
	// not exist.
	ConditionDeploymentPolicyNotFound = "DeploymentPolicyNotFound"
	// ConditionNodeStateMalformed is true while a record on a node cannot be read.
	ConditionNodeStateMalformed = "NodeStateMalformed"
	// ConditionNodesIgnored is true while selected nodes carry the ignore label.
	ConditionNodesIgnored = "NodesIgnored"
	// ConditionUninstallInProgress is true while packages are uninstalled.
	ConditionUninstallInProgress = "UninstallInProgress"
	// ConditionUninstallFailed is true while a package cannot be uninstalled.
	ConditionUninstallFailed = "UninstallFailed"
	// ConditionMigrating is true while nodes have records in the legacy form.
	ConditionMigrating = "Migrating"
)

// Reasons of conditions.
const (
	// ReasonComplete: every selected node is complete.
	ReasonComplete = "Complete"
	// ReasonRollingOut: nodes are worked on or wait for it.
	ReasonRollingOut = "RollingOut"
	// ReasonNoNodes: no node is selected.
	ReasonNoNodes = "NoNodes"
	// ReasonNodesErroring: a package fails on at least one node.
	ReasonNodesErroring = "NodesErroring"
	// ReasonBudgetUsedUp: erroring or cordoned nodes use the whole budget, so that
	// no further node is started. Repair them, or raise the budget.
	ReasonBudgetUsedUp = "BudgetUsedUp"
	// ReasonNodesBlocked: something outside holds nodes up.
	ReasonNodesBlocked = "NodesBlocked"
	// ReasonNodesNotReady: the Ready condition of nodes is not True.
	ReasonNodesNotReady = "NodesNotReady"
	// ReasonWaiting: an earlier NodeWright comes first.
	ReasonWaiting = "Waiting"
	// ReasonPaused: paused by annotation.
	ReasonPaused = "Paused"
	// ReasonDisabled: disabled by annotation.
	ReasonDisabled = "Disabled"
	// ReasonNotSupported: the spec uses what this version does not do; the message
	// names it.
	ReasonNotSupported = "NotSupported"
	// ReasonInvalidSpec: the spec cannot be carried out; the message says why.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonPolicyNotFound: the DeploymentPolicy does not exist.
	ReasonPolicyNotFound = "PolicyNotFound"
	// ReasonMalformed: a record on a node cannot be read. Once you know what is on the
	// host, remove it or ask for a reset.
	ReasonMalformed = "Malformed"
	// ReasonNoRoom: annotations of others leave no room on a node for a record. Take
	// some off it.
	ReasonNoRoom = "NoRoom"
	// ReasonTaint: nodes carry a taint.
	ReasonTaint = "Taint"
	// ReasonIgnored: nodes carry the ignore label.
	ReasonIgnored = "Ignored"
	// ReasonDeleting: the NodeWright is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonDrainBlocked: pods on nodes cannot be evicted.
	ReasonDrainBlocked = "DrainBlocked"
	// ReasonUninstalling: packages are taken off nodes.
	ReasonUninstalling = "Uninstalling"
	// ReasonUninstallFailed: a package cannot be taken off a node.
	ReasonUninstallFailed = "UninstallFailed"
	// ReasonNothingToUninstall: what is to be taken off is on no node.
	ReasonNothingToUninstall = "NothingToUninstall"
	// ReasonResolved: what the condition says is no longer so.
	ReasonResolved = "Resolved"
)
