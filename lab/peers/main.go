// Command peers runs the demo's pods on the demo's nodes with another scheduler's program, and
// prints the demo's figures for it (README.md):
//
//	go run ./peers -scheduler volcano=/path/to/vc-scheduler -source /path/to/volcano -controller /path/to/vc-controller-manager
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/berth-dev/berth/internal/demo"
)

// question has the flags.
type question struct {
	flags                         *flag.FlagSet
	scheduler, source, controller string
	output                        string
	seed                          uint64
	keep                          bool
	progress                      io.Writer
}

func main() {
	if code, ok := demo.Role(os.Args[1:], os.Stdin, os.Stderr); ok {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func newQuestion(errs io.Writer) *question {
	q := &question{flags: flag.NewFlagSet("peers", flag.ContinueOnError), progress: errs}
	q.flags.SetOutput(errs)
	q.flags.StringVar(&q.scheduler, "scheduler", "", "stock, berth, or NAME=PROGRAM with a NAME of volcano, nrt, nrt-alloc, koord")
	q.flags.StringVar(&q.source, "source", "", "volcano, koord: the folder with the source of the program, for its definitions and its configuration")
	q.flags.StringVar(&q.controller, "controller", "", "volcano: the program vc-controller-manager, which makes the PodGroups")
	q.flags.Uint64Var(&q.seed, "seed", 1, "which pods come, and when")
	q.flags.StringVar(&q.output, "o", "table", "table or json")
	q.flags.BoolVar(&q.keep, "keep", false, "leave logs and checkpoints behind")
	return q
}

// run runs the program with these arguments.
func run(ctx context.Context, args []string, out, errs io.Writer) error {
	q := newQuestion(errs)
	if err := q.flags.Parse(args); err != nil {
		return err
	}
	if q.flags.NArg() > 0 {
		return fmt.Errorf("%q: want flags only", q.flags.Arg(0))
	}
	if q.output != "table" && q.output != "json" {
		return fmt.Errorf("-o %q: want table or json", q.output)
	}
	s, err := q.contestant()
	if err != nil {
		return err
	}
	r, err := q.play(ctx, s)
	if err != nil {
		return fmt.Errorf("under %s: %w", s.Title(), err)
	}
	if q.output == "json" {
		return json.NewEncoder(out).Encode(r)
	}
	return r.table(out)
}

// table writes the result as a row in Markdown.
func (r *result) table(w io.Writer) error {
	_, err := fmt.Fprintf(w, `| scheduler | seed | rejected by kubelets | rejected of 100 Bindings | ran, of %d | avoidably split | seconds to running, p50 | p99 | CPU ms per pod | load average |
|---|---|---|---|---|---|---|---|---|---|
| %s | %d | %d | %.1f | %d | %d | %.1f | %.1f | %.0f | %.0f |
`, r.Wanted, r.Scheduler, r.Seed, r.Refused, r.RefusedOf100, r.Running, r.AvoidablySplit, r.SecondsToRunning.P50, r.SecondsToRunning.P99, r.CPUMillis, r.Load)
	return err
}
