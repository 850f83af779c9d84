package plan

import "github.com/nodewright/nodewright/apis/nodestate"

// Reasons on entries, slots and events. Those of nodestate are explained there.
const (
	// ReasonBackOff: a stage failed, and its next attempt waits; the message says until when.
	ReasonBackOff = "BackOff"
	// ReasonJobNameTaken: a Job of the name of the attempt is there and is not that; delete it so that the stage can
	// run.
	ReasonJobNameTaken = "JobNameTaken"
	// ReasonRemoved: the package left the spec while a stage of it was not complete; what it did to the
	// host stays.
	ReasonRemoved     = "RemovedFromSpec"
	ReasonUnreachable = nodestate.SlotUnreachable
	// ReasonWaiting: the node waits for a slot.
	ReasonWaiting = "Waiting"
	ReasonPaused  = nodestate.SlotPaused
	// ReasonRequested: a request on the node was carried out.
	ReasonRequested = "Requested"
	// ReasonRequestRefused: a request on the node was not carried out, and was taken off; the message says why.
	ReasonRequestRefused = "RequestRefused"
	ReasonDisabled       = nodestate.SlotDisabled
	// ReasonAttemptFailed: an attempt of a stage failed; the message says how, and when the next one starts.
	ReasonAttemptFailed = "AttemptFailed"
	// ReasonAttemptLost: an attempt ended for what was done to it from outside, as by an eviction or a
	// shutdown of the node. Another one follows, and it does not count as a failure.
	ReasonAttemptLost = "AttemptReplaced"
	// ReasonErroring: a package fails on a node for good, or its pod cannot start.
	ReasonErroring = "PackageErroring"
	// ReasonNodeComplete: all that the NodeWright asks for is done on the node.
	ReasonNodeComplete = "NodeComplete"
	// ReasonSuperseded: a Job was deleted that the record of the node does not name, or in whose place
	// another attempt starts.
	ReasonSuperseded = "JobSuperseded"
	// ReasonDeleted: a Job was deleted with its NodeWright.
	ReasonDeleted = "NodeWrightDeleted"
	// ReasonSpecChanged: a Job was deleted since the package changed.
	ReasonSpecChanged = "SpecChanged"
	ReasonComplete    = nodestate.SlotComplete
	// ReasonSlotErroring: of a slot that was given back: a package fails for good on the node. Change it, raise
	// retry.limit, or ask for a rerun.
	ReasonSlotErroring = "Erroring"
	ReasonBlocked      = nodestate.SlotBlocked
	// ReasonNotSelected: of a slot that was given back: the NodeWright does not select the node any more.
	ReasonNotSelected = "NotSelected"
	// ReasonIgnored: of a slot that was given back: the node carries the ignore label.
	ReasonIgnored = "Ignored"
	ReasonNoPath  = nodestate.SlotNoPath
	// ReasonMalformedState: of a slot that was given back: a record on the node cannot be read. Once you know
	// what is on the host, remove it or ask for a reset.
	ReasonMalformedState = "NodeStateMalformed"
	// ReasonInterrupt: the node is interrupted, for the packages that the message names.
	ReasonInterrupt = "Interrupt"
	// ReasonRebootTimeout: the node reports no new boot within stageTimeout of its interrupt. It heals by itself
	// when the node comes up; else look at the host and ask for a rerun.
	ReasonRebootTimeout = "RebootTimeout"
	// ReasonCordoned: the node was cordoned before its drain, or again since somebody ended that.
	ReasonCordoned = "Cordoned"
	// ReasonUncordoned: the cordon of the operator ended.
	ReasonUncordoned = "Uncordoned"
	// ReasonDrainTimeout: the node was not empty within drain.timeout, and stays cordoned. Ask for a rerun, or change
	// the package, to try again.
	ReasonDrainTimeout = "DrainTimeout"
	// ReasonDrainTooShort: a pod may take longer to end than drain.timeout allows.
	ReasonDrainTooShort = "DrainTimeoutTooShort"
	// ReasonUninstalled: packages were taken off the host.
	ReasonUninstalled = "Uninstalled"
)
