package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// certificateRetry is the pause between looks for a certificate that is not
// there yet.
const certificateRetry = time.Second

// errNoCertificate says that there is nothing to serve admission with.
var errNoCertificate = errors.New("no certificate yet")

// certificate is what admission is served with: tls.crt and tls.key of a
// directory. They may come after the manager, as when cert-manager is installed
// in the same run, and are read again when they change.
type certificate struct {
	dir     string
	watcher atomic.Pointer[certwatcher.CertWatcher]
	// unread is why the files could not be read at the last look.
	unread atomic.Pointer[error]
}

// NeedLeaderElection says that every replica has it.
func (*certificate) NeedLeaderElection() bool { return false }

// Start waits for the files and follows them until ctx ends.
func (c *certificate) Start(ctx context.Context) error {
	said := false
	err := wait.PollUntilContextCancel(ctx, certificateRetry, true, func(ctx context.Context) (bool, error) {
		watcher, err := certwatcher.New(filepath.Join(c.dir, "tls.crt"), filepath.Join(c.dir, "tls.key"))
		if err != nil {
			c.unread.Store(&err)
			if !said {
				log.FromContext(ctx).Info("waiting for the certificate of admission", "directory", c.dir, "reason", err.Error())
				said = true
			}
			return false, nil
		}
		c.watcher.Store(watcher)
		return true, nil
	})
	if err != nil {
		// The manager ends before there was a certificate.
		return nil //nolint:nilerr // only the end of ctx ends the wait
	}
	if err := c.watcher.Load().Start(ctx); err != nil {
		return fmt.Errorf("follow certificate: %w", err)
	}
	return nil
}

// current is the certificate that connections get from now on, errNoCertificate
// if there is none.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	watcher := c.watcher.Load()
	if watcher == nil {
		return nil, c.missing()
	}
	return watcher.GetCertificate(nil)
}

// missing says why there is no certificate, and what to do.
func (c *certificate) missing() error {
	if unread := c.unread.Load(); unread != nil && !errors.Is(*unread, fs.ErrNotExist) {
		return fmt.Errorf("%w: it cannot be read: %w: the user of the manager must be able to read the files, see fsGroup and runAsUser of its pod",
			errNoCertificate, *unread)
	}
	return fmt.Errorf("%w in %s: cert-manager makes it, look at the Certificate and at its Secret", errNoCertificate, c.dir)
}
