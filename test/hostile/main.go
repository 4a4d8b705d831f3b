package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/berth-dev/berth/test/trial"
)

func main() {
	o := &options{}
	(&trial.Program{
		Name: "hostile", Seed: &o.seed, Keep: &o.keep, Dir: &o.dir, Roles: []trial.Role{role},
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.attempts, "attempts", 20000, "minimum number of the tenant's requests")
			f.IntVar(&o.friendly, "friendly", 500, "minimum number of friendly units placed while the tenant acts")
			f.DurationVar(&o.calm, "calm", 4*time.Minute, "how long the friendly load runs alone, and then as long with harmless requests of the tenant")
			f.DurationVar(&o.limit, "limit", 15*time.Minute, "how long the tenant may take for its attempts")
			f.StringVar(&o.until, "until", "", fmt.Sprint("end the attack at the first harm of this kind, one of ", harmNames, ", and check no minimum"))
		},
		Check: func() error {
			if o.attempts < 1 || o.friendly < 1 || o.calm < time.Second || o.limit < time.Second {
				return fmt.Errorf("-attempts %d -friendly %d -calm %v -limit %v: want at least 1, 1, 1s and 1s", o.attempts, o.friendly, o.calm, o.limit)
			}
			if o.until != "" && !slices.Contains(harmNames, o.until) {
				return fmt.Errorf("-until %q: want one of %v", o.until, harmNames)
			}
			return nil
		},
		Play: func(ctx context.Context, out io.Writer) error { return play(ctx, o, out) },
	}).Main()
}
