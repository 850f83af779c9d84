// Package plan decides, for one NodeWright, which nodes get a slot next and
// what its status says. It is pure: equal inputs give equal plans, in whatever
// order the nodes come.
//
// A slot is permission to work for one revision. The package grants and renews
// slots; only a node gives one back. So a plan made from an old view of a node
// can be too careful, but never starts more nodes than the ceiling allows.
//
// Nodes are counted in compartments. Without a DeploymentPolicy there is one,
// the default compartment, whose ceiling is the interruptionBudget; the
// compartments of a policy join it in compartment.go.
//
// The package must not derive where packages stand on a node: it counts the
// status words that the node controller wrote.
package plan
