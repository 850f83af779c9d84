// Package v1alpha1 holds the kinds of the API group nodewright.nvidia.com:
// NodeWright, which says what to run on which hosts, and DeploymentPolicy,
// which says how fast.
//
// The comments of the fields are the reference that users read with kubectl
// explain: they give units, limits, defaults and what 0 means. Field names are
// those of existing manifests of the group.
//
// Whatever the schema admits must decode into these types: one stored object
// that does not would stop every informer of its kind. Durations therefore
// carry a pattern here, and hack/crdbounds bounds quantities, times and 32-bit
// numbers in the generated schema.
//
// The package must not hold logic beyond reading its own fields: validation is
// in apis/validation, decisions are the planners'.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package="../../../applyconfigs"
// +groupName=nodewright.nvidia.com
package v1alpha1
