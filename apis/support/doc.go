// Package support knows which features of the API this version of the operator
// does not carry out. A NodeWright that uses one is held as a whole: half of
// what it asks for, as a package without its interrupt, would be worse than
// nothing.
//
// The rollout controller grants such a NodeWright no slot and says why; the
// node controller starts nothing of it. Both ask this package. A feature leaves
// the list in the change that builds it.
package support
