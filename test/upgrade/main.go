package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/test/trial"
)

func main() {
	o := &options{}
	(&trial.Program{
		Name: "upgrade", Seed: &o.seed, Keep: &o.keep,
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&o.from, "from", "", "folder of the last release: berth-agent, berth-scheduler, and chart.yaml, the output of helm template")
			f.StringVar(&o.to, "to", "", "folder of this tree, with the same files")
			f.IntVar(&o.nodes, "nodes", demo.AllNodes, "number of hollow nodes; fewer than the default pin CPUs only")
		},
		Check: func() error {
			if o.from == "" || o.to == "" {
				return errors.New("-from and -to: want the folders of the two releases")
			}
			return demo.CheckWorkload(o.nodes)
		},
		Play: func(ctx context.Context, out io.Writer) error { return rideBoth(ctx, o, out) },
	}).Main()
}

// errBroken makes the exit code 1. The output has the reason.
var errBroken = errors.New("the releases do not work together")

// result is the last line of the output.
type result struct {
	Kept  bool   `json:"kept"`
	Rides []ride `json:"rides"`
}

// rideBoth upgrades on one cluster, then downgrades on another.
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
		fmt.Fprintf(out, "seed %d: from %s to %s\n", o.seed, way[0].version, way[1].version)
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
