// Package realnode runs real nodes on this machine: each is a kubelet with a
// containerd, in a mount and a PID namespace of its own, with a directory tree
// that its pods take for the host. Pods really run, as root.
//
// It owns the processes of a node, its files, its cgroups and, for as long as
// nodes run, the sysctls that kubelets change. Killing the first process of a node
// is a power cut: all processes and mounts of the node are gone at once, and
// Boot starts it again with what is on its disk, under another boot ID.
//
// A node is named by the loopback address that its kubelet listens on, since the
// API server has to reach it under its name and nothing here resolves names. Pods
// use the network of the machine (hostNetwork): there is no network plugin.
//
// The package must not know the operator, and must not change a file outside of
// its directory.
package realnode
