// Command agent runs the steps of a package on the host.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/nodewright/nodewright/cmd/agent/app"
)

func main() {
	// The first signal ends the step that runs; what follows is the same one.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := app.Run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
