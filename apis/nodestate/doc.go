// Package nodestate is the annotation contract of NodeWright: the keys under
// the prefix nodewright.nvidia.com/ on a Node, the form of their values, and
// the one field manager that owns each of them.
//
// It is the only place that knows these names and values. Controllers,
// admission webhooks, the command line and the documentation use it, so that a
// key can not be spelled in two ways.
//
// The package is pure: no client, no clock, no logger. Parsing never panics
// and never drops silently: what cannot be read is reported as Malformed and
// carried on byte for byte.
//
// It must not know controllers, nor decide anything about the life of a
// package: that is the planner's.
package nodestate
