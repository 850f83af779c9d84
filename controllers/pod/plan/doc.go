// Package plan tells from the pods of packages on one node which of them
// cannot start, and makes the reports of it.
//
// It is a pure function of the pods and of the reports that stand: no client,
// no context, no clock, no logger. What it needs to know and pods do not tell,
// the kubelet's words on volumes and sandboxes, it asks for.
//
// The package must not decide when a pod that cannot start counts as an error:
// that is the node controller's, after a grace period.
package plan
