// Package manifests renders what lies in config, as a user would who runs
// kubectl apply -k, and finds objects in it. Its tests check that names which
// have to agree do so, also under another namespace and prefix; tests that need
// an API server take their objects from here, so that they run on what ships.
//
// The package must not know what a test wants, nor change what it renders.
package manifests
