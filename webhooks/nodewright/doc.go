// Package nodewright is admission of NodeWrights: a mutating webhook that fills
// in what a user may leave out, and a validating one that refuses what cannot
// work. All rules are in apis/validation; here is only what they need from the
// cluster.
//
// The package must not write anything, nor decide from the manager's
// configuration what is written into an object: two replicas, or an old and a
// new one, would then undo each other. So stageTimeout and jobTTL, whose
// defaults are configured, are left out of objects and taken from the
// configuration where they are used; constant defaults are in the schema.
package nodewright
