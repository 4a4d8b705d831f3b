// Play simulates a load on a list of nodes with given machines, and prints the results of
// strategies side by side (README.md):
//
//	go run ./play -nodes nodes.csv.gz -trace pods.csv.gz -arrive 1.3 -overlay sockets/restricted
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/lab"
	"github.com/berth-dev/berth/lab/page"
)

// question has the flags.
type question struct {
	flags                 *flag.FlagSet
	trace, nodes, overlay string
	strategies, output    string
	arrive, load, hours   float64
	timed                 bool
	defrag                time.Duration
	seed                  int64
	seeds                 int
}

// The bounds of a simulation.
const (
	maxArrive = 10
	maxSeeds  = 1000
	maxLoad   = 10
	minHours  = 0.1
	maxHours  = 24 * 365
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "play:", err)
		os.Exit(1)
	}
}

// run runs the program with these arguments.
func run(ctx context.Context, args []string, out, errs io.Writer) error {
	q := newQuestion(errs)
	if err := q.flags.Parse(args); err != nil {
		return err
	}
	if q.flags.NArg() > 0 {
		return fmt.Errorf("%q: want flags only", q.flags.Arg(0))
	}
	e, err := q.experiment()
	if err != nil {
		return err
	}
	gpus := trace.AskGPUs(e.Pods)
	filled := &page.Recorder{Seed: q.seed, GPUs: gpus}
	e.Unused, e.Watch = true, filled.Watch
	runs, err := e.Run(ctx)
	if err != nil {
		return err
	}
	all := simulate.Summarize(runs)
	switch {
	case q.output == "html":
		c := q.page(&e)
		c.GPUs, c.Runs, c.Filled = gpus, runs, filled
		return c.Write(out)
	case q.output == "json":
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(q.value(&e, all))
	case e.Times != nil:
		return timedTable(out, all)
	}
	return arrivalsTable(out, all)
}

func newQuestion(errs io.Writer) *question {
	q := &question{flags: flag.NewFlagSet("play", flag.ContinueOnError)}
	fs := q.flags
	fs.SetOutput(errs)
	var names []string
	for _, s := range lab.Strategies() {
		names = append(names, s.Name)
	}
	fs.StringVar(&q.nodes, "nodes", "", "list of nodes: sn,cpu_milli,memory_mib,gpu[,model]")
	fs.StringVar(&q.trace, "trace", "", "list of pods (README.md), or synthetic:NAME: "+strings.Join(lab.SyntheticNames(), ", "))
	fs.StringVar(&q.overlay, "overlay", "", "machines and kubelets below the nodes: a file with machines by model, or SHAPE/POLICY: "+strings.Join(lab.OverlayNames(), ", "))
	fs.StringVar(&q.strategies, "strategy", "BestFit,FGD", "strategies that are compared: "+strings.Join(names, ", "))
	fs.StringVar(&q.output, "o", "table", "table, json or html")
	fs.Float64Var(&q.arrive, "arrive", 0, "pods arrive, drawn from the list, until they ask for so many times the GPUs of all nodes; 0 is the list as it is")
	fs.Float64Var(&q.load, "load", 0, "pods come and go, and ask for so many times the GPUs of all nodes at a time, on average")
	fs.BoolVar(&q.timed, "timed", false, "pods come and go at the times of the list")
	fs.Float64Var(&q.hours, "hours", 24, "with -load: how long it goes on; the first quarter does not count, and no pod runs longer than that")
	fs.DurationVar(&q.defrag, "defrag", 0, "with -load or -timed: play each strategy a second time, and move pods so often to make room for pods that wait")
	fs.Int64Var(&q.seed, "seed", 42, "the first seed")
	fs.IntVar(&q.seeds, "seeds", 1, "how many seeds, one after another")
	return q
}

// given reports whether a flag is set.
func (q *question) given(name string) (is bool) {
	q.flags.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// check refuses values that no experiment can have.
func (q *question) check() error {
	switch {
	case q.trace == "":
		return errors.New("-trace: want a file with pods")
	case q.nodes == "":
		return errors.New("-nodes: want a file with nodes")
	case q.output != "table" && q.output != "json" && q.output != "html":
		return fmt.Errorf("-o %q: want table, json or html", q.output)
	case !(q.arrive >= 0 && q.arrive <= maxArrive):
		return fmt.Errorf("-arrive %v: want 0 to %d", q.arrive, maxArrive)
	case q.seeds < 1 || q.seeds > maxSeeds:
		return fmt.Errorf("-seeds %d: want 1 to %d", q.seeds, maxSeeds)
	}
	return nil
}

// times sets when pods arrive and end, if the flags ask for it.
func (q *question) times(e *simulate.Experiment) error {
	load, leave := q.given("load"), q.given("load") || q.timed
	switch {
	case leave && q.given("arrive"):
		return errors.New("-arrive: want this flag without -load and -timed: with -arrive no pod leaves")
	case load && q.timed:
		return errors.New("-timed: want this flag without -load, which draws times for a load")
	case load && !(q.load > 0 && q.load <= maxLoad):
		return fmt.Errorf("-load %v: want more than 0, and at most %d", q.load, maxLoad)
	case q.given("hours") && !load:
		return errors.New("-hours: want -load too: without it the list has the arrival times")
	case !(q.hours >= minHours && q.hours <= maxHours):
		return fmt.Errorf("-hours %v: want %v to %d", q.hours, minHours, maxHours)
	case !leave && q.given("defrag"):
		return errors.New("-defrag: want -load or -timed too: without them no time passes")
	case q.given("defrag") && q.defrag < time.Minute:
		return fmt.Errorf("-defrag %s: want at least 1m", q.defrag)
	case load || q.timed:
		e.Times = &trace.Times{}
	}
	return nil
}

// experiment reads the lists.
func (q *question) experiment() (e simulate.Experiment, err error) {
	if err = q.check(); err != nil {
		return e, err
	}
	if err = q.times(&e); err != nil {
		return e, err
	}
	if e.Strategies, err = q.compared(); err != nil {
		return e, err
	}
	for i := range q.seeds {
		e.Seeds = append(e.Seeds, q.seed+int64(i))
	}
	if e.Nodes, err = readList(q.nodes, lab.ReadNodes); err != nil {
		return e, err
	}
	if name, is := strings.CutPrefix(q.trace, "synthetic:"); is {
		e.Pods, err = lab.Synthetic(name, e.Times != nil)
	} else {
		e.Pods, err = readList(q.trace, lab.ReadPods)
	}
	if err != nil {
		return e, err
	}
	for i := range e.Pods {
		if p := &e.Pods[i]; p.Count() > 1 && e.Times == nil {
			return e, fmt.Errorf("-trace %s: pod %.60q stands for a gang of %d: want -load or -timed, because members of a gang wait for each other", q.trace, p.Name, p.Members)
		}
	}
	if err = q.lay(&e); err != nil {
		return e, err
	}
	e.Arrive = lab.Arrive(e.Nodes, e.Pods, q.arrive)
	if q.given("load") {
		e.Times = lab.Load(e.Nodes, e.Pods, q.load, time.Duration(q.hours*float64(time.Hour)))
	}
	return e, nil
}

// compared are the strategies; with -defrag each appears a second time.
func (q *question) compared() (out []simulate.Strategy, err error) {
	all, err := lab.StrategiesOf(strings.Split(q.strategies, ",")...)
	for _, s := range all {
		switch {
		case s.NUMA && q.overlay == "":
			return nil, fmt.Errorf("-strategy %s: want -overlay too: the strategy needs NUMA nodes", s.Name)
		case q.defrag > 0 && (s.Blind || q.overlay == ""):
			return nil, fmt.Errorf("-defrag: strategy %s: want one that knows NUMA nodes, and -overlay", s.Name)
		}
		if out = append(out, s); q.defrag > 0 {
			out = append(out, s.Defragmented(q.defrag))
		}
	}
	return out, err
}

// lay applies the overlay, if there is one, to the nodes.
func (q *question) lay(e *simulate.Experiment) error {
	if q.overlay == "" {
		return nil
	}
	e.Pods = simulate.Whole(e.Pods)
	if isOverlayFile(q.overlay) {
		o, err := openOverlays(q.overlay, e.Nodes)
		if err == nil {
			e.Ground, err = o.ground(e.Nodes)
		}
		return err
	}
	o, err := lab.ParseOverlay(q.overlay)
	if err != nil {
		return fmt.Errorf("-overlay: %w; or a file with machines by model", err)
	}
	e.Ground, err = lab.NewNUMA(e.Nodes, lab.Overlays{Rest: &o})
	return err
}

func readList[T any](name string, read func(io.Reader, string) ([]T, error)) ([]T, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out, err := read(f, name)
	if err == nil && len(out) == 0 {
		return nil, fmt.Errorf("%s: no rows: want at least one", name)
	}
	return out, err
}

// overlayName is the overlay without its folder.
func (q *question) overlayName() string {
	if isOverlayFile(q.overlay) {
		return filepath.Base(q.overlay)
	}
	return q.overlay
}

// value is the output as JSON.
func (q *question) value(e *simulate.Experiment, all []simulate.Summary) map[string]any {
	value := map[string]any{"nodes": len(e.Nodes), "pods": len(e.Pods), "overlay": q.overlayName(), "arrive": q.arrive, "seeds": e.Seeds, "strategies": all}
	if e.Times != nil {
		value["load"], value["timed"], value["hours"] = q.load, q.timed, e.Times.For.Hours()
	}
	return value
}

// page is the output as HTML. It names the lists without their folders, because users show it to
// others.
func (q *question) page(e *simulate.Experiment) *page.Comparison {
	c := &page.Comparison{NUMA: e.Ground != nil, Strategies: e.Strategies, Command: "play"}
	names := map[string]string{"nodes": filepath.Base(q.nodes), "trace": q.trace, "overlay": q.overlayName()}
	if !strings.HasPrefix(q.trace, "synthetic:") {
		names["trace"] = filepath.Base(q.trace)
	}
	q.flags.Visit(func(f *flag.Flag) {
		value := cmp.Or(names[f.Name], f.Value.String())
		if strings.ContainsAny(value, " '\"\\$`;&|<>()*?\t\n") {
			value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
		c.Command += " -" + f.Name + "=" + value
	})
	fact := func(name, value string) { c.Facts = append(c.Facts, page.Fact{Name: name, Value: value}) }
	fact("nodes", fmt.Sprintf("%d, %s", len(e.Nodes), names["nodes"]))
	fact("pods", names["trace"])
	if asked := max(q.arrive, q.load); asked > 0 {
		fact("asked for", fmt.Sprintf("%.0f %% of what the nodes have", 100*asked))
	}
	if q.overlay != "" {
		fact("machines/kubelets", q.overlayName())
	}
	fact("seeds", strconv.Itoa(q.seeds))
	return c
}

// table prints cells in columns, the header first.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

func arrivalsTable(w io.Writer, all []simulate.Summary) error {
	rows := [][]string{{"STRATEGY", "RUNS", "IN USE %", "ALIGNED %", "PODS SERVED %", "REFUSALS PER POD", "NUMA NODES PER POD"}}
	for i := range all {
		s, served := &all[i], "-"
		if n := len(s.Curve); n > 0 {
			served = s.Curve[n-1].Served.String()
		}
		rows = append(rows, []string{s.Strategy, strconv.Itoa(s.Runs), served, s.Aligned.String(), s.Pods.String(), s.Refusals.String(), s.NUMANodes.String()})
	}
	return table(w, rows)
}

// timedTable is for pods that come and go.
func timedTable(w io.Writer, all []simulate.Summary) error {
	rows := [][]string{{"STRATEGY", "RUNS", "ALIGNED %", "GPU HOURS ALIGNED %", "CPU HOURS ALIGNED %", "WAITING P50", "P99", "PODS REFUSED %", "GANGS WHOLE %", "NUMA NODES PER POD", "MOVES", "ROOM MADE FOR"}}
	for i := range all {
		s, t := &all[i], all[i].Timed
		gangs, moves, rooms := "-", "-", "-"
		if t.Gangs > 0 {
			gangs = t.Whole.String()
		}
		if t.Moves != nil {
			moves, rooms = t.Moves.String(), t.MadeRoom.String()
		}
		rows = append(rows, []string{s.Strategy, strconv.Itoa(s.Runs), s.Aligned.String(), t.GPUHoursAligned.String(), t.CPUHoursAligned.String(),
			t.WaitingP50.Duration().String(), t.WaitingP99.Duration().String(), t.Refused.String(), gangs, s.NUMANodes.String(), moves, rooms})
	}
	return table(w, rows)
}
