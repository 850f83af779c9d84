// Package cases holds docs/cases.md against the tests that it names.
package cases
