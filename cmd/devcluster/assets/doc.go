// Package assets provides the binaries of the local control plane: kube-apiserver, etcd, kube-controller-manager, kubectl and
// kwok, each in exactly one version; for tests that name them, also kubelet, kube-scheduler and cert-manager's.
//
// It owns the list of components and their versions (components.go), the order of sources and the cache directory. Sources, in
// this order, for each component that the cache lacks:
//
//  1. the directory that KUBEBUILDER_ASSETS names, for what is there in the right version;
//  2. the official release, verified with the checksum that its project publishes, if the server answers a probe within 3 s;
//  3. a build from Go modules: hack/kube, hack/etcd, hack/kwok and hack/certmanager pin them, go.sum verifies them.
//
// A binary gets into the cache only after it has named its version itself, and only by rename: what is there is complete.
//
// The package uses the standard library alone, so that it compiles in seconds on a machine whose Go cache is empty. It must not
// import anything else of this project, start a server or write outside the cache directory (the Go tool's own caches aside).
package assets
