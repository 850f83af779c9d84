// Package config reads config.json, in which a package says what runs in each
// mode. What it accepts is the schema v1 that packages have been written for.
//
// The package is pure. It must not look at the files of a package.
package config
