package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/berth-dev/berth/test/fields/fates"
	"github.com/berth-dev/berth/test/trial"
)

func main() {
	o := &options{}
	(&trial.Program{
		Name: "neighbours", Keep: &o.keep, Dir: &o.dir,
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&o.from, "from", "../shared/neighbours", "folder with the other projects' files")
			f.StringVar(&o.controller, "controller", byAll, "controller of Jobs of batch.volcano.sh: volcano, berth, koordinator (none, with Koordinator's files), or all, one after the other")
			f.StringVar(&o.only, "only", "", "names of cases to run, separated by commas; empty: all, and the search for silently ignored fields")
			f.BoolVar(&o.each, "v", false, "print a line also for each correct case")
		},
		Check: func() error {
			if !slices.Contains([]string{byVolcano, byBerth, byNobody, byAll}, o.controller) {
				return fmt.Errorf("-controller %q: want volcano, berth, koordinator or all", o.controller)
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
		cases = slices.DeleteFunc(cases, func(c *testCase) bool { return !slices.Contains(strings.Split(o.only, ","), c.name) })
	}
	if o.only == "" {
		silent, err := fates.Silent(o.from)
		if err != nil {
			return err
		}
		total.tell(out, silent)
	}
	if err := total.play(ctx, o, cases, out); err != nil {
		return err
	}
	return total.write(out)
}

// play runs cases with each controller, and adds the results.
func (total *result) play(ctx context.Context, o *options, cases []*testCase, out io.Writer) error {
	found := map[*testCase]*finding{}
	for _, c := range cases {
		found[c] = &finding{}
	}
	for _, by := range []string{byVolcano, byBerth, byNobody} {
		mine := slices.DeleteFunc(slices.Clone(cases), func(c *testCase) bool { return !slices.Contains(playedBy[c.class], by) })
		if o.controller != byAll && o.controller != by || len(mine) == 0 {
			continue
		}
		some, err := playWith(ctx, o, by, mine, out)
		if err != nil {
			return fmt.Errorf("with the controller of %s: %w", by, err)
		}
		for i := range mine {
			found[mine[i]].join(some[i])
		}
	}
	for _, c := range cases {
		total.add(c, *found[c])
	}
	return nil
}

// playWith runs the cases with one controller, several at a time.
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
