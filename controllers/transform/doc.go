// Package transform makes cached objects small: it drops what no controller
// reads before an informer stores it. A node of a large cluster carries 10 KB
// of image names and foreign managedFields, a package Job the whole pod
// template with the metadata of its node.
//
// What is dropped here is missing in every read from the cache. Who needs more
// of an object than is kept reads it from the API server, or keeps it here.
// Objects from the cache must never be written back as a whole.
package transform
