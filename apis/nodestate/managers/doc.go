// Package managers reads the managedFields of a Node: which keys of the
// contract a field manager owns there, and who else holds a key.
//
// It is the only package that decodes FieldsV1. It is pure, and reads only the
// entries that the question is about, since it runs for each reconcile.
//
// It must not decide who may own a key: that is apis/nodestate.
package managers
