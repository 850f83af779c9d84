// Package interrupt reads what the operator says about an interrupt of the
// host, and says which programs make it.
//
// The package is pure. It must not run anything.
package interrupt
