// Package validate checks the directory of a package for its author, before an
// image of it is built: all that would keep it from running, and what most
// likely means something else than it does.
//
// It must refuse nothing that the agent runs: what works but looks wrong is a
// warning.
package validate
