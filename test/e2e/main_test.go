package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/test/e2e/realnode"
)

var enabled = flag.Bool("e2e", false, "run: starts containers and makes cgroups on this machine, as root")

// bed is what all tests use.
var bed *cluster

// startTimeout is for building and starting all; binaries that are not in the
// cache are built first, which takes many minutes.
const startTimeout = 40 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	if !*enabled {
		fmt.Println("test/e2e: skipped: it needs the flag -e2e, which make e2e gives")
		return
	}
	if err := realnode.Possible(); err != nil {
		fmt.Println("test/e2e: skipped:", err)
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	restore, err := realnode.KeepSysctls()
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/e2e:", err)
		return 1
	}
	code := 1
	bed, err = start(ctx)
	if err == nil {
		code = m.Run()
		if code != 0 {
			bed.report()
		}
	}
	if bed != nil {
		err = errors.Join(err, bed.close())
	}
	if err = errors.Join(err, restore()); err != nil {
		fmt.Fprintln(os.Stderr, "test/e2e:", err)
		return 1
	}
	return code
}

// progress says what is going on: building and starting takes a while.
func progress(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}
