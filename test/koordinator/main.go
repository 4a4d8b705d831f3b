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
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/demo"
)

func main() { os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr)) }

// options are the flags.
type options struct {
	seed uint64
	pods int
	keep bool
	dir  string
}

// result is the last line.
type result struct {
	Seed    uint64 `json:"seed"`
	Pods    int    `json:"pods"`
	Running int    `json:"running"`
	// HeldTwice counts CPUs of containers of two pods that both have them to themselves.
	HeldTwice int `json:"heldTwice"`
	// OutsideItsNUMA counts containers that run beside their decision.
	OutsideItsNUMA int `json:"outsideItsNUMA"`
	// Unconfined counts shared containers on CPUs that somebody has to himself.
	Unconfined int `json:"unconfined"`
	// Refused counts pods that a kubelet refused.
	Refused int `json:"refused"`
	// Leftover counts what is there when all pods have gone.
	Leftover int `json:"leftover"`
}

var errWrong = errors.New("nodes did not do what was decided")

// run is the program; the result is the exit code: 0, 1 for what must not be or a failure, 2 for
// bad usage.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
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
	r, err := play(ctx, o, stdout)
	line, _ := json.Marshal(r) // numbers alone
	fmt.Fprintln(stdout, string(line))
	if err != nil {
		fmt.Fprintln(stderr, "koordinator:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Uint64Var(&o.seed, "seed", 0, "what determines the plan; 0: of the clock")
	f.IntVar(&o.pods, "pods", 100, "how many pods are made")
	f.BoolVar(&o.keep, "keep", false, "leave the directory with all logs behind")
	f.StringVar(&o.dir, "dir", "", "where the temporary directory is made; keep it short, for the sake of sockets")
	if err := f.Parse(args[1:]); err != nil {
		return nil, err
	}
	var err error
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.pods < 1 || o.pods > 10000:
		err = fmt.Errorf("-pods %d: want 1 to 10000", o.pods)
	}
	if err != nil {
		fmt.Fprintln(stderr, "koordinator:", err)
		return nil, err
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())%1e6 + 1
	}
	return o, nil
}
