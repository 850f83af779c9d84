// Package packagejob says what a package Job and its pod carry: labels,
// annotations, the identity of the attempt and the name that follows from it.
//
// The controllers that create Jobs, record them and watch their pods all use
// it, so that writer and lists cannot disagree.
//
// The package is pure. It must not build pod specs, nor decide what a Job
// means for a package.
package packagejob
