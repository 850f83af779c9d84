package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/manifests"
	"github.com/nodewright/nodewright/cmd/devcluster/webhooks"
)

// certificateLife is longer than any demo or test runs.
const certificateLife = 24 * time.Hour

// admission is how the API server asks the operator's process: the part of
// cert-manager is played here, with an authority that lives in memory.
type admission struct {
	port    int
	certDir string
	health  string
}

// settings are appended to the manager's configuration.
func (a *admission) settings() string {
	return fmt.Sprintf("health:\n  bindAddress: %q\nwebhook:\n  host: 127.0.0.1\n  port: %d\n  certDir: %s\n", a.health, a.port, a.certDir)
}

// render renders what ships, leads its webhooks to this machine, and makes the
// certificate that they are verified by.
func (o *Operator) render(ctx context.Context) ([]*unstructured.Unstructured, error) {
	text, err := o.Kubectl(ctx, "kustomize", filepath.Join(o.opts.Root, overlay))
	if err != nil {
		return nil, err
	}
	objects, err := manifests.Read(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	hosts, err := webhooks.Redirect(objects, o.admission.port)
	if err != nil {
		return nil, err
	}
	authority, err := webhooks.NewAuthority(time.Now(), certificateLife)
	if err != nil {
		return nil, err
	}
	if err := webhooks.Inject(objects, authority.CABundle()); err != nil {
		return nil, err
	}
	certificate, key, err := authority.Issue(time.Now(), certificateLife, hosts...)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		os.MkdirAll(o.admission.certDir, 0o700),
		os.WriteFile(filepath.Join(o.admission.certDir, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(o.admission.certDir, "tls.key"), key, 0o600),
	)
	if err != nil {
		return nil, fmt.Errorf("write certificate of the webhooks: %w", err)
	}
	return objects, nil
}

// Ready waits until the operator says that it is ready: its caches are filled,
// and the API server trusts its webhooks. Before that NodeWrights are refused.
func (o *Operator) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := controlplane.CheckHealth(ctx, "http://"+o.admission.health+"/readyz")
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-o.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("wait until the operator is ready: %w (%w); end of its log:\n%s", context.Cause(ctx), err, o.LogTail())
		}
	}
}

// readyTimeout is far longer than a start takes on a busy machine.
const readyTimeout = time.Minute
