// Package demo is make demo: it starts a control plane with simulated nodes,
// installs the operator, applies NodeWrights and shows how they roll out. With the
// samples it also runs a workload that has to leave nodes before they reboot, and
// uninstalls a package in the end.
//
// It uses what users use (kubectl, manifests, keys on nodes) and knows nothing
// of the inside of the operator. In the end it tells whether nodes and pods saw
// what they had to, and nothing else: facts.go.
package demo
