// Package wake says which node a changed object concerns, whether a change of
// a node's keys matters, and how long a queue waits after an error: what all
// controllers that are keyed by node share.
//
// It must not know what controllers do with a request.
package wake
