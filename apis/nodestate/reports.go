package nodestate

import (
	"errors"
	"fmt"
	"time"
)

const (
	// MaxLogTail is the longest log tail of a JobReport, in bytes of valid UTF-8.
	MaxLogTail = 1 << 10
	// MaxReportValue is the largest report value that is read, in bytes. JSON
	// writes a control character in six bytes, so that log tail and message take
	// up to 7,680 and names, the longest of 253, come on top.
	MaxReportValue = 12 << 10
	// MaxSmallValue is the largest value of the other keys, in bytes.
	MaxSmallValue = 4 << 10
)

// JobReport is evidence of a failed attempt: the one that the nodeState key of
// the same package names. Fields are in the order of their JSON names.
type JobReport struct {
	// Attempt, Run, Stage and Version say which attempt failed.
	Attempt int32 `json:"attempt"`
	// ExitCode of the container that failed, if one ran.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// FinishedAt and StartedAt are RFC 3339 times in UTC.
	FinishedAt string `json:"finishedAt,omitempty"`
	// Harmless says that the attempt did not fail by the package's own doing, and
	// does not use up a retry: rejected by the kubelet before anything ran,
	// deleted, evicted, suspended, or a deadline passed on an unreachable node.
	Harmless bool `json:"harmless,omitempty"`
	// Job is the name of the Job.
	Job string `json:"job"`
	// LogTail is the end of the log of the container that failed, valid UTF-8, at
	// most MaxLogTail bytes.
	LogTail string `json:"logTail,omitempty"`
	// Message says in words what Reason says, at most MaxMessage bytes.
	Message string `json:"message,omitempty"`
	// Name of the package and NodeWright, in full.
	Name       string `json:"name"`
	NodeWright string `json:"nodewright"`
	// Reason in CamelCase: the reason of the container, the pod or the Job.
	Reason    string `json:"reason"`
	Run       int64  `json:"run"`
	Stage     Stage  `json:"stage"`
	StartedAt string `json:"startedAt,omitempty"`
	Version   string `json:"version"`
}

// Of tells whether the report is about the attempt that the entry names.
func (r *JobReport) Of(s *PackageStatus) bool {
	return r.NodeWright == s.NodeWright && r.Name == s.Name && r.Version == s.Version &&
		r.Stage == s.Stage && r.Run == s.Run && r.Attempt == s.Attempt
}

// Validate checks what every report must hold.
func (r *JobReport) Validate() error {
	var errs []error
	if !r.Stage.Known() {
		errs = append(errs, fmt.Errorf("stage %s is not known", quote(string(r.Stage))))
	}
	if r.Job == "" || r.Reason == "" {
		errs = append(errs, errors.New("job and reason are required"))
	}
	if r.Run < 0 || r.Attempt < 0 {
		errs = append(errs, errors.New("run and attempt must not be negative"))
	}
	return errors.Join(errs...)
}

// PodReport says that a pod of a package cannot start. Fields are in the order
// of their JSON names.
type PodReport struct {
	// Job the pod belongs to.
	Job string `json:"job"`
	// Message of the kubelet, at most MaxMessage bytes.
	Message string `json:"message,omitempty"`
	// Name of the package and NodeWright, in full.
	Name       string `json:"name"`
	NodeWright string `json:"nodewright"`
	// Pod is the name of the pod that waits, empty where the Job gets none.
	Pod string `json:"pod"`
	// Reason in CamelCase, like ImagePullBackOff.
	Reason string `json:"reason"`
	// WaitingSince is the RFC 3339 time in UTC since when a pod of this Job waits
	// for any such reason.
	WaitingSince string `json:"waitingSince"`
}

// Reasons of a PodReport of a Job that gets no pod.
const (
	// PodFailedCreate is that of the events of Jobs whose pods the API server does not
	// take.
	PodFailedCreate = "FailedCreate"
	// PodJobNotBegun is said of a Job that Kubernetes has not begun.
	PodJobNotBegun = "JobNotBegun"
)

// Validate checks what every report must hold.
func (r *PodReport) Validate() error {
	if r.Reason == "" {
		return errors.New("reason is required")
	}
	if _, err := ParseTime(r.WaitingSince); err != nil {
		return fmt.Errorf("parse waitingSince: %w", err)
	}
	return nil
}

// Batch grants a node a slot in the rollout of a NodeWright. It stays when the
// slot is given back, since it holds the node's order.
type Batch struct {
	// Batch is the number of the batch in its compartment, from 1.
	Batch int32 `json:"batch"`
	// Compartment of the deployment policy, or __default__.
	Compartment string `json:"compartment,omitempty"`
	// ID of the grant; a later grant has another one.
	ID string `json:"id"`
	// NodeWright, in full.
	NodeWright string `json:"nodewright"`
	// Order is the position of the node in the rollout, from 0, never reused.
	Order int32 `json:"order"`
	// Rollout is the revision that the slot is for.
	Rollout string `json:"rollout"`
	// UID of the NodeWright.
	UID string `json:"uid,omitempty"`
}

// SlotState says what the node makes of a slot.
type SlotState string

// The slot states.
const (
	// SlotWorking means: packages may run.
	SlotWorking SlotState = "working"
	// SlotReleased means: the node gives the slot back.
	SlotReleased SlotState = "released"
)

// SlotRetryWanted is the Reason of a released slot whose node has work again
// for the same revision, and asks for another slot.
const SlotRetryWanted = "RetryWanted"

// SlotComplete is the Reason of a released slot whose node is complete for the
// revision that the slot was for. The status word alone may be about another
// revision, for which there was nothing to do.
const SlotComplete = "Complete"

// SlotSuperseded is the Reason of a released slot of a node that was complete for
// the revision of the slot, once the spec asks for another one.
const SlotSuperseded = "Superseded"

// SlotNoPath is the Reason of a released slot with which nothing can be done: a
// package waits for another one that is not complete on the node at the version
// that dependsOn names.
const SlotNoPath = "DependencyUnsatisfied"

// SlotExecutorNotEnded is the Reason of a working slot whose node waits for the
// end of a Job or pod that works in the directory of a package: one of a node
// that had the name before, or a pod whose Job was taken away. See kubectl get pods
// in the operator's namespace.
const SlotExecutorNotEnded = "ExecutorNotEnded"

// SlotJobSuspended is the Reason of a working slot whose node waits for a Job
// that somebody suspended. Set its spec.suspend to false, or delete it.
const SlotJobSuspended = "JobSuspended"

// SlotJobHeld is the Reason of a working slot whose node waits with a Job that
// was suspended for a pause until it may go on.
const SlotJobHeld = "JobHeld"

// SlotBackOff is the Reason of a working slot whose node waits until the next
// attempt of a stage that failed may start.
const SlotBackOff = "BackOff"

// SlotJobRefused is the Reason of a working slot whose node waits with a stage
// since the API server does not take its Job, with a Message that says why.
const SlotJobRefused = "JobRefused"

// SlotPodNotStarting is the Reason of a working slot on whose node the pod of a
// stage cannot start, as long as that may pass by itself.
const SlotPodNotStarting = "PodNotStarting"

// SlotPackageWaits is the Reason of a working slot on whose node a package waits
// for other packages of the same NodeWright, as dependsOn or serial ask for. The
// node gets on, so it is not held up.
const SlotPackageWaits = "PackageWaits"

// Reasons of a working slot whose node is being emptied before it is
// interrupted, with a Message that names what is waited for.
const (
	// SlotDraining: pods are being evicted, and end.
	SlotDraining = "Draining"
	// SlotDrainBlocked: pods cannot be evicted, for a PodDisruptionBudget or for the
	// settings of the drain. Add replicas, loosen the budget, or delete the pod.
	SlotDrainBlocked = "DrainBlocked"
	// SlotNonInterruptPods: pods that podNonInterruptLabels select have to leave by
	// themselves first, or you end them; there is no time limit.
	SlotNonInterruptPods = "NonInterruptPods"
	// SlotLastReplica: the node runs the last ready replica of the operator, which
	// has to be ready elsewhere first.
	SlotLastReplica = "LastReplica"
	// SlotInterruptWaits: the node is to be interrupted once Jobs of other NodeWrights
	// have ended there, or it is being interrupted for another one. A record that the
	// message names and that cannot be read has to be reset.
	SlotInterruptWaits = "InterruptWaits"
	// SlotNoBootID: the node does not report a boot ID, without which nobody can tell
	// whether it was rebooted. Repair it, or use another type of interrupt.
	SlotNoBootID = "NoBootID"
)

// Reasons of a slot, given back or not, whose node may start nothing for the
// NodeWright, with a Message. Of a node that was never granted a slot they stand
// on one without ID, as given back.
const (
	// SlotBlocked: another NodeWright comes first on the node, or the NodeWright asks
	// for what the operator does not have.
	SlotBlocked = "Blocked"
	// SlotUnreachable: the Ready condition of the node is Unknown, so that no attempt
	// starts.
	SlotUnreachable = "NodeUnreachable"
	// SlotPaused: the NodeWright is paused.
	SlotPaused = "Paused"
	// SlotDisabled: the NodeWright is disabled.
	SlotDisabled = "Disabled"
)

// Slot answers a Batch. Only the node gives a slot back.
type Slot struct {
	// ID of the Batch this answers; empty where there is none.
	ID string `json:"id"`
	// Message is a sentence on Reason, at most MaxMessage bytes.
	Message string `json:"message,omitempty"`
	// NodeWright, in full.
	NodeWright string `json:"nodewright"`
	// Reason in CamelCase why the slot was given back, or what the node that works
	// waits for.
	Reason string `json:"reason,omitempty"`
	// Since when the node waits for Reason, RFC 3339 in UTC; only with a Message.
	Since string `json:"since,omitempty"`
	// State of the slot.
	State SlotState `json:"state"`
}

// Holds tells whether the slot granted by b is in use: granted and not given
// back. slot may be nil, when the node has not answered yet.
func (b *Batch) Holds(slot *Slot) bool {
	return slot == nil || slot.ID != b.ID || slot.State != SlotReleased
}

// LegacyPhase is the phase of the migration of a NodeWright on a node.
type LegacyPhase string

// The migration phases.
const (
	LegacyConverging LegacyPhase = "converging"
	LegacyPruned     LegacyPhase = "pruned"
)

// Action that a user asks for.
type Action string

// The actions.
const (
	// ActionRerun runs a package again, from Request.Stage if given.
	ActionRerun Action = "rerun"
	// ActionReset forgets the entry and starts anew.
	ActionReset Action = "reset"
)

// Request of a user, written by the command line, consumed by the node
// controller.
type Request struct {
	Action Action `json:"action"`
	ID     string `json:"id"`
	// NodeWright and Package, in full; needed where the key is of the hashed form.
	NodeWright string `json:"nodewright,omitempty"`
	Package    string `json:"package,omitempty"`
	Stage      Stage  `json:"stage,omitempty"`
}

// FormatTime writes a time as the contract has it: RFC 3339, UTC, whole
// seconds.
func FormatTime(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }

// ParseTime reads a time of the contract, in UTC.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if t = t.UTC(); err != nil || t.Year() < 0 || t.Year() > 9999 {
		// In UTC the year may leave the four digits that the format has.
		return time.Time{}, fmt.Errorf("%s is not an RFC 3339 time", quote(s))
	}
	return t, nil
}
