// Package oci makes image archives without a registry and without a daemon: a
// tar of an OCI image layout, which `ctr images import`, `crane push` and other
// tools read. It owns what the images of the manager, of the agent and of
// packages hold.
//
// Equal inputs give equal digests on every machine: files have fixed times,
// belong to user 0 unless said otherwise, and keep of their modes only whether
// they can be executed, as in git. Layers are not compressed, so that no
// version of a compressor is in the digest.
package oci
