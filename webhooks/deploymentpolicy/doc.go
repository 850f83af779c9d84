// Package deploymentpolicy is admission of DeploymentPolicies: a validating
// webhook that refuses one that cannot work, and the deletion of one that a
// NodeWright names. All rules are in apis/validation.
//
// The package must not write anything.
package deploymentpolicy
