package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/test/suites/under"
)

// summary is the last line of the output.
type summary struct {
	Kubernetes string `json:"kubernetes"` // the release of tests and scheduler
	Packages   int    `json:"packages"`
	Tests      int    `json:"tests"`
	PassStock  int    `json:"passStock"`
	PassBerth  int    `json:"passBerth"`
	// Differ counts tests that pass with kube-scheduler but not with Berth, also when repeated.
	Differ int `json:"differ"`
	// Slower counts packages that take more than 1.3 times as long with Berth.
	// Packages taint and preemption do. Each of their tests starts another scheduler, which finds
	// the Lease of the one before it, and waits: up to 2 s before its first cycle, and settleAfter
	// (5 s) before it places pods that could be pinned.
	Slower int `json:"slower"`
	// NotRun counts packages in which no test finished.
	NotRun int `json:"notRun"`
}

type options struct {
	packages      []string
	modfile, tags string
	repeat        int
	limit         time.Duration
	keep          bool
}

func main() {
	var o options
	packages := flag.String("packages", "", "packages below test/integration/scheduler, separated by commas; empty: all; .: the top package")
	flag.StringVar(&o.modfile, "modfile", "go.mod", "the go.mod with the release of Kubernetes whose tests and scheduler are built")
	flag.StringVar(&o.tags, "tags", "", "the build tag of that release")
	flag.IntVar(&o.repeat, "repeat", 3, "how often a test that differs is repeated under each scheduler")
	flag.DurationVar(&o.limit, "limit", time.Hour, "how long one package may take under one scheduler")
	flag.BoolVar(&o.keep, "keep", false, "keep the temporary folder, with the log of all tests")
	flag.Parse()
	if *packages != "" {
		o.packages = strings.Split(*packages, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
	line, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
	if s.Differ+s.NotRun > 0 {
		os.Exit(1)
	}
}

// serving is the package that starts kube-scheduler with flags and does not call its New.
const serving = "scheduler/serving"

func run(ctx context.Context, o options) (s summary, err error) {
	root, err := os.Getwd()
	if err != nil {
		return s, err
	}
	tmp, err := os.MkdirTemp("", "scheduler-suites-")
	if err != nil {
		return s, err
	}
	fmt.Println("files and log:", tmp)
	defer func() {
		if !o.keep && err == nil {
			_ = os.RemoveAll(tmp)
		}
	}()
	found, err := output(ctx, "go", "list", "-m", "-modfile="+o.modfile, "-f", "{{.Version}} {{.Dir}}", kubernetes)
	if err != nil {
		return s, err
	}
	var dir string
	s.Kubernetes, dir, _ = strings.Cut(found, " ")
	if dir == "" {
		return s, fmt.Errorf("%s %s is not in the module cache: go mod download -modfile=%s %s", kubernetes, s.Kubernetes, o.modfile, kubernetes)
	}
	all, overlay, err := copyTests(dir, root, tmp)
	if err != nil {
		return s, err
	}
	modfile, err := copyModule(dir, o.modfile, tmp)
	if err != nil {
		return s, err
	}
	build := []string{"-mod=mod", "-modfile=" + modfile, "-tags=" + o.tags}
	chosen, err := choose(all, o.packages)
	if err != nil {
		return s, err
	}
	if _, err := output(ctx, "go", slices.Concat([]string{"build"}, build, []string{"-o", filepath.Join(tmp, "etcd"), "go.etcd.io/etcd/server/v3"})...); err != nil {
		return s, err
	}
	log, err := os.Create(filepath.Join(tmp, "log"))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	for _, p := range chosen {
		t := &suite{binary: filepath.Join(tmp, strings.ReplaceAll(p, "/", "-")+".test"), tmp: tmp, limit: o.limit, log: log}
		if _, err := output(ctx, "go", slices.Concat([]string{"test", "-c", "-vet=off"}, build, []string{"-overlay=" + overlay, "-o", t.binary, "./" + copies + "/" + p})...); err != nil {
			return s, err
		}
		switch err := s.add(ctx, t, p, o.repeat); {
		case ctx.Err() != nil:
			return s, ctx.Err()
		case errors.Is(err, errNoTest):
			fmt.Printf("%s: %v\n", p, err)
			s.NotRun++
			o.keep = true
		case err != nil:
			return s, err
		}
		_ = os.Remove(t.binary) // saves a quarter of a gigabyte
	}
	return s, nil
}

// choose returns the packages to run. The error names a package that does not exist.
func choose(all, wanted []string) ([]string, error) {
	all = slices.DeleteFunc(all, func(p string) bool { return p == serving })
	if wanted == nil {
		return all, nil
	}
	var out []string
	for _, w := range wanted {
		p := strings.TrimSuffix("scheduler/"+w, "/.")
		if !slices.Contains(all, p) {
			return nil, fmt.Errorf("-packages: %q: want some of %s", w, strings.ReplaceAll(strings.Join(all, ", "), "scheduler/", ""))
		}
		out = append(out, p)
	}
	return out, nil
}

// add runs a package's tests with both schedulers.
func (s *summary) add(ctx context.Context, t *suite, name string, repeat int) error {
	stock, err := t.runAll(ctx, "stock", repeat)
	if err != nil {
		return err
	}
	berth, err := t.runAll(ctx, under.Berth, repeat)
	if err != nil {
		return err
	}
	s.Packages++
	s.Tests += len(stock.passed) + len(stock.failed)
	s.PassStock += len(stock.passed)
	s.PassBerth += len(berth.passed)
	if berth.took > stock.took*13/10 {
		s.Slower++
	}
	fmt.Printf("%s: %d pass under kube-scheduler in %s, %d under Berth in %s\n", name, len(stock.passed), stock.took.Round(time.Second), len(berth.passed), berth.took.Round(time.Second))
	for _, test := range differing(stock, berth) {
		differs, err := t.differs(ctx, test, repeat)
		if err != nil {
			return err
		}
		if differs {
			s.Differ++
		}
	}
	return nil
}

// output runs a command at the root of the repository. The error contains the command's output.
func output(ctx context.Context, name string, args ...string) (string, error) {
	var errs strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(out)), nil
}
