// Package system runs the whole operator, a process of its own, against
// everything that may happen to it: packages that fail, a hostile writer on the
// same nodes, restarts and kill -9 at any time, requests that are refused or
// whose answers are lost. What must hold is read from the watch history of the
// nodes and from the Jobs, not from the operator.
package system
