// Package host reads and writes files of the host below the root mount. It
// resolves every path as the host itself would: absolute links and ".." begin
// and end at the root mount, so that nothing outside of it can be reached. What
// is written as a file is there whole or not at all, also after a power cut.
//
// It needs openat2, which Linux has since 5.6.
//
// The package must not know what the files mean.
package host
