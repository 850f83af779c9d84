// Command devcluster runs a control plane with simulated nodes on this machine.
//
//	devcluster demo [--nodes N] [--manifest FILE] [--keep] [--timeout D]
//
// installs the operator there and shows a rollout.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/term"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodewright/nodewright/cmd/devcluster/assets"
	"github.com/nodewright/nodewright/cmd/devcluster/demo"
)

const usage = "usage: devcluster demo [--nodes N] [--manifest FILE] [--keep] [--timeout D]"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] != "demo" {
		return fmt.Errorf("no such command\n%s", usage)
	}
	opts := demo.Options{Out: os.Stdout, Terminal: term.IsTerminal(int(os.Stdout.Fd()))}
	var manifest string
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.IntVar(&opts.Nodes, "nodes", 20, "number of simulated nodes")
	flags.StringVar(&manifest, "manifest", "", "file with NodeWrights to roll out instead of the samples")
	flags.BoolVar(&opts.Keep, "keep", false, "stay up when the rollout has ended, until Ctrl-C")
	flags.DurationVar(&opts.Timeout, "timeout", 3*time.Minute, "time for the rollout")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if opts.Nodes < 1 {
		return fmt.Errorf("--nodes is %d, at least 1 is needed", opts.Nodes)
	}
	if manifest != "" {
		opts.Manifests = []string{manifest}
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	if opts.Root, err = assets.FindRoot(dir); err != nil {
		return err
	}
	// The demo speaks for itself; what libraries log would tear its table.
	ctrl.SetLogger(logr.Discard())
	return demo.Run(ctx, opts)
}
