package main

import (
	"context"
	"encoding/json"
	"errors"
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
}

// result is the last line.
type result struct {
	Seed    uint64 `json:"seed"`
	Pods    int    `json:"pods"`
	Running int    `json:"running"`
	// Misaligned counts containers whose devices or CPUs are not those of the decision, and
	// decisions that are not as the pod asked.
	Misaligned int `json:"misaligned"`
	// Refused counts pods that a kubelet refused.
	Refused int `json:"refused"`
	// HeldTwice counts CPUs and devices that two pods have.
	HeldTwice int `json:"heldTwice"`
	// Leftover counts what is there when all pods have gone.
	Leftover int `json:"leftover"`
}

var errWrong = errors.New("nodes did not do what was decided")

func main() {
	o := &options{}
	(&trial.Program{
		Name: "devices", Seed: &o.seed, Keep: &o.keep, Dir: &o.dir,
		Flags: func(f *flag.FlagSet) { f.IntVar(&o.pods, "pods", 100, "how many pods are made") },
		Check: func() error {
			if o.pods < 1 || o.pods > 10000 {
				return fmt.Errorf("-pods %d: want 1 to 10000", o.pods)
			}
			return nil
		},
		Play: func(ctx context.Context, out io.Writer) error {
			r, err := play(ctx, o, out)
			line, _ := json.Marshal(r) // numbers alone
			fmt.Fprintln(out, string(line))
			return err
		},
	}).Main()
}
