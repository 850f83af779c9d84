package certmanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// kubelet keeps the files of a mounted Secret up to date, as kubelets do: it looks
// from time to time, and exchanges all files at once. While the Secret is away the
// files stay.
type kubelet struct {
	client  kubernetes.Interface
	secret  string
	dir     string
	every   time.Duration
	mounted atomic.Int64
	version string
}

// run mounts until ctx ends.
func (k *kubelet) run(ctx context.Context) error {
	for {
		secret, err := k.client.CoreV1().Secrets(namespace).Get(ctx, k.secret, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("mount %s: %w", k.secret, err)
		case secret.ResourceVersion != k.version && len(secret.Data[corev1.TLSCertKey]) > 0:
			if err := k.exchange(secret); err != nil {
				return fmt.Errorf("mount %s: %w", k.secret, err)
			}
			k.version = secret.ResourceVersion
			k.mounted.Add(1)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(k.every):
		}
	}
}

// exchange writes the files into a new directory and leads the links there: the
// layout that programs find in a mounted volume.
func (k *kubelet) exchange(secret *corev1.Secret) error {
	fresh := "..v" + secret.ResourceVersion
	if err := os.MkdirAll(filepath.Join(k.dir, fresh), 0o700); err != nil {
		return err
	}
	for name, data := range secret.Data {
		if err := os.WriteFile(filepath.Join(k.dir, fresh, name), data, 0o600); err != nil {
			return err
		}
		err := os.Symlink(filepath.Join("..data", name), filepath.Join(k.dir, name))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	next := filepath.Join(k.dir, "..data_tmp")
	if err := os.Symlink(fresh, next); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(k.dir, "..data"))
}
