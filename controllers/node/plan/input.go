package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// Input is everything a plan for one node follows from. It is read-only.
type Input struct {
	Now  time.Time
	Node Node
	// NextSeq is the number that the next apply of the node controller carries on
	// this node; runs that start in this pass take it as their number.
	NextSeq int64
	// Record is what stands on the node, not older than the controller's own last
	// write.
	Record nodestate.Record
	// NodeWrights that select the node or have keys on it, in any order.
	NodeWrights []NodeWright
	// Gone are names of NodeWrights with keys on the node that no longer exist, as
	// a live read answered.
	Gone []string
	// Jobs of the operator on this node. Those that the record names are not older
	// than the controller's own last write of them.
	Jobs []Job
	// Executors are packages with a pod on the node that has not ended and whose
	// Job is not among Jobs.
	Executors []nodestate.PackageRef
	// Refused are Jobs that the API server did not take, by package.
	Refused map[nodestate.PackageRef]Refusal
	// Taints are those of Config.Taints that stand on the node.
	Taints []corev1.Taint
	// Pods on the node that its drain has to do with, by NodeWright, read from the
	// API server for this plan. A NodeWright for which nobody looked is missing: the
	// plan names it in Look where that matters.
	Pods map[string][]Pod
	// LastReplica says that the node runs a ready replica of the operator and no
	// other node does. Known where Pods are.
	LastReplica bool
	// ConfigInterrupts are the strongest of the configInterrupts that match a key
	// in which the configMap of the spec differs from that of the entry. Packages
	// without a match are missing.
	ConfigInterrupts map[nodestate.PackageRef]nodestate.Interrupt
	Config           Config
}

// Refusal is why the API server did not take a Job.
type Refusal struct {
	Job packagejob.Identity
	// Message is a sentence; RetryAt is when to try again.
	Message string
	RetryAt time.Time
}

// Pod is a pod that has to be gone before the node is interrupted.
type Pod struct {
	// Name is namespace and name, as kubectl has it.
	Name string
	UID  string
	// NonInterrupt says that podNonInterruptLabels select the pod: nothing is evicted
	// before it has left by itself.
	NonInterrupt bool
	// Stays says that the pod is in the way of nothing but by NonInterrupt.
	Stays bool
	// Holds is the sentence why the settings of the drain do not let the pod be
	// evicted; empty if they do.
	Holds string
	// Terminating says that its end has begun.
	Terminating bool
	// GraceSeconds is the longest time that the pod takes to end.
	GraceSeconds int64
	// Refused is the sentence why the last eviction did not begin the end of the pod;
	// empty if there was none. Blocked says that PodDisruptionBudgets are the cause.
	// RetryAt is when to try again.
	Refused string
	Blocked bool
	RetryAt time.Time
}

// Config are the limits of the manager configuration.
type Config struct {
	// PodStartGrace is how long a pod may fail to start before the package shows
	// as erroring.
	PodStartGrace time.Duration
	// BackoffBase is the wait before the first retry, doubled for each further one
	// up to BackoffMax.
	BackoffBase time.Duration
	BackoffMax  time.Duration
	// Taints keep workloads off nodes that are not set up. The first is the one that
	// the operator puts; without any, taints are left alone.
	Taints []corev1.Taint
	// NewNode is how long after its creation a node may still get the first of them.
	NewNode time.Duration
	// ReapplyOnReboot starts packages anew on a node that was rebooted by others.
	ReapplyOnReboot bool
}

// Node is the node that is planned for.
type Node struct {
	Name string
	UID  string
	// BootID changes with each boot.
	BootID string
	// Unreachable says that the Ready condition is Unknown: nobody knows what runs
	// there, so no attempt starts.
	Unreachable bool
	// Ready says that the Ready condition is True.
	Ready bool
	// Unschedulable says that the node is cordoned, by whomever.
	Unschedulable bool
	// HeldByOthers says that somebody else holds the cordon as well.
	HeldByOthers bool
	// Ignored says that the node carries the ignore label.
	Ignored bool
	// Created is when the node came into being, by the API server's clock.
	Created time.Time
}

// NodeWright is one NodeWright as far as this node is concerned.
type NodeWright struct {
	Name     string
	UID      string
	Priority int32
	// Selected says that the selector matches the node.
	Selected bool
	// Deleting says that it has a deletion timestamp.
	Deleting bool
	Paused   bool
	Disabled bool
	// Held names a feature that the NodeWright uses and this operator does not
	// have: nothing starts, and later NodeWrights go on.
	Held string
	// Serial runs packages one at a time on a node.
	Serial bool
	// AllFirst says that later NodeWrights wait until this one is complete on all
	// nodes; Everywhere says that it is, for the spec of now.
	AllFirst   bool
	Everywhere bool
	// DrainTimeout bounds the drain of the node, 0 for no bound.
	DrainTimeout time.Duration
	// RuntimeRequired keeps workloads off a node until the NodeWright is complete
	// there; AutoTaint asks for the taint on new nodes.
	RuntimeRequired bool
	AutoTaint       bool
	// Created is when the NodeWright came into being.
	Created time.Time
	// Revision of the packages, as the rollout controller computes it.
	Revision string
	// RetryLimit is how many failed attempts are followed by another one.
	RetryLimit int32
	Packages   []Package
}

// Package is one package of the spec.
type Package struct {
	Name         string
	Version      string
	Image        string
	ContainerSHA string
	ConfigHash   string
	// SpecHash identifies the rest of what an attempt runs.
	SpecHash string
	// StageTimeout of one attempt; 0 means no bound.
	StageTimeout time.Duration
	// DependsOn maps package names to the version that must be complete.
	DependsOn map[string]string
	// Interrupt of the package, nil for none.
	Interrupt *nodestate.Interrupt
	// CanUninstall says that the package has an uninstall stage, Uninstall that it is
	// to be taken off now. A NodeWright that is being deleted takes off all that can.
	CanUninstall bool
	Uninstall    bool
}

// JobState is how far a Job has come.
type JobState int

// The Job states. A Job ends with its terminal condition only.
const (
	JobUnfinished JobState = iota
	JobSucceeded
	JobFailed
)

// Job is a Job of the operator on the node.
type Job struct {
	Name string
	UID  string
	// Identity of the attempt; not set if Unreadable.
	Identity packagejob.Identity
	// Unreadable says that the Job does not say what it runs.
	Unreadable bool
	State      JobState
	// Deleting says that it has a deletion timestamp, Ending that it is going to fail
	// as soon as its pods have ended.
	Deleting bool
	Ending   bool
	// Suspended says that it gets no pods until somebody resumes it, Idle that those
	// it had are gone. Held says that the operator suspended it.
	Suspended bool
	Idle      bool
	Held      bool
	// DeadlineSeconds is its activeDeadlineSeconds, nil for none.
	DeadlineSeconds *int64
}

// Plan is what to do, in this order: bring the node's keys and its cordon to Set,
// remove the requests that it answers, then the Jobs and evictions, then the
// events. Slices are sorted.
type Plan struct {
	// Look names NodeWrights whose Pods decide: the plan has to be computed again
	// with them, and is not to be carried out.
	Look []string
	// Set is all that the node controller wants on the node.
	Set    nodestate.Set
	Create []JobCreate
	Patch  []JobDeadline
	Hold   []JobHold
	Delete []JobDelete
	Events []Event
	// Taints to put on before Set is brought to the node, or to take off once it
	// stands there.
	Taints Taints
	// Remember says that the number of the node controller has to stay although
	// nothing else of it does: it tells of a taint that has to go some day.
	Remember bool
	// Evict are pods whose end is to begin. The cordon stood on the node as read.
	Evict []Eviction
	// Answered are requests of users that Set has dealt with.
	Answered []RequestAnswered
	// NextCheck is the nearest time at which something is due, zero for none.
	NextCheck time.Time
}

// JobCreate asks for the Job of one attempt.
type JobCreate struct {
	Identity packagejob.Identity
	// SpecHash, ConfigHash, Image and ContainerSHA are those of the entry.
	SpecHash     string
	ConfigHash   string
	Image        string
	ContainerSHA string
	// DeadlineSeconds is nil for none.
	DeadlineSeconds *int64
	// Order of the node in the rollout, from 0.
	Order int32
	// BootID at the start of the stage.
	BootID string
	// Interrupt of a stage that interrupts the node, nil for the others.
	Interrupt *nodestate.Interrupt
	// Unsure says that an earlier Job of the package is gone, and nobody saw how it
	// ended: caches of Jobs and pods are not ordered, so a pod of it may run that
	// the cache does not show. Only the API server can tell.
	Unsure bool
	// Again says that the record named this Job already, and it was not there.
	Again bool
}

// Eviction asks for the end of one pod, for a NodeWright that has to empty the
// node.
type Eviction struct {
	NodeWright string
	Pod        string
	UID        string
}

// JobDeadline changes the deadline of a running Job in place.
type JobDeadline struct {
	Name string
	UID  string
	// DeadlineSeconds is nil for none.
	DeadlineSeconds *int64
}

// RequestAnswered is a request key to remove, as long as it has this value.
type RequestAnswered struct {
	Key   string
	Value string
}

// JobHold suspends a Job that runs, which ends its pods, or lets it go on.
type JobHold struct {
	Name string
	UID  string
	// NodeWright and Package that the Job belongs to.
	NodeWright string
	Package    string
	Suspend    bool
	Message    string
}

// JobDelete ends a Job, with its pods, under precondition of its UID.
type JobDelete struct {
	Name string
	UID  string
	// NodeWright and Package that the Job belongs to.
	NodeWright string
	Package    string
	Reason     string
	Message    string
}

// Event is told to the user on the NodeWright, related to the node.
type Event struct {
	NodeWright string
	// Package that it is about, empty for all of the NodeWright.
	Package string
	Warning bool
	Reason  string
	Message string
}
