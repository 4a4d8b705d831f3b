// Package trial is the frame of the programs that put a cluster of hollow nodes on trial: gangs,
// Jobs, faults, releases; and the cluster that they and other tests run on. A seed determines what
// happens, the last lines say what came of it, and the exit code whether all of it was as it must
// be.
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

// Role is a part of the cluster that the program plays in a process of its own. It returns ok
// false where the arguments (without the program's name) do not ask for it.
type Role func(args []string, stdin io.Reader, stderr io.Writer) (code int, ok bool)

// Program is one of them. The flags whose variables are nil do not exist.
type Program struct {
	Name string
	// Roles come beside those of demo.
	Roles []Role
	// Seed is what determines the trial; Play sees the clock's where it is 0.
	Seed *uint64
	// Keep leaves the directory with all logs behind.
	Keep *bool
	// Dir is where the temporary directory is made.
	Dir *string
	// Flags adds the program's own; nil for none.
	Flags func(*flag.FlagSet)
	// Check is what is wrong with the flags; nil where nothing can be.
	Check func() error
	// Play is the trial. The error is a failure, or the answer no, when out has said why.
	Play func(ctx context.Context, out io.Writer) error
}

// Main runs the program on the process's own arguments, and ends it.
func (p *Program) Main() { os.Exit(p.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// Run runs the program. The result is the exit code: 0, 1 for what must not be or a failure, 2 for
// bad usage.
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

// silence discards what Kubernetes' packages have to say: client-go warns about every connection
// that ends, and controllers of every conflict. By default klog prints errors to stderr besides.
func silence() {
	f := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(f)
	if err := f.Set("stderrthreshold", "FATAL"); err != nil {
		panic(err) // klog has this flag since v1
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// parse reads the flags. What is wrong has been written to stderr.
func (p *Program) parse(args []string, stderr io.Writer) error {
	f := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	f.SetOutput(stderr)
	if p.Seed != nil {
		f.Uint64Var(p.Seed, "seed", 0, "what determines the plan; 0: of the clock")
	}
	if p.Keep != nil {
		f.BoolVar(p.Keep, "keep", false, "leave the directory with all logs behind")
	}
	if p.Dir != nil {
		f.StringVar(p.Dir, "dir", "", "where the temporary directory is made; keep it short, for the sake of sockets")
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

// check describes what is wrong with what was read.
func (p *Program) check(f *flag.FlagSet) error {
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	case p.Check != nil:
		return p.Check()
	}
	return nil
}

// startLimit bounds the start of a cluster on a busy machine.
const startLimit = 5 * time.Minute

// With starts a cluster, for which start has a limited ctx, says how long that took, and lets play
// have it. What has been started is stopped in the end, also where the start or the play has
// failed.
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
