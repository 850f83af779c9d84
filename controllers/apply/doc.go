// Package apply writes Nodes: it is the only package that does. A Writer
// stands for one field manager of apis/nodestate.
//
// A manager's keys on a node are one set. An apply names the whole set and the
// UID of the node; what it leaves out is removed. So the package owns what makes
// whole sets safe:
//
//   - reads that are never older than the writer's own last write;
//   - a live read after a write whose outcome is not known;
//   - a number (seq_<controller>) that grows with every apply on a node, so that
//     a late request can be told from a current one;
//   - no write while values and ownership are as wanted;
//   - removal that is verified, also where others hold the key too;
//   - changes of taints, whose list is one value to the API server, in one function;
//   - the barrier that a new leader waits at before its first read.
//
// A controller reads a View, decides, and applies a set: nothing else. Applies
// are forced: the table of owners says whose a key is, so there is no conflict
// to ask anybody about.
//
// The package must not decide what stands in a set, read caches other than of
// nodes, or touch a field that is not in the contract. It does not retry: the
// queue of the controller does.
package apply
