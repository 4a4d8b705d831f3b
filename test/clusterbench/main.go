package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clusterbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	verbs := map[string]func(*bench) error{verbCluster: (*bench).cluster, "gangs": (*bench).gangs, "starts": (*bench).starts, "writes": (*bench).writes, "shadow": (*bench).shadow}
	if len(args) == 2 && args[0] == verbPlane {
		return servePlane(ctx, args[1], os.Stdin)
	}
	if len(args) == 0 || verbs[args[0]] == nil {
		return fmt.Errorf("%q: want the verb cluster, gangs, starts, writes or shadow", args)
	}
	klog.SetLogger(logr.Discard()) // client-go warns about every request that ends with a phase or the control plane
	opts, err := parseOptions(args[1:], stderr)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, args[0], opts, stderr)
	if err != nil {
		return err
	}
	defer b.close()
	err = verbs[args[0]](b)
	return errors.Join(err, b.finish(stdout)) // the results from before a failure count
}
