// Package validation says what is right and wrong in the objects and the
// configuration of NodeWright, as lists of errors with field paths. Admission
// and the manager at its start use the same functions, so that one limit
// cannot be two.
//
// The package is pure. Every message says what is wrong, what is allowed, and
// where it helps why.
package validation
