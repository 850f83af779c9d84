// Package faults are wrappers of a client's transport for tests and
// benchmarks: they count the requests that write (Counter), let requests fail
// before or after they took effect (Injector), and hold back what a watch
// delivers (Lag).
//
// Each has a method Wrap for rest.Config.Wrap, so that a real client, cache and
// API server are between the fault and the code under test. What is wrapped last
// is asked first.
//
// The package must not know the operator or its objects.
package faults
