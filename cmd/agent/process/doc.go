// Package process runs one program on the host and ends it when it is told to.
//
// The package must not know why the program runs.
package process
