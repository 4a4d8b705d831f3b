// Package trial is the common part of test programs with a cluster of hollow nodes: gangs, Jobs,
// faults, releases. Other tests also run on its cluster. A seed determines the actions. The last
// lines of the output have the result, and the exit code is 1 if it is wrong.
package trial

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/demo"
)

// Role runs a part of the cluster in a child process of the same program. It returns ok false if
// the arguments (without the program's name) do not name it.
type Role func(args []string, stdin io.Reader, stderr io.Writer) (code int, ok bool)

// Program is a test program. A flag exists only if its variable is not nil.
type Program struct {
	Name string
	// Roles are added to the roles of package demo.
	Roles []Role
	// Seed determines the trial; if it is 0, Play gets a seed from the clock.
	Seed *uint64
	// Keep leaves the directory with all logs behind.
	Keep *bool
	// Dir is the parent of the temporary directory.
	Dir *string
	// Flags adds the program's own flags; nil for none.
	Flags func(*flag.FlagSet)
	// Check describes errors in the flags; nil if none are possible.
	Check func() error
	// Play runs the trial. An error means a failure, or a wrong result for which out already has
	// the reason.
	Play func(ctx context.Context, out io.Writer) error
}

// Main runs the program on the process's own arguments, and ends it.
func (p *Program) Main() { os.Exit(p.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// Run runs the program. The result is the exit code: 0, 1 for a failure, 2 for wrong usage.
func (p *Program) Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	for _, role := range append([]Role{demo.Role}, p.Roles...) {
		if code, ok := role(args, stdin, stderr); ok {
			return code
		}
	}
	if err := p.parse(args, stderr); err != nil {
		return 2
	}
	silence()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := p.Play(ctx, stdout); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return 1
	}
	return 0
}

// silence discards the logs of Kubernetes' packages: client-go warns about every ended connection,
// and controllers about every conflict. By default klog also prints errors to stderr.
func silence() {
	f := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(f)
	if err := f.Set("stderrthreshold", "FATAL"); err != nil {
		panic(err) // klog has this flag since v1
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// parse reads the flags, and writes errors to stderr.
func (p *Program) parse(args []string, stderr io.Writer) error {
	f := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	f.SetOutput(stderr)
	if p.Seed != nil {
		f.Uint64Var(p.Seed, "seed", 0, "seed of the plan; 0: from the clock")
	}
	if p.Keep != nil {
		f.BoolVar(p.Keep, "keep", false, "keep the directory with all logs")
	}
	if p.Dir != nil {
		f.StringVar(p.Dir, "dir", "", "parent of the temporary directory; use a short path, because of sockets")
	}
	if p.Flags != nil {
		p.Flags(f)
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := p.check(f); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return err
	}
	if p.Seed != nil && *p.Seed == 0 {
		*p.Seed = uint64(time.Now().UnixNano())%1e6 + 1
	}
	return nil
}

// check describes errors in the flags.
func (p *Program) check(f *flag.FlagSet) error {
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("argument %q: want only flags", f.Arg(0))
	case p.Check != nil:
		return p.Check()
	}
	return nil
}

// startLimit bounds the start of a cluster on a busy machine.
const startLimit = 5 * time.Minute

// With starts a cluster within startLimit, prints how long that took, and passes the cluster to
// play. It always stops the cluster at the end, also after a failure.
func With[C interface{ Stop() error }](ctx context.Context, out io.Writer, start func(context.Context) (C, error), play func(C) error) error {
	begun := time.Now()
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c, err := start(starting)
	if err == nil {
		fmt.Fprintf(out, "ready after %.1fs\n", time.Since(begun).Seconds())
		err = play(c)
	}
	return errors.Join(err, c.Stop())
}
