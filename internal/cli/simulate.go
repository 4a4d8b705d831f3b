package cli

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/internal/cli/table"
	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/page"
	"github.com/berth-dev/berth/internal/simulate/trace"
)

// simulateQuestion is a question of simulate.
type simulateQuestion struct {
	output                output
	trace, nodes, overlay string
	snapshot              string
	strategies            []string
	arrive, load, hours   float64
	timed                 bool
	failures, defrag      time.Duration
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

// NewSimulateCommand returns the verb that plays a load on nodes that need not exist.
func NewSimulateCommand() *cobra.Command {
	q := simulateQuestion{strategies: []string{"BestFit", "FGD"}, hours: 24, seed: 42, seeds: 1}
	cmd := &cobra.Command{
		Use:   "simulate --trace PODS --nodes NODES | --snapshot FILE [--trace PODS]",
		Short: "Play a load on a list of nodes, strategies side by side, and say what each serves",
		Long: `The pods of a list arrive at the nodes of another one, in an order drawn by a seed. Each strategy serves the same pods.
Without --load and --timed none leaves. With --load pods are drawn from the list, run as long as it says, and ask for so
much of the nodes on average; with --timed each comes and goes at its own times. Then a pod that finds no place waits, and
what a kubelet refuses is created again. Without --overlay a pod fits where amounts do, and GPUs come in thousandths. An
overlay lays a machine with NUMA nodes and a kubelet below each node, by name, or by the node's model as a file says; then all pods ask for whole CPUs and GPUs and are
Guaranteed, and a kubelet may refuse what a strategy chose that knows no NUMA nodes. With --snapshot a cluster as berth
snapshot has written it is the start: its nodes with their machines and kubelets, and what runs there, which stays until its
activeDeadlineSeconds are over, with their huge pages and devices. The pods of --trace come in addition; without it, the pods
that wait there; a note counts pods that cannot be played, and says why. Both lists are
comma-separated values, plain or packed by gzip:

  nodes  sn,cpu_milli,memory_mib,gpu[,model]
  pods   name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec][,members][,creation_time[,scheduled_time],deletion_time];
         a row with members is a gang of so many pods; or manifests of pods and workloads (.yaml, .json, a folder), which
         come at their creationTimestamp and run for their activeDeadlineSeconds; or synthetic:NAME: ` + strings.Join(simulate.SyntheticNames(), ", ") + `

Strategies: ` + strings.Join(strategyNames(), ", ") + `. docs/quality.md says what they are, and what is not modelled.`,
		Example: `  berth simulate --nodes nodes.csv.gz --trace pods.csv.gz --arrive 1.3
  berth simulate --nodes nodes.csv --trace synthetic:inference --arrive 1.3 --overlay sockets/restricted --strategy StockLeast,KAI,Berth
  berth simulate --nodes nodes.csv --trace synthetic:training --load 0.85 --overlay sockets/restricted --strategy StockLeast,Berth
  berth simulate --nodes nodes.csv --trace pods.csv --strategy BestFit,FGD --seeds 10 -o json
  berth simulate --nodes nodes.csv --trace pods.csv --arrive 1.3 --overlay quarters/restricted --strategy StockLeast,Berth -o html > page.html
  berth simulate --nodes nodes.csv --trace pods.csv --arrive 1.3 --overlay machines.yaml --strategy StockLeast,Berth
  berth simulate --snapshot cluster.berth --strategy StockLeast,Berth
  berth simulate --snapshot cluster.berth --trace synthetic:inference --load 0.3 --strategy Berth`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return q.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&q.trace, "trace", "", "list of pods, manifests, or synthetic:NAME")
	fs.StringVar(&q.overlay, "overlay", "", "machines and kubelets below the nodes: a file with machines by model (docs/quality.md), or SHAPE/POLICY: "+strings.Join(simulate.OverlayNames(), ", "))
	fs.StringVar(&q.nodes, "nodes", "", "list of nodes")
	fs.StringVar(&q.snapshot, "snapshot", "", "in place of --nodes: begin with the cluster in a file that berth snapshot wrote")
	fs.StringSliceVar(&q.strategies, "strategy", q.strategies, "strategies that are compared")
	fs.Float64Var(&q.arrive, "arrive", 0, "pods arrive, drawn from the list, until they ask for so many times the GPUs of all nodes; 0 is the list as it is")
	fs.Float64Var(&q.load, "load", 0, "pods come and go, and ask for so many times the GPUs of all nodes at a time, on average")
	fs.BoolVar(&q.timed, "timed", false, "pods come and go at the times of the list")
	fs.Float64Var(&q.hours, "hours", q.hours, "with --load, or --snapshot --timed: how long it goes on; with --load the first quarter does not count, and no pod runs longer than that")
	fs.DurationVar(&q.failures, "failures", 0, "with --load or --timed: mean time between two failures of a node, which is then away for an hour")
	fs.DurationVar(&q.defrag, "defrag", 0, "with --load or --timed: play each strategy a second time, and move pods so often to make room for pods that wait")
	fs.Int64Var(&q.seed, "seed", q.seed, "the first seed")
	fs.IntVar(&q.seeds, "seeds", q.seeds, "how many seeds, one after another")
	q.output.register(cmd, formatHTML)
	_ = cmd.RegisterFlagCompletionFunc("overlay", cobra.FixedCompletions(simulate.OverlayNames(), cobra.ShellCompDirectiveDefault))
	_ = cmd.RegisterFlagCompletionFunc("strategy", cobra.FixedCompletions(strategyNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func strategyNames() (names []string) {
	for _, s := range simulate.Strategies() {
		names = append(names, s.Name)
	}
	return names
}

func (q *simulateQuestion) run(cmd *cobra.Command) error {
	e, err := q.experiment(cmd)
	if err != nil {
		return err
	}
	e.Progress = progress(cmd)
	runs, err := e.Run(cmd.Context())
	if err != nil {
		return err
	}
	if q.output.is(formatHTML) {
		return q.page(cmd, &e, runs).Write(cmd.OutOrStdout())
	}
	all := simulate.Summarize(runs)
	value := map[string]any{"nodes": len(e.Nodes), "pods": len(e.Pods), "overlay": q.overlayName(), "snapshot": baseName(q.snapshot), "arrive": q.arrive, "seeds": e.Seeds, "strategies": all}
	print := simulateTable
	if e.Times != nil {
		value["load"], value["timed"], value["hours"], value["failures"] = q.load, q.timed, e.Times.For.Hours(), q.failures.String()
		print = timedTable
	}
	return printCleaned(cmd, q.output, value, func(w io.Writer) error { return print(w, all) })
}

// page is the answer to be looked at. It names the lists without their folders: it is made to be
// shown to others.
func (q *simulateQuestion) page(cmd *cobra.Command, e *simulate.Experiment, runs []simulate.Run) *page.Comparison {
	c := &page.Comparison{GPUs: trace.AskGPUs(e.Pods), NUMA: e.Ground != nil, Strategies: e.Strategies, Runs: runs, Command: "berth simulate"}
	names := map[string]string{"nodes": filepath.Base(cmp.Or(q.nodes, q.snapshot)), "snapshot": filepath.Base(q.snapshot), "trace": q.trace, "overlay": q.overlayName()}
	if q.trace == "" {
		names["trace"] = "the pods that wait there"
	} else if !strings.HasPrefix(q.trace, syntheticLoad) {
		names["trace"] = filepath.Base(q.trace)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := cmp.Or(names[f.Name], strings.Trim(f.Value.String(), "[]"))
		if f.Value.Type() == "bool" {
			c.Command += " --" + f.Name + "=" + value
			return
		}
		if strings.ContainsAny(value, " '\"\\$`;&|<>()*?\t\n") {
			value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
		c.Command += " --" + f.Name + " " + value
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

// overlayName is the overlay without its folder.
func (q *simulateQuestion) overlayName() string {
	if isOverlayFile(q.overlay) {
		return filepath.Base(q.overlay)
	}
	return q.overlay
}

// experiment checks the flags and reads the lists.
func (q *simulateQuestion) experiment(cmd *cobra.Command) (e simulate.Experiment, err error) {
	if e.Times, err = q.times(cmd); err != nil {
		return e, err
	}
	e.Failures = q.failures
	switch {
	case q.trace == "" && q.snapshot == "":
		return e, Usagef("--trace: want a file with pods")
	case q.nodes == "" && q.snapshot == "":
		return e, Usagef("--nodes: want a file with nodes, or --snapshot")
	case q.snapshot != "" && (q.nodes != "" || q.overlay != ""):
		return e, Usagef("--snapshot %s: want it without --nodes and --overlay: it has nodes with machines", q.snapshot)
	case !(q.arrive >= 0 && q.arrive <= maxArrive):
		return e, Usagef("--arrive %v: want 0 to %d", q.arrive, maxArrive)
	case q.seeds < 1 || q.seeds > maxSeeds:
		return e, Usagef("--seeds %d: want 1 to %d", q.seeds, maxSeeds)
	}
	if err := q.output.check(); err != nil {
		return e, err
	}
	if e.Strategies, err = simulate.StrategiesOf(q.strategies...); err != nil {
		return e, Usagef("--strategy: %w", err)
	}
	if e.Strategies, err = q.defragmented(e.Strategies); err != nil {
		return e, err
	}
	e.Arrive, e.Record = q.arrive, true
	for i := range q.seeds {
		e.Seeds = append(e.Seeds, q.seed+int64(i))
	}
	if err := q.read(cmd, &e); err != nil {
		return e, err
	}
	for i := range e.Pods {
		if p := &e.Pods[i]; p.Count() > 1 && e.Times == nil {
			return e, Usagef("%s: pod %.60q is a gang of %d: want --load or --timed: without them nothing waits", q.source(), p.Name, p.Members)
		}
	}
	return e, q.lay(&e)
}

// span is how long pods come.
func (q *simulateQuestion) span() time.Duration {
	return time.Duration(q.hours * float64(time.Hour))
}

// defragmented has each strategy play with and without moves of pods.
func (q *simulateQuestion) defragmented(all []simulate.Strategy) (out []simulate.Strategy, err error) {
	if q.defrag == 0 {
		return all, nil
	}
	if q.overlay == "" && q.snapshot == "" {
		return nil, Usagef("--defrag: want --overlay or --snapshot too: moves are planned by NUMA nodes")
	}
	for _, s := range all {
		if s.Blind {
			return nil, Usagef("--defrag: strategy %s knows no NUMA nodes: want one that knows them", s.Name)
		}
		out = append(out, s, s.Defragmented(q.defrag))
	}
	return out, nil
}

// source is where the pods come from.
func (q *simulateQuestion) source() string {
	if q.trace == "" {
		return "--snapshot " + q.snapshot
	}
	return "--trace " + q.trace
}

// read reads nodes and pods.
func (q *simulateQuestion) read(cmd *cobra.Command, e *simulate.Experiment) (err error) {
	if q.snapshot != "" {
		err = startFrom(cmd, q.snapshot, q.trace != "", e)
	} else {
		e.Nodes, err = readList(q.nodes, trace.ReadNodes)
	}
	if err == nil && q.trace != "" {
		e.Pods, err = readLoad(cmd, q.trace, e.Times != nil, e.Start.Others())
	}
	return err
}

// times reads when pods come and go; nil where none leaves.
func (q *simulateQuestion) times(cmd *cobra.Command) (*trace.Times, error) {
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	switch {
	case given("load") && given("arrive"), given("timed") && given("arrive"):
		return nil, Usagef("--arrive: want it without --load and --timed: with --arrive no pod leaves")
	case given("load") && q.timed:
		return nil, Usagef("--timed: want it without --load, which draws times for a load")
	case given("load") && !(q.load > 0 && q.load <= maxLoad):
		return nil, Usagef("--load %v: want more than 0, and at most %d", q.load, maxLoad)
	case given("hours") && !given("load") && (q.trace != "" || !q.timed):
		return nil, Usagef("--hours: want --load too: without it the list says when pods come")
	case !(q.hours >= minHours && q.hours <= maxHours):
		return nil, Usagef("--hours %v: want %v to %d", q.hours, minHours, maxHours)
	case given("failures") && !given("load") && !q.timed:
		return nil, Usagef("--failures: want --load or --timed too: without them no time passes")
	case given("failures") && q.failures < time.Minute:
		return nil, Usagef("--failures %s: want at least 1m", q.failures)
	case given("defrag") && !given("load") && !q.timed:
		return nil, Usagef("--defrag: want --load or --timed too: without them no pod waits")
	case given("defrag") && q.defrag < time.Minute:
		return nil, Usagef("--defrag %s: want at least 1m", q.defrag)
	case given("load"):
		return &trace.Times{Load: q.load, For: q.span()}, nil
	case q.timed && q.trace == "":
		return &trace.Times{For: q.span()}, nil
	case q.timed:
		return &trace.Times{}, nil
	}
	return nil, nil
}

// lay lays the overlay below the nodes, where there is one.
func (q *simulateQuestion) lay(e *simulate.Experiment) error {
	if q.snapshot != "" {
		e.Pods = simulate.Whole(e.Pods)
		return nil
	}
	if q.overlay == "" {
		for i := range e.Strategies {
			if s := &e.Strategies[i]; s.NUMA {
				return Usagef("--strategy %s: it goes by NUMA nodes: want --overlay or --snapshot too", s.Name)
			}
		}
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
	o, err := simulate.ParseOverlay(q.overlay)
	if err != nil {
		return Usagef("--overlay: %w; or a file with machines by model", err)
	}
	e.Ground, err = simulate.NewNUMA(e.Nodes, simulate.Overlays{Rest: &o})
	return err
}

// progressEvery is how often progress is told.
const progressEvery = time.Second / 2

// progress tells on a terminal how many runs have ended.
func progress(cmd *cobra.Command) func(done float64, all int) {
	w := cmd.ErrOrStderr()
	if _, _, terminal := table.Size(w); !terminal {
		return nil
	}
	var last time.Time
	return func(done float64, all int) {
		end := "\r"
		if done == float64(all) {
			end = "\n"
		} else if time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		fmt.Fprintf(w, "%.1f of %d runs%s", done, all, end)
	}
}

func simulateTable(w io.Writer, all []simulate.Summary) error {
	var rows [][]string
	for i := range all {
		s := &all[i]
		served := "-"
		if n := len(s.Curve); n > 0 {
			served = meanText(s.Curve[n-1].Served)
		}
		rows = append(rows, []string{s.Strategy, strconv.Itoa(s.Runs), served, meanText(s.Aligned), meanText(s.Pods), meanText(s.Refusals), meanText(s.NUMANodes)})
	}
	return columns(w, "STRATEGY | RUNS | IN USE % | ALIGNED % | PODS SERVED % | REFUSALS PER POD | NUMA NODES PER POD", rows)
}

// timedTable is for pods that come and go.
func timedTable(w io.Writer, all []simulate.Summary) error {
	var rows [][]string
	head := "STRATEGY | RUNS | ALIGNED % | GPU HOURS ALIGNED % | CPU HOURS ALIGNED % | WAITING P50 | P99 | PODS REFUSED % | GANGS WHOLE % | NUMA NODES PER POD"
	moves := slices.ContainsFunc(all, func(s simulate.Summary) bool { return s.Timed.Moves != nil })
	if moves {
		head += " | MOVES | ROOM MADE FOR"
	}
	for i := range all {
		s, t := &all[i], all[i].Timed
		gangs := "-"
		if t.Gangs > 0 {
			gangs = meanText(t.Whole)
		}
		row := []string{s.Strategy, strconv.Itoa(s.Runs), meanText(s.Aligned), meanText(t.GPUHoursAligned), meanText(t.CPUHoursAligned),
			waitText(t.WaitingP50), waitText(t.WaitingP99), meanText(t.Refused), gangs, meanText(s.NUMANodes)}
		switch {
		case moves && t.Moves != nil:
			row = append(row, meanText(*t.Moves), meanText(*t.MadeRoom))
		case moves:
			row = append(row, "-", "-")
		}
		rows = append(rows, row)
	}
	return columns(w, head, rows)
}

// waitText prints how long pods wait: the mean of the runs.
func waitText(m simulate.Mean) string {
	return time.Duration(m.Mean * float64(time.Second)).Round(time.Second).String()
}

// meanText prints a mean, and how far runs lie apart.
func meanText(m simulate.Mean) string {
	if m.Deviation == 0 {
		return fmt.Sprintf("%.2f", m.Mean)
	}
	return fmt.Sprintf("%.2f ± %.2f", m.Mean, m.Deviation)
}

// baseName is the last element of a path; "" of "".
func baseName(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Base(path)
}
