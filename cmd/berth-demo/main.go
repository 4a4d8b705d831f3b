// Command berth-demo runs a cluster with real Kubernetes programs on simulated machines, and
// compares schedulers on it. It starts its own program again for each node and each scheduler, and
// in a playground for each agent.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/berth-dev/berth/internal/demo"
)

func main() {
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run runs the program and returns the exit code: 0, 1 if a promise was not kept or the program
// failed, 2 if the command line is wrong.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if code, ok := demo.Role(args[1:], stdin, stderr); ok {
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parsed := false
	cmd := command(stdout, stderr, &parsed)
	cmd.SetArgs(args[1:])
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "berth-demo:", err)
		if bad := (usageError{}); !parsed || errors.As(err, &bad) {
			return 2
		}
		return 1
	}
	return 0
}
