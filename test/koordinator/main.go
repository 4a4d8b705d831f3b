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
	// HeldTwice counts CPUs of containers of two pods that both have them to themselves.
	HeldTwice int `json:"heldTwice"`
	// OutsideItsNUMA counts containers that run beside their decision.
	OutsideItsNUMA int `json:"outsideItsNUMA"`
	// Unconfined counts shared containers on CPUs that another container has to itself.
	Unconfined int `json:"unconfined"`
	// Refused counts pods that a kubelet refused.
	Refused int `json:"refused"`
	// Reservations counts the ones that were made, Reused the pods that were given a place of one.
	Reservations int `json:"reservations"`
	Reused       int `json:"reused"`
	// Strangers counts pods with CPUs that a Reservation holds for others.
	Strangers int `json:"strangers"`
	// Leftover counts what is there when all pods and Reservations have gone, and pods that find no
	// room on an empty node then.
	Leftover int `json:"leftover"`
}

var errWrong = errors.New("nodes did not do what was decided")

func main() {
	o := &options{}
	(&trial.Program{
		Name: "koordinator", Seed: &o.seed, Keep: &o.keep, Dir: &o.dir,
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
