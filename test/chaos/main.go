package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/test/wrongclock"
)

func main() {
	o := &options{}
	var breaking string
	(&trial.Program{
		Name: "chaos", Seed: &o.seed, Keep: &o.keep, Dir: &o.dir, Roles: []trial.Role{role, wrongclock.Role, trial.ShadowRole},
		Flags: func(f *flag.FlagSet) {
			f.DurationVar(&o.duration, "duration", 5*time.Minute, "for how long faults are injected")
			f.IntVar(&o.nodes, "nodes", 5, "number of hollow nodes")
			f.BoolVar(&o.each, "v", false, "print a line for each fault")
			f.StringVar(&breaking, "break", "", fmt.Sprint("make the scheduler break promises in one of the ways ", frauds, ", to test that the suite notices"))
		},
		Check: func() (err error) {
			o.fraud, err = parseFraud(breaking)
			switch {
			case err != nil:
			case o.duration < 5*time.Second:
				err = fmt.Errorf("-duration %v: want at least 5s", o.duration)
			case o.nodes < 1 || o.nodes > 50:
				err = fmt.Errorf("-nodes %d: want 1 to 50", o.nodes)
			}
			return err
		},
		Play: func(ctx context.Context, out io.Writer) error { return play(ctx, o, out) },
	}).Main()
}
