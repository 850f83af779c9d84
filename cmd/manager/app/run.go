package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// floorTimeout bounds the questions to the API server at start.
const floorTimeout = 30 * time.Second

// Run runs the manager until ctx ends.
func Run(ctx context.Context, args []string) error {
	o, err := parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	log, err := o.logger()
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	c, err := o.loadConfiguration()
	if err != nil {
		return err
	}
	rc, err := o.restConfig()
	if err != nil {
		return err
	}
	cs, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	floorCtx, cancel := context.WithTimeout(ctx, floorTimeout)
	defer cancel()
	if err := waitForFloor(floorCtx, cs, o.namespace); err != nil {
		return err
	}
	mgr, err := newManager(ctx, rc, o, c)
	if err != nil {
		return err
	}
	log.Info("starting", "namespace", o.namespace)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run manager: %w", err)
	}
	return nil
}

// restConfig says how to reach the API server.
func (o *options) restConfig() (*rest.Config, error) {
	var rc *rest.Config
	var err error
	if o.kubeconfig != "" {
		rc, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	} else {
		rc, err = config.GetConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	// The number of workers bounds what is asked at once, and the API server's own
	// priority and fairness the rest.
	rc.QPS = -1
	// As the controllers of Kubernetes itself: the API server is near, and to
	// compress each watch for us costs it more than the bytes do.
	rc.DisableCompression = true
	rc.UserAgent = "nodewright-manager"
	rc.Wrap(countRequests)
	return rc, nil
}
