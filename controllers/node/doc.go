// Package node is the controller that runs packages on a node: for each node
// it reads what stands there, asks the planner what comes next, writes the
// record, and then brings the Jobs in line with it.
//
// It owns the keys of the field manager nodewright-node and the package Jobs.
// It must not write keys of other owners, nor decide outside of the planner.
package node
