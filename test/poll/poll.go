// Package poll waits, in tests, for what a server does by itself.
package poll

import (
	"testing"
	"time"
)

// every is how often a check is tried: short against what tests wait for, long
// against what a check costs.
const every = 20 * time.Millisecond

// Until tries check until it returns no error, and ends the test with its last
// one after patience.
func Until(t testing.TB, what string, patience time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
		time.Sleep(every)
	}
}
