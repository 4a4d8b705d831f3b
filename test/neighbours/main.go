package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/berth-dev/berth/test/trial"
)

// errWrong is the answer no; the output has said why.
var errWrong = errors.New("not every file does what it does with its own system")

// options are the flags.
type options struct {
	from, controller, only, dir string
	keep, each                  bool
}

// Who makes the pods of Jobs.
const (
	byVolcano = "volcano"
	byBerth   = "berth"
	byBoth    = "both"
)

func main() {
	o := &options{}
	(&trial.Program{
		Name: "neighbours", Keep: &o.keep, Dir: &o.dir,
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&o.from, "from", "../shared/neighbours", "folder with the neighbours' own files")
			f.StringVar(&o.controller, "controller", byBoth, "who runs Jobs of batch.volcano.sh: volcano, berth or both")
			f.StringVar(&o.only, "only", "", "the one case to run, by its name")
			f.BoolVar(&o.each, "v", false, "print a line for each case that is as it must be")
		},
		Check: func() error {
			if !slices.Contains([]string{byVolcano, byBerth, byBoth}, o.controller) {
				return fmt.Errorf("-controller %q: want volcano, berth or both", o.controller)
			}
			return nil
		},
		Play: func(ctx context.Context, out io.Writer) error { return play(ctx, o, out) },
	}).Main()
}

// play runs all cases with each controller.
func play(ctx context.Context, o *options, out io.Writer) error {
	var total result
	if _, err := os.Stat(o.from); err != nil {
		fmt.Fprintf(out, "SKIPPED everything: %v\n", err)
		total.Skipped++
		return total.write(out)
	}
	cases, err := readCases(o.from)
	if err != nil {
		return err
	}
	if o.only != "" {
		cases = slices.DeleteFunc(cases, func(c *testCase) bool { return c.name != o.only })
	}
	found := make([]finding, len(cases))
	for _, by := range []string{byVolcano, byBerth} {
		if o.controller != byBoth && o.controller != by {
			continue
		}
		some, err := playWith(ctx, o, by, cases, out)
		if err != nil {
			return fmt.Errorf("with the controller of %s: %w", by, err)
		}
		for i := range found {
			found[i].join(some[i])
		}
	}
	for i := range cases {
		total.add(cases[i], found[i])
	}
	return total.write(out)
}

// playWith runs the cases with one controller, several at a time, and says what came of each.
func playWith(ctx context.Context, o *options, by string, cases []*testCase, out io.Writer) (found []finding, err error) {
	c, err := startCluster(ctx, o, by)
	if errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(out, "SKIPPED %d cases with the controller of %s: %v\n", len(cases), by, err)
		return slices.Repeat([]finding{{skipped: err.Error()}}, len(cases)), nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	found = c.runAll(ctx, cases)
	for i := range found {
		if text := found[i].inWords(cases[i], o.each); text != "" {
			fmt.Fprintln(out, by+": "+text)
		}
	}
	return found, ctx.Err()
}
