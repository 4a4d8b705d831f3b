package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/demo"
)

func main() { os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr)) }

// errWrong is the answer no; the output has said why.
var errWrong = errors.New("not all Jobs were as they must be")

// options are the flags.
type options struct {
	seed uint64
	jobs int
	keep bool
	each bool
	dir  string
}

// run is the program; the result is the exit code: 0, 1 for what must not be or a failure, 2 for
// bad usage.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[1] == verbController {
		return runController(args[2:], stdin, stderr)
	}
	if code, ok := demo.Role(args[1:], stdin, stderr); ok {
		return code
	}
	o, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	klog.LogToStderr(false) // client-go warns about every connection that ends
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "volcanojobs:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Uint64Var(&o.seed, "seed", 0, "what determines the plan; 0: of the clock")
	f.IntVar(&o.jobs, "jobs", 60, "how many Jobs are made")
	f.BoolVar(&o.keep, "keep", false, "leave the directory with all logs behind")
	f.BoolVar(&o.each, "v", false, "print a line for each Job")
	f.StringVar(&o.dir, "dir", "", "where the temporary directory is made; keep it short, for the sake of sockets")
	if err := f.Parse(args[1:]); err != nil {
		return nil, err
	}
	var err error
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.jobs < 1 || o.jobs > 10000:
		err = fmt.Errorf("-jobs %d: want 1 to 10000", o.jobs)
	}
	if err != nil {
		fmt.Fprintln(stderr, "volcanojobs:", err)
		return nil, err
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())%1e6 + 1
	}
	return o, nil
}
