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

// errViolated is the answer no; the output has said why.
var errViolated = errors.New("a promise was not kept")

// options are the flags.
type options struct {
	seed     uint64
	duration time.Duration
	nodes    int
	keep     bool
	fraud    fraud
	each     bool
	dir      string
}

// run is the program; the result is the exit code: 0, 1 for a violation or a failure, 2 for bad
// usage.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if code, ok := demo.Role(args[1:], stdin, stderr); ok {
		return code
	}
	if code, ok := role(args[1:], stdin, stderr); ok {
		return code
	}
	o, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	klog.LogToStderr(false) // client-go warns about every connection that the faults cut
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Uint64Var(&o.seed, "seed", 0, "what determines the plan; 0: of the clock")
	f.DurationVar(&o.duration, "duration", 5*time.Minute, "how long faults are injected")
	f.IntVar(&o.nodes, "nodes", 4, "how many hollow nodes")
	f.BoolVar(&o.keep, "keep", false, "leave the directory with all logs behind")
	f.BoolVar(&o.each, "v", false, "print a line for each fault")
	breaking := f.String("break", "", fmt.Sprint("make the scheduler break promises, one of ", frauds, ": to see that it is noticed"))
	f.StringVar(&o.dir, "dir", "", "where the temporary directory is made; keep it short, for the sake of sockets")
	if err := f.Parse(args[1:]); err != nil {
		return nil, err
	}
	var err error
	o.fraud, err = parseFraud(*breaking)
	switch {
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.duration < 5*time.Second:
		err = fmt.Errorf("-duration %v: want at least 5s", o.duration)
	case o.nodes < 1 || o.nodes > 50:
		err = fmt.Errorf("-nodes %d: want 1 to 50", o.nodes)
	}
	if err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
		return nil, err
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())%1e6 + 1
	}
	return o, nil
}
