package plan

import "github.com/nodewright/nodewright/apis/nodestate"

// Reasons on entries, slots and events.
const (
	ReasonBackOff        = "BackOff"
	ReasonJobNameTaken   = "JobNameTaken"
	ReasonRemoved        = "RemovedFromSpec"
	ReasonUnreachable    = "NodeUnreachable"
	ReasonWaiting        = "Waiting"
	ReasonPaused         = "Paused"
	ReasonRequested      = "Requested"
	ReasonRequestRefused = "RequestRefused"
	ReasonDisabled       = "Disabled"
	ReasonAttemptFailed  = "AttemptFailed"
	ReasonAttemptLost    = "AttemptReplaced"
	ReasonErroring       = "PackageErroring"
	ReasonNodeComplete   = "NodeComplete"
	ReasonSuperseded     = "JobSuperseded"
	ReasonDeleted        = "NodeWrightDeleted"
	ReasonSpecChanged    = "SpecChanged"
	ReasonComplete       = nodestate.SlotComplete
	ReasonSlotErroring   = "Erroring"
	ReasonBlocked        = "Blocked"
	ReasonNotSelected    = "NotSelected"
	ReasonIgnored        = "Ignored"
	ReasonNoPath         = nodestate.SlotNoPath
	ReasonMalformedState = "NodeStateMalformed"
	ReasonInterrupt      = "Interrupt"
	ReasonRebootTimeout  = "RebootTimeout"
	ReasonCordoned       = "Cordoned"
	ReasonUncordoned     = "Uncordoned"
	ReasonDrainTimeout   = "DrainTimeout"
	ReasonDrainTooShort  = "DrainTimeoutTooShort"
	ReasonUninstalled    = "Uninstalled"
)
