// Package webhooks lets the API server of a local control plane ask a manager
// that runs outside of it: the webhook configurations that ship are led to a port
// of this machine, and certificates are made without cert-manager.
//
// What is changed is as little as can be: the Service becomes a name for
// localhost, the port of the webhooks another one. Names, paths, rules and match
// conditions stay, and the API server verifies the certificate for the name of
// the Service.
//
// It is for demo and tests. In a cluster cert-manager makes the certificates.
package webhooks
