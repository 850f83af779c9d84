// Command assets provides the binaries of the local control plane and prints the directory that holds them. Arguments name
// components, as kubelet; without any it provides those that the demo needs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/nodewright/nodewright/cmd/devcluster/assets"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := assets.Ensure(ctx, assets.Options{Components: os.Args[1:], Out: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, "assets:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
