// Package rollout brings a NodeWright to its nodes: it grants slots, keeps the
// status and the finalizer of the NodeWright, and the ConfigMaps of its
// packages.
//
// A request is one NodeWright. A pass counts it anew from the cache, decides
// with the pure package plan, and carries the plan out in this order: finalizer,
// ConfigMaps, the next order in the status, grants, status. One worker makes all
// decisions, so that they never race with each other; what it granted counts
// before the cache shows it.
//
// The only keys it writes on nodes are batch_*. It must not read how far
// packages are on a node, but for the few nodes that the status names.
package rollout
