// Command berth shows the machines of nodes and the resources of pods, and explains where pods fit.
// It is also installed as kubectl-berth.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/berth-dev/berth/internal/cli"
)

// gcPercent lets the heap grow to four times its used size before a garbage collection, because
// most verbs end before they use much memory. With Go's default, collections took a quarter of the
// time of a command on a cluster of 5,000 nodes.
const gcPercent = 300

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // if the program does not react to the first interrupt, a second one ends it at once
	os.Exit(cli.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr, newReplay()))
}
