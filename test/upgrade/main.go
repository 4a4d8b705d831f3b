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
	from, to string
	nodes    int
	seed     uint64
	keep     bool
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
	if err := rideBoth(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "upgrade:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.from, "from", "", "folder of the last release: berth-agent, berth-scheduler, and chart.yaml, its chart as helm template prints it")
	f.StringVar(&o.to, "to", "", "folder of this tree, with the same files")
	f.IntVar(&o.nodes, "nodes", demo.AllNodes, "how many hollow nodes; fewer than the default pin CPUs only")
	f.Uint64Var(&o.seed, "seed", 1, "what determines the pods")
	f.BoolVar(&o.keep, "keep", false, "leave the directories with all logs behind")
	if err := f.Parse(args[1:]); err != nil {
		return nil, err
	}
	err := demo.CheckWorkload(o.nodes)
	switch {
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.from == "" || o.to == "":
		err = errors.New("-from and -to: want the folders of the two releases")
	}
	if err != nil {
		fmt.Fprintln(stderr, "upgrade:", err)
	}
	return o, err
}

// errBroken is the answer no; the output has said why.
var errBroken = errors.New("the releases do not work together")

// result is the last line.
type result struct {
	Kept  bool   `json:"kept"`
	Rides []ride `json:"rides"`
}

// rideBoth goes up, then down.
func rideBoth(ctx context.Context, o *options, out io.Writer) error {
	last, err := readRelease(ctx, o.from)
	if err != nil {
		return err
	}
	this, err := readRelease(ctx, o.to)
	if err != nil {
		return err
	}
	all := result{Kept: true}
	for _, way := range [][2]*release{{last, this}, {this, last}} {
		fmt.Fprintf(out, "from %s to %s\n", way[0].version, way[1].version)
		r, err := travel(ctx, o, way[0], way[1], out)
		if err != nil {
			return err
		}
		for _, wrong := range r.Wrong {
			fmt.Fprintln(out, "  WRONG:", wrong)
		}
		all.Kept = all.Kept && len(r.Wrong) == 0
		all.Rides = append(all.Rides, *r)
	}
	if err := json.NewEncoder(out).Encode(all); err != nil {
		return err
	}
	if !all.Kept {
		return errBroken
	}
	return nil
}
