package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/berth-dev/berth/test/trial"
)

func main() {
	o := &options{}
	(&trial.Program{
		Name: "volcanojobs", Seed: &o.seed, Keep: &o.keep, Dir: &o.dir, Roles: []trial.Role{controller},
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.jobs, "jobs", 60, "how many Jobs to create")
			f.BoolVar(&o.each, "v", false, "print a line for each Job")
		},
		Check: func() error {
			if o.jobs < 1 || o.jobs > 10000 {
				return fmt.Errorf("-jobs %d: want 1 to 10000", o.jobs)
			}
			return nil
		},
		Play: func(ctx context.Context, out io.Writer) error { return play(ctx, o, out) },
	}).Main()
}
