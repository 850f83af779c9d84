// Package node guards the keys of the contract on Nodes, for everybody: vnode
// refuses writes that change a key of the operator or make somebody its holder,
// mnode puts the runtime-required taint on new nodes and takes made-up keys off
// them.
//
// A decision is a pure function of the metadata of the old and the new object,
// of the user and of the field manager. It reads no NodeWright and no cache, so
// its cost depends on the node alone; only somebody who would be refused makes
// it ask the API server whether he may break the glass. What the API server lets
// pass without asking is said by the match conditions in config/webhook; they and
// this package follow the same rules.
//
// The package must not know how records come about, nor repair any: a write is
// admitted as it is, or refused.
package node
