// Package record keeps on the host which steps were done, and which versions
// of a package were there. It is what decides that a step is not run again, so
// a record is whole or not there, and names what it was made for.
//
// The package must not run anything.
package record
