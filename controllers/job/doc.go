// Package job is the controller that turns the ends of package Jobs into what
// the node controller and users need: evidence of failed attempts under
// jobState keys on the node, and the recorded mark with a TTL on Jobs that the
// record has left behind. It also deletes Jobs of nodes that are gone.
//
// It works by node: all Jobs of a node in one pass, one pass at a time for a
// node, many nodes at once. A Job that cannot be dealt with does not hold back
// the others of its node.
//
// It must not write any key of another controller, nor decide how a package
// goes on. It never deletes a Job of a node that exists.
package job
