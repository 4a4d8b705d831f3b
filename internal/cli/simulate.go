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

	"github.com/berth-dev/berth/internal/cli/table"
	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
)

type simulateQuestion struct {
	cluster    clusterFlags
	output     output
	files      []string
	strategies []string
	hours      float64
	timed      bool
	defrag     time.Duration
	seed       int64
	seeds      int
	change     nodeChange
	// partly is errPartly if some documents of the files could not be read.
	partly error
}

// The limits of a simulation.
const (
	maxSeeds = 1000
	minHours = 0.1
	maxHours = 24 * 365
)

// NewSimulateCommand returns the verb that simulates pods on the nodes of a cluster.
func NewSimulateCommand() *cobra.Command {
	q := simulateQuestion{strategies: []string{"StockLeast", "Berth"}, hours: 24, seed: 42, seeds: 1}
	cmd := &cobra.Command{
		Use:   "simulate [--trace FILES]",
		Short: "Play pods on the nodes of a cluster, under Berth and under kube-scheduler, and compare the results",
		Long: `The simulation starts with the nodes and running pods of the cluster, or of the file of --snapshot. The
waiting pods arrive, or the pods of --trace (files with pods and workloads), in an order drawn from a seed. Each
strategy serves the same pods. All pods count as Guaranteed, and their CPUs are rounded up. A note names pods that
cannot be simulated, with the reason.

Without --timed no pod leaves. With --timed each pod, also a running one, leaves after its activeDeadlineSeconds. Pods
of --trace arrive at their creationTimestamp, and waiting pods when the simulation begins. A pod without a node then
waits, and a controller recreates a pod that a kubelet rejects. Gangs need --timed. --defrag needs --timed, and a
--strategy that considers NUMA nodes, such as Berth.

StockLeast and StockMost are kube-scheduler's scores, which ignore NUMA nodes. Berth uses the
best of Berth's candidates. BerthKeep is Berth with keep: cpusNearDevices. BerthProfile also ranks the candidates by
kube-scheduler's scores, as the chart's profile does.

--more adds empty copies of an existing node, with the requests of its DaemonSets. --without removes nodes; their pods
arrive again, before all others.`,
		Example: `  berth simulate
  berth simulate --snapshot cluster.berth --strategy StockLeast,Berth
  berth simulate --snapshot cluster.berth --timed --hours 24 --strategy Berth
  berth simulate --snapshot cluster.berth --trace load.yaml -o json
  berth simulate --snapshot cluster.berth --more gpu-1=2 --without old-1,old-2`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return q.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&q.files, "trace", nil, "files or folders with the pods and workloads that arrive, YAML or JSON; - is stdin; may be repeated")
	fs.StringSliceVar(&q.strategies, "strategy", q.strategies, "strategies that are compared: "+strings.Join(strategyNames(), ", "))
	fs.BoolVar(&q.timed, "timed", false, "each pod arrives at its creationTimestamp and runs for its activeDeadlineSeconds")
	fs.Float64Var(&q.hours, "hours", q.hours, "with --timed and without --trace: how many hours are simulated")
	fs.DurationVar(&q.defrag, "defrag", 0, "with --timed: play each strategy a second time, and move pods at this interval to make room for pods that wait")
	fs.Int64Var(&q.seed, "seed", q.seed, "the first seed")
	fs.IntVar(&q.seeds, "seeds", q.seeds, "number of simulations of each strategy, each with the next seed")
	fs.StringToIntVar(&q.change.more, "more", nil, "add COUNT empty nodes like this one: NODE=COUNT")
	fs.StringSliceVar(&q.change.without, "without", nil, "nodes that are removed before the simulation; their pods arrive again")
	q.cluster.register(cmd)
	q.output.register(cmd)
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
	all := simulate.Summarize(runs)
	value := map[string]any{"nodes": len(e.Nodes), "pods": len(e.Pods), "overlay": "", "snapshot": baseName(q.cluster.snapshot), "seeds": e.Seeds, "strategies": all}
	print := simulateTable
	if e.Times != nil {
		value["timed"], value["hours"] = q.timed, e.Times.For.Hours()
		print = timedTable
	}
	return cmp.Or(printCleaned(cmd, q.output, value, func(w io.Writer) error { return print(w, all) }), q.partly)
}

// experiment checks the flags, and reads the cluster and the pods.
func (q *simulateQuestion) experiment(cmd *cobra.Command) (e simulate.Experiment, err error) {
	if e.Times, err = q.times(cmd); err != nil {
		return e, err
	}
	if q.seeds < 1 || q.seeds > maxSeeds {
		return e, Usagef("--seeds %d: want 1 to %d", q.seeds, maxSeeds)
	}
	if e.Strategies, err = simulate.StrategiesOf(simulate.Strategies(), q.strategies...); err != nil {
		return e, Usagef("--strategy: %w", err)
	}
	if e.Strategies, err = q.defragmented(e.Strategies); err != nil {
		return e, err
	}
	if err := q.change.check(0); err != nil {
		return e, err
	}
	e.Unused = true
	for i := range q.seeds {
		e.Seeds = append(e.Seeds, q.seed+int64(i))
	}
	var pods manifests
	if len(q.files) > 0 {
		if pods, err = readManifests(cmd, q.files, false); err != nil {
			return e, err
		}
	}
	if err := q.start(cmd, &e); err != nil {
		return e, err
	}
	if len(q.files) > 0 {
		q.partly = pods.partly()
		rows, notes := manifestLoad(pods.Templates, e.Times, e.Start.Others())
		writeNotes(cmd, append(pods.Notes, notes...))
		e.Pods = append(e.Pods, rows...)
	}
	switch {
	case len(e.Pods) == 0 && len(q.files) > 0:
		return e, fmt.Errorf("%s: no pod of these files can be simulated; the notes tell why", q.source())
	case len(e.Pods) == 0:
		return e, fmt.Errorf("%s: there is no pod to simulate: want a waiting pod that can be simulated, or --trace with files of pods", q.source())
	}
	for i := range e.Pods {
		if p := &e.Pods[i]; p.Count() > 1 && e.Times == nil {
			return e, Usagef("%s: pod %.60q stands for a gang of %d: want --timed, because members of a gang wait for each other, and without --timed no pod waits", q.source(), p.Name, p.Members)
		}
	}
	e.Pods = simulate.Whole(e.Pods)
	return e, nil
}

// span returns the value of --hours.
func (q *simulateQuestion) span() time.Duration {
	return time.Duration(q.hours * float64(time.Hour))
}

// defragmented returns the strategies. With --defrag, it returns each one twice: without and with
// moves of pods.
func (q *simulateQuestion) defragmented(all []simulate.Strategy) (out []simulate.Strategy, err error) {
	if q.defrag == 0 {
		return all, nil
	}
	for _, s := range all {
		if s.Blind {
			return nil, Usagef("--defrag: strategy %s ignores NUMA nodes: want one that considers them", s.Name)
		}
		out = append(out, s, s.Defragmented(q.defrag))
	}
	return out, nil
}

// where names the cluster in errors.
func (q *simulateQuestion) where() string {
	if q.cluster.snapshot != "" {
		return "--snapshot " + q.cluster.snapshot
	}
	return "the cluster"
}

// source names the source of the pods.
func (q *simulateQuestion) source() string {
	if len(q.files) == 0 {
		return q.where()
	}
	return "--trace " + strings.Join(q.files, ",")
}

// times returns the times when pods arrive and end. It returns nil for a simulation without times.
func (q *simulateQuestion) times(cmd *cobra.Command) (*trace.Times, error) {
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	switch {
	case len(q.change.without) > 0 && q.timed && len(q.files) > 0:
		return nil, Usagef("--without, --timed and --trace: want at most two of these flags, because the pods of removed nodes have no time of arrival in the trace")
	case given("hours") && len(q.files) > 0:
		return nil, Usagef("--hours and --trace: want only one of these flags, because the times in the trace define the length")
	case given("hours") && !q.timed:
		return nil, Usagef("--hours: want --timed too, because without it the simulation has no times")
	case !(q.hours >= minHours && q.hours <= maxHours):
		return nil, Usagef("--hours %v: want %v to %d", q.hours, minHours, maxHours)
	case given("defrag") && !q.timed:
		return nil, Usagef("--defrag: want --timed too, because without it no pod waits")
	case given("defrag") && q.defrag < time.Minute:
		return nil, Usagef("--defrag %s: want at least 1m", q.defrag)
	case q.timed && len(q.files) == 0:
		return &trace.Times{For: q.span()}, nil
	case q.timed:
		return &trace.Times{}, nil
	}
	return nil, nil
}

// progressEvery is the interval between progress messages.
const progressEvery = time.Second / 2

// progress returns a function that shows on a terminal the number of finished runs. It returns nil
// if the output is not a terminal.
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
			served = s.Curve[n-1].Served.String()
		}
		rows = append(rows, []string{s.Strategy, strconv.Itoa(s.Runs), served, s.Aligned.String(), s.Pods.String(), s.Refusals.String(), s.NUMANodes.String()})
	}
	return columns(w, "STRATEGY | RUNS | IN USE % | ALIGNED % | PODS SERVED % | REFUSALS PER POD | NUMA NODES PER POD", rows)
}

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
			gangs = t.Whole.String()
		}
		row := []string{s.Strategy, strconv.Itoa(s.Runs), s.Aligned.String(), t.GPUHoursAligned.String(), t.CPUHoursAligned.String(),
			t.WaitingP50.Duration().String(), t.WaitingP99.Duration().String(), t.Refused.String(), gangs, s.NUMANodes.String()}
		switch {
		case moves && t.Moves != nil:
			row = append(row, t.Moves.String(), t.MadeRoom.String())
		case moves:
			row = append(row, "-", "-")
		}
		rows = append(rows, row)
	}
	return columns(w, head, rows)
}

// baseName returns the last element of a path, or "" for "".
func baseName(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Base(path)
}
