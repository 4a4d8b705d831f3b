package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"

	"github.com/berth-dev/berth/test/trial"
)

// options are the flags.
type options struct {
	seed  uint64
	plans int
	nodes int
}

// result is the last line.
type result struct {
	Seed uint64 `json:"seed"`
	// Plans are the ones that move pods and were carried out; MadeRoom those after which the wanted
	// pod ran.
	Plans    int `json:"plans"`
	MadeRoom int `json:"madeRoom"`
	// PDBViolated counts how often fewer pods were healthy than a budget wants, Refused pods that a
	// kubelet refused, Worse plans after which fewer replicas ran than before, or a holder was
	// left.
	PDBViolated int `json:"pdbViolated"`
	Refused     int `json:"refused"`
	Worse       int `json:"worse"`
	// Moves is how many pods were moved in all, Gangs how many plans were for a gang.
	Moves int `json:"moves"`
	Gangs int `json:"gangs"`
}

// leastPlans is how many there must be for the result to say anything.
const leastPlans = 20

func (r *result) ok() bool {
	return r.PDBViolated == 0 && r.Refused == 0 && r.Worse == 0 && r.MadeRoom >= r.Plans && r.Plans >= leastPlans
}

// errWorse is the answer no; the output has said why.
var errWorse = errors.New("room was not made as planned")

func main() {
	o := &options{}
	(&trial.Program{
		Name: "defrag", Seed: &o.seed,
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.plans, "plans", leastPlans, "how many plans are carried out")
			f.IntVar(&o.nodes, "nodes", 4, "how many hollow nodes")
		},
		Check: func() error {
			if o.plans < 1 || o.nodes < 2 {
				return errors.New("want at least 1 plan and 2 nodes")
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
