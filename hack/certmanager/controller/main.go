// Command controller is cert-manager's controller with what NodeWright's certificates need: Certificates, and issuers that are
// self-signed or have a CA.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/util"
)

// The values that cert-manager's own command has.
const (
	minimumBackoff = time.Hour
	maximumBackoff = 32 * time.Hour
	workers        = 5
)

func main() {
	// Of its own: packages that are linked in define flags of the same names.
	flags := flag.NewFlagSet("controller", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "file to reach the API server with")
	version := flags.Bool("version", false, "print the version and end")
	_ = flags.Parse(os.Args[1:]) // ends the program on error
	if *version {
		fmt.Println("cert-manager", util.AppVersion)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

// run runs all controllers that are linked in, until ctx ends.
func run(ctx context.Context, kubeconfig string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   100,
		KubernetesAPIBurst: 200,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: minimumBackoff,
			CertificateRequestMaximumBackoffDuration: maximumBackoff,
		},
	})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	running := map[string]controller.Interface{}
	for name, construct := range controller.Known() {
		if running[name], err = construct(factory); err != nil {
			return fmt.Errorf("make controller %s: %w", name, err)
		}
	}
	// Any context starts the informers of all.
	shared, err := factory.Build("informers")
	if err != nil {
		return fmt.Errorf("make informers: %w", err)
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())

	failures := make(chan error, len(running))
	var group sync.WaitGroup
	for name, c := range running {
		group.Go(func() {
			if err := c.Run(workers, ctx); err != nil && ctx.Err() == nil {
				failures <- fmt.Errorf("run controller %s: %w", name, err)
			}
		})
	}
	select {
	case err := <-failures:
		return err
	case <-ctx.Done():
		group.Wait()
		return nil
	}
}
