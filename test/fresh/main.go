package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program. It returns the exit code: 0 if all documents are right, 1 if a document is
// wrong or an error occurs, 2 for wrong usage.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == roleInside {
		return inside(args[1], stdout, stderr)
	}
	o := &options{}
	f := flag.NewFlagSet("fresh", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.Cache, "cache", ".cache/fresh", "folder in which the root is kept between runs")
	f.StringVar(&o.Mirror, "mirror", "", "mirror of Debian; by default apt's mirror")
	f.StringVar(&o.Suite, "suite", "bookworm", "release of Debian")
	f.BoolVar(&o.Cold, "cold", false, "compile everything, without this machine's build cache")
	f.BoolVar(&o.NoDemo, "no-demo", false, "do not run make demo")
	f.StringVar(&o.Log, "log", "_artifacts/fresh.log", "file for everything that the commands print")
	if err := f.Parse(args); err != nil {
		return 2
	}
	if f.NArg() > 0 {
		fmt.Fprintf(stderr, "fresh: argument %q: want only flags\n", f.Arg(0))
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := try(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "fresh:", err)
		return 1
	}
	return 0
}

// try makes the root directory, and carries out the documents in it.
func try(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	if os.Geteuid() != 0 {
		return fmt.Errorf("user id %d: want root, which can mount file systems", os.Geteuid())
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	packages, err := packagesOf(string(readme))
	if err != nil {
		return fmt.Errorf("README.md: %w", err)
	}
	for _, path := range []*string{&o.Cache, &o.Log} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	base, err := makeRoot(ctx, o, packages, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.Cache, "run-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := prepare(ctx, o, base, dir)
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "git", "status", "--porcelain").Output(); err == nil && len(out) > 0 {
		fmt.Fprintln(stderr, "fresh: uncommitted changes are not tried")
	}
	return p.start(ctx, stdout, stderr)
}

// prepare makes the inputs of the namespaces: the folders of a run, the repository's last commit as
// a bundle, and the paths of Go.
func prepare(ctx context.Context, o *options, base, dir string) (*place, error) {
	p := &place{Base: base, Dir: dir, Log: o.Log, Cold: o.Cold, NoDemo: o.NoDemo}
	for _, folder := range []string{p.root(), p.upper(), p.work(), p.cacheUpper(), p.cacheWork(), filepath.Dir(o.Log)} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	if out, err := exec.CommandContext(ctx, "git", "bundle", "create", "-q", p.bundle(), "HEAD").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("git bundle: %w: %s", err, out)
	}
	out, err := exec.CommandContext(ctx, "go", "env", "-json", "GOROOT", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	return p, json.Unmarshal(out, &p.Go)
}
