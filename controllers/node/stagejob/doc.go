// Package stagejob builds the Job of one attempt of one stage: what a package
// and its agent find when they run on a host. Packages and agents that exist
// depend on these names, mounts and variables.
//
// The package is pure: equal requests give equal Jobs. It must not decide
// whether or when a Job is created.
package stagejob
