// Package drain reads the pods of a node from the API server, says of each
// whether a drain has to get rid of it, and evicts single pods. What can be
// evicted is decided by the filters of kubectl drain, so that a node is drained
// as people know it.
//
// It does one request at a time, and nothing twice: waiting, order, time limits
// and what to tell are the planner's. It must not decide whether a node is
// drained, and never retries.
package drain
