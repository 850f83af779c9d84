// Package revision names contents by hashes: what a NodeWright puts on hosts
// (the rollout revision) and what a package's configMap holds.
//
// The rollout controller grants nodes permission to work for one revision, the
// node controller works only for the revision of the spec it sees. Both must
// come to the same name from the same spec, so the names are made here and
// nowhere else.
//
// The package is pure. A name says nothing about runs: going from one content
// to another and back gives the first name again.
package revision
