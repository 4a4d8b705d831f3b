package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/test/wrongclock"
)

func main() {
	o := &options{}
	(&trial.Program{
		Name: "gangs", Seed: &o.seed, Keep: &o.keep, Dir: &o.dir, Roles: []trial.Role{wrongclock.Role},
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.gangs, "gangs", 100, "how many gangs to create")
			f.BoolVar(&o.each, "v", false, "print a line for each gang")
		},
		Check: func() error {
			if o.gangs < 1 || o.gangs > 10000 {
				return fmt.Errorf("-gangs %d: want 1 to 10000", o.gangs)
			}
			return nil
		},
		Play: func(ctx context.Context, out io.Writer) error { return play(ctx, o, out) },
	}).Main()
}
