// Command times prints how long the parts of runs of go test took, from the action graphs that go
// test writes with -debug-actiongraph: for each package the seconds that its tests ran, and the
// seconds in which it and its test binary were compiled, linked and vetted. Each argument is one
// graph.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

const module = "github.com/berth-dev/berth"

func main() {
	top := flag.Int("top", 25, "how many packages to print")
	flag.Parse()
	if err := run(os.Stdout, flag.Args(), *top); err != nil {
		fmt.Fprintln(os.Stderr, "times:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, files []string, top int) error {
	of := spans{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var actions []action
		if err := json.Unmarshal(text, &actions); err != nil {
			return fmt.Errorf("%s: %w: want what go test -debug-actiongraph writes", file, err)
		}
		of.add(actions)
	}
	of.print(out, top)
	return nil
}

// action is one step in go test's action graph.
type action struct {
	Mode, Package       string
	TimeStart, TimeDone time.Time
}

// span has the times of one package.
type span struct{ run, build time.Duration }

// spans has the times by package. Packages of other modules are counted together as others.
type spans map[string]span

const others = "other modules, and Go itself"

func (of spans) add(actions []action) {
	for _, a := range actions {
		took := a.TimeDone.Sub(a.TimeStart)
		if a.TimeStart.IsZero() || took < 0 { // the step did not run
			continue
		}
		name := packageOf(a.Package)
		s := of[name]
		switch a.Mode {
		case "test run":
			s.run += took
		case "build", "link", "vet":
			s.build += took
		}
		of[name] = s
	}
}

// packageOf returns the folder of Berth to which a step belongs. For go test, test binaries and
// external tests are separate packages: a.test, a_test, a [a.test].
func packageOf(name string) string {
	name, _, _ = strings.Cut(name, " ")
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".test"), "_test")
	if name != module && !strings.HasPrefix(name, module+"/") {
		return others
	}
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(name, module), "/"), ".")
}

func (of spans) print(out io.Writer, top int) {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(of[b].run+of[b].build, of[a].run+of[a].build), cmp.Compare(a, b))
	})
	var all, rest span
	for i, name := range names {
		s := of[name]
		all = all.and(s)
		if i >= top {
			rest = rest.and(s)
		}
	}
	fmt.Fprintln(out, "   run s  build s  (one package per processor at a time)")
	for _, name := range names[:min(top, len(names))] {
		line(out, of[name], name)
	}
	if len(names) > top {
		line(out, rest, fmt.Sprintf("%d more", len(names)-top))
	}
	line(out, all, "in all")
}

func (s span) and(t span) span { return span{s.run + t.run, s.build + t.build} }

func line(out io.Writer, s span, name string) {
	fmt.Fprintf(out, "%8.1f %8.1f  %s\n", s.run.Seconds(), s.build.Seconds(), name)
}
