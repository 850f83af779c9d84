// Package logs writes what steps print: line by line, with the time, to the
// log of the container and to files on the host.
//
// A log that cannot be written must never fail a step.
package logs
