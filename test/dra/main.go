package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/berth-dev/berth/test/trial"
)

// options are the flags.
type options struct {
	seed uint64
	pods int
	keep bool
	dir  string
	only string
}

// The schedulers under which a plan is carried out.
const (
	stock = "stock"
	berth = "berth"
)

func main() {
	o := &options{}
	(&trial.Program{
		Name: "dra", Seed: &o.seed, Keep: &o.keep, Dir: &o.dir,
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.pods, "pods", 100, "how many pods to create under each scheduler")
			f.StringVar(&o.only, "only", "", "run under one scheduler, stock or berth, and check only that one")
		},
		Check: func() error {
			switch {
			case o.pods < 1 || o.pods > 10000:
				return fmt.Errorf("-pods %d: want 1 to 10000", o.pods)
			case o.only != "" && o.only != stock && o.only != berth:
				return fmt.Errorf("-only %q: want %s or %s", o.only, stock, berth)
			}
			return nil
		},
		Play: func(ctx context.Context, out io.Writer) error { return play(ctx, o, out) },
	}).Main()
}
