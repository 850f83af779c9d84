// Package demo is make demo: it starts a control plane with simulated nodes,
// installs the operator, applies NodeWrights and shows how they roll out.
//
// It uses what users use (kubectl, manifests, keys on nodes) and knows nothing
// of the inside of the operator.
package demo
