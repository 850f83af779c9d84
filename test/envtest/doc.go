// Package envtest proves on a real API server what depends on its behaviour:
// who owns a key, what an apply removes, what caches show and when. Nothing here
// runs against a fake client.
//
// All tests of the package share one control plane, which TestMain starts; each
// makes nodes and caches of its own.
package envtest
