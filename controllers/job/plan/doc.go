// Package plan decides what becomes of the Jobs of one node: which failed
// attempt needs evidence, which finished Job the record has left behind, which
// Job belongs to a node that is gone. It also makes the evidence from what is
// left of an attempt.
//
// Everything here is a pure function of what was observed: no client, no
// context, no clock, no logger. Reports follow from the Jobs and the nodeState
// keys of the node each time anew and are never counted up, so that a pass more
// or less changes nothing.
//
// The package must not decide how a package goes on: that is the node
// controller's, from the evidence made here.
package plan
