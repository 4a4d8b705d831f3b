// Command berth looks at machines and asks where pods fit; it is also installed as kubectl-berth.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/berth-dev/berth/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr))
}
