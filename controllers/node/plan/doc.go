// Package plan decides what happens next on one node. Compute is a pure
// function: no client, no context, no clock, no logger. Its Input holds what
// was observed, its Plan is data: the whole set of keys that the node
// controller wants on the node, Jobs to create, patch and delete, events, and
// the next time at which something is due.
//
// Every decision follows from observed facts (Jobs, reports, keys, the spec),
// at any pass and in any order of events. It must not depend on having seen an
// event, nor on conditions written earlier. Equal inputs give equal plans.
//
// The package imports apis only. Decoding belongs to gather, writing to the
// reconciler, pod specifications to the Job builder.
package plan
