package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"

	"github.com/berth-dev/berth/test/trial"
)

// errWorse makes the exit code 1. The output has the reason.
var errWorse = errors.New("a plan did not make room as planned")

func main() {
	o := &options{}
	(&trial.Program{
		Name: "defrag", Seed: &o.seed,
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.plans, "plans", leastPlans, "number of plans to carry out")
			f.IntVar(&o.nodes, "nodes", 4, "number of hollow nodes")
		},
		Check: func() error {
			if o.plans < 1 || o.nodes < 2 {
				return errors.New("-plans and -nodes: want at least 1 plan and 2 nodes")
			}
			return nil
		},
		Play: func(ctx context.Context, out io.Writer) error {
			r, err := play(ctx, o, out)
			if err == nil && !r.ok() {
				err = errWorse
			}
			return errors.Join(err, json.NewEncoder(out).Encode(r))
		},
	}).Main()
}
