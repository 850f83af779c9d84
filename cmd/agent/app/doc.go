// Package app is the agent: it takes the arguments that the operator passes,
// runs the steps of one mode of a package, or an interrupt, and says in its exit
// code how that went.
package app
