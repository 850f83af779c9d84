// Package admission tests the admission that ships on a real API server: the
// objects of config/default are installed as they are rendered, and the webhooks
// of this project answer under the names in there. What differs from a cluster:
// the Service of the webhooks leads to this process, under another port, and the
// suite makes certificates and injects the CA, as cert-manager would.
//
// Tests tell apart whether a request was sent to a webhook and what became of it:
// a request that should have passed without a call is a failure, also where the
// webhook would have admitted it.
package admission
