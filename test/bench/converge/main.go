// Command converge measures how fast and with how many writes the operator
// brings packages to nodes, against what the same Jobs cost without it.
//
//	go run ./test/bench/converge -nodes 100 -packages 3
//
// In one run, on one control plane: the same Jobs all at once (raw), the same
// Jobs in the order of stages by a bare client (floor), then the operator, a
// process of its own. Rounds alternate floor and operator; times are medians.
// The last line of the output is the result as JSON.
//
// With -profile DIR, the API server is profiled meanwhile, which costs it a few
// percent: DIR/PHASE-ROUND-NN.pprof, where PHASE is raw, floor or operator. `go
// tool pprof` takes all files of a phase together. What is over of a phase after
// its last full window of 10 s is left out.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "converge:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var o benchOptions
	flags := flag.NewFlagSet("converge", flag.ContinueOnError)
	flags.IntVar(&o.nodes, "nodes", 100, "simulated nodes")
	flags.IntVar(&o.packages, "packages", 3, "packages of the NodeWright, independent of each other; 1 to 100")
	flags.BoolVar(&o.interrupts, "interrupts", false, "each package restarts a service of the node, which is drained of a pod before")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds of floor and operator; default 3 up to 200 nodes, else 1")
	flags.IntVar(&o.workers, "workers", 16, "nodes that operator and bare client work on at once")
	flags.StringVar(&o.profile, "profile", "", "directory for processor profiles of the API server during raw, floor and operator")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.nodes < 1 || o.packages < 1 || o.packages > 100 {
		return fmt.Errorf("-nodes is %d and -packages %d: at least 1 of each, at most 100 packages", o.nodes, o.packages)
	}
	if o.rounds == 0 {
		o.rounds = 1
		if o.nodes <= 200 {
			o.rounds = 3
		}
	}
	ctrl.SetLogger(logr.Discard())
	result, err := measure(ctx, o)
	if err != nil {
		return err
	}
	data, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	fmt.Println(string(data))
	return result.check()
}
