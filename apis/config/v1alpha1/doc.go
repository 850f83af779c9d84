// Package v1alpha1 is the configuration file of the manager, read once at
// start.
//
// It owns the form of the file and its defaults. What is right and wrong in it
// is said by package validation, with the limits that admission uses too.
package v1alpha1
