// Package e2e runs real packages on real nodes: kubelets with containerd, the
// operator as config/overlays/dev deploys it, in the cluster, with certificates
// from a real cert-manager. What packages do is looked up in the directory trees
// that the nodes take for their hosts.
//
// `make e2e` runs it, on Linux, as root. Without the flag -e2e nothing runs: it
// starts containers and makes cgroups, which go test ./... should not do by
// itself.
//
// Node first has the manager; what interrupts a node is done on node second. Tests
// that need one node only run beside each other, with a lease of it. Both nodes
// have the network of this machine, on which servers listen on the loopback only.
package e2e
