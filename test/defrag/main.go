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

	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/demo"
)

func main() { os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr)) }

// options are the flags.
type options struct {
	seed  uint64
	plans int
	nodes int
}

// result is the last line.
type result struct {
	Seed uint64 `json:"seed"`
	// Plans are those that move pods and were carried out; MadeRoom those after which the wanted
	// pod ran.
	Plans    int `json:"plans"`
	MadeRoom int `json:"madeRoom"`
	// PDBViolated counts how often fewer pods were healthy than a budget wants, Refused pods that a
	// kubelet refused, Worse plans after which fewer replicas ran than before, or a holder was
	// left.
	PDBViolated int `json:"pdbViolated"`
	Refused     int `json:"refused"`
	Worse       int `json:"worse"`
	// Moves is how many pods were moved in all.
	Moves int `json:"moves"`
}

// leastPlans is how many there must be for the result to say anything.
const leastPlans = 20

func (r *result) ok() bool {
	return r.PDBViolated == 0 && r.Refused == 0 && r.Worse == 0 && r.MadeRoom >= r.Plans && r.Plans >= leastPlans
}

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
	if err != nil {
		fmt.Fprintln(stderr, "defrag:", err)
	}
	if err := json.NewEncoder(stdout).Encode(r); err != nil || !r.ok() {
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Uint64Var(&o.seed, "seed", 1, "what determines machines, replicas and pods")
	f.IntVar(&o.plans, "plans", leastPlans, "how many plans are carried out")
	f.IntVar(&o.nodes, "nodes", 4, "how many hollow nodes")
	if err := f.Parse(args[1:]); err != nil {
		return nil, err
	}
	var err error
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.plans < 1 || o.nodes < 2:
		err = errors.New("want at least 1 plan and 2 nodes")
	}
	if err != nil {
		fmt.Fprintln(stderr, "defrag:", err)
	}
	return o, err
}
