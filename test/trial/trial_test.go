package trial

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestRun runs a program with flags of every kind, and checks its output and exit code.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		out  string // the beginning of the output; of stderr if code is not 0
	}{
		{"-seed=3 -pods=2", 0, "3 2 false"},
		{"-seed=3 -keep", 0, "3 7 true"},
		{"-pods=0", 2, "shake: -pods 0: want 1 or more"},
		{"-pods=x", 2, `invalid value "x" for flag -pods`},
		{"-seed=-1", 2, `invalid value "-1" for flag -seed`},
		{"-dir=/tmp", 2, "flag provided but not defined: -dir"},
		{"more", 2, `shake: argument "more": want only flags`},
		{"-seed=13", 1, "shake: thirteen"},
		{"part", 5, "a part"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var seed uint64
			var keep bool
			var pods int
			p := &Program{
				Name: "shake", Seed: &seed, Keep: &keep,
				Roles: []Role{func(args []string, _ io.Reader, stderr io.Writer) (int, bool) {
					if len(args) == 0 || args[0] != "part" {
						return 0, false
					}
					fmt.Fprintln(stderr, "a part")
					return 5, true
				}},
				Flags: func(f *flag.FlagSet) { f.IntVar(&pods, "pods", 7, "how many") },
				Check: func() error {
					if pods < 1 {
						return fmt.Errorf("-pods %d: want 1 or more", pods)
					}
					return nil
				},
				Play: func(_ context.Context, out io.Writer) error {
					if seed == 13 {
						return errors.New("thirteen")
					}
					fmt.Fprintln(out, seed, pods, keep)
					return nil
				},
			}
			var stdout, stderr bytes.Buffer
			code := p.Run(strings.Fields(c.args), strings.NewReader(""), &stdout, &stderr)
			got := stdout.String()
			if code != 0 {
				got = stderr.String()
			}
			if code != c.code || !strings.HasPrefix(got, c.out) {
				t.Errorf("exit %d, %q: want exit %d, %q", code, got, c.code, c.out)
			}
		})
	}
}

// TestSeedOfTheClock: the default seed is not 0, so that a user can pass it to repeat the run.
func TestSeedOfTheClock(t *testing.T) {
	var seed uint64
	p := &Program{Name: "shake", Seed: &seed, Play: func(context.Context, io.Writer) error { return nil }}
	if code := p.Run(nil, strings.NewReader(""), io.Discard, io.Discard); code != 0 || seed == 0 {
		t.Errorf("exit %d, seed %d", code, seed)
	}
}
