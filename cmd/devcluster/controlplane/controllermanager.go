package controlplane

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const controllerManager = "kube-controller-manager"

// startControllerManager starts kube-controller-manager and waits for the first thing that shows it at work, and without which the
// API server admits no pod: the default service account.
func (cp *ControlPlane) startControllerManager(ctx context.Context) error {
	// system:masters: one user for all its controllers is simpler than a service account for each, and enough here.
	user, err := cp.AddUser("system:"+controllerManager, "system:masters")
	if err != nil {
		return err
	}
	server := cp.env.ControlPlane.APIServer
	rootCA := cp.guard.path("root-ca.crt")
	if err := os.WriteFile(rootCA, server.CA, 0o600); err != nil {
		return fmt.Errorf("write root CA: %w", err)
	}
	flags := map[string]string{
		"kubeconfig":                       user.KubeconfigFile,
		"root-ca-file":                     rootCA,
		"service-account-private-key-file": filepath.Join(server.CertDir, "sa-signer.key"),
		"leader-elect":                     "false",
		"secure-port":                      "0", // nobody asks for its metrics
		// The defaults (20 requests per second, 5 Jobs at a time) are made for clusters where pods take minutes: 100 Jobs on
		// simulated nodes take 30 s with them and 10 s with these.
		"kube-api-qps":         "500",
		"kube-api-burst":       "1000",
		"concurrent-job-syncs": "20",
	}
	if cp.opts.HighScale {
		// Ended pods are kept up to 12,500 by default, then the oldest are deleted, evidence of failures among them.
		flags["terminated-pod-gc-threshold"] = "0"
		flags["node-monitor-grace-period"] = strconv.Itoa(2*cp.opts.leaseSeconds()) + "s"
	}
	maps.Copy(flags, cp.opts.ControllerManagerArgs)
	p, err := cp.Run(Command{
		Name: controllerManager, Path: filepath.Join(cp.assetsDir, controllerManager), Args: flagList(flags),
	})
	if err != nil {
		return err
	}
	client, err := corev1client.NewForConfig(cp.Config())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	return p.waitFor(ctx, func(ctx context.Context) error {
		_, err := client.ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("the default service account is not there")
		}
		return err
	})
}

func flagList(flags map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		list = append(list, "--"+name+"="+flags[name])
	}
	return list
}
