package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/lab"
)

// The experiment with pods that arrive and end uses a part of the nodes, so that a run of minutes
// replaces their pods many times.
const (
	timedEvery = 20 // one node of this many is used
	timedHours = 12 * time.Hour
	timedSeeds = 3 // with -full
)

// timedLoads are the fractions of the nodes that running pods request on average.
func timedLoads() []float64 { return []float64{0.70, 0.85, 0.95} }

// quickTimed reports whether the load also runs without -full.
func quickTimed(name string) bool { return name == "default" || name == "synthetic:training" }

// timed runs the loads with pods that arrive and end, and prints the results of strategies.
func (q *quality) timed(ctx context.Context) error {
	all, err := loads(q.from)
	if err != nil {
		return err
	}
	var nodes []trace.Node
	for i := 0; i < len(q.nodes); i += timedEvery {
		nodes = append(nodes, q.nodes[i])
	}
	for i := range all {
		name, pods := all[i].name, all[i].pods
		synthetic, is := strings.CutPrefix(name, "synthetic:")
		if is {
			if pods, err = lab.Synthetic(synthetic, true); err != nil {
				return err
			}
		}
		for _, overlay := range overlays() {
			if !q.full && (!quickTimed(name) || overlay != timedOverlay) {
				continue
			}
			if err := q.timedTable(ctx, &load{name, pods}, overlay, nodes); err != nil {
				return err
			}
		}
	}
	return nil
}

// timedOverlay is the only overlay without -full.
const timedOverlay = "sockets/restricted"

// timedTable runs all strategies on a load and an overlay, and prints the results.
func (q *quality) timedTable(ctx context.Context, l *load, overlay string, nodes []trace.Node) error {
	sums, err := q.timedSums(ctx, l, overlay, nodes)
	if err != nil {
		return err
	}
	fmt.Fprintf(q.out, "\n### Pods arrive and end: %s, %s, %d nodes, at 70 / 85 / 95 percent load\n\n"+
		"| strategy | hours aligned %% | waiting p50 | waiting p99 | pods refused %% | gangs whole %% | NUMA nodes per pod |\n|---|---|---|---|---|---|---|\n", l.name, overlay, len(nodes))
	q.timedRows(sums, trace.AskGPUs(l.pods))
	return nil
}

// timedSums runs the load at each of the timedLoads.
func (q *quality) timedSums(ctx context.Context, l *load, overlay string, nodes []trace.Node) (sums [][]simulate.Summary, err error) {
	for _, part := range timedLoads() {
		e := simulate.Experiment{Nodes: nodes, Pods: l.pods, Seeds: q.seeds[:1], Times: lab.Load(nodes, l.pods, part, timedHours)}
		if q.full {
			e.Seeds = q.seeds[:min(timedSeeds, len(q.seeds))]
		}
		s, err := q.resumed(fmt.Sprintf("timed-%.2f-%s-%s-%d", part, l.name, overlay, len(e.Seeds)), lab.Strategies(), func() ([]simulate.Summary, error) {
			return play(ctx, e, overlay)
		})
		if err != nil {
			return nil, err
		}
		sums = append(sums, s)
	}
	return sums, nil
}

// timedRows prints a line for each strategy, with a figure for each of the timedLoads.
func (q *quality) timedRows(sums [][]simulate.Summary, gpus bool) {
	for i, s := range lab.Strategies() {
		row := func(value func(*simulate.Summary) string) string {
			var cells []string
			for k := range sums {
				cells = append(cells, value(&sums[k][i]))
			}
			return strings.Join(cells, " / ")
		}
		fmt.Fprintf(q.out, "| %s | %s | %s | %s | %s | %s | %s |\n", s.Name,
			row(func(s *simulate.Summary) string {
				if gpus {
					return fmt.Sprintf("%.1f", s.Timed.GPUHoursAligned.Mean)
				}
				return fmt.Sprintf("%.1f", s.Timed.CPUHoursAligned.Mean)
			}),
			row(func(s *simulate.Summary) string { return hoursText(s.Timed.WaitingP50) }),
			row(func(s *simulate.Summary) string { return hoursText(s.Timed.WaitingP99) }),
			row(func(s *simulate.Summary) string { return fmt.Sprintf("%.1f", s.Timed.Refused.Mean) }),
			row(func(s *simulate.Summary) string {
				if s.Timed.Gangs == 0 {
					return "-"
				}
				return fmt.Sprintf("%.0f", s.Timed.Whole.Mean)
			}),
			row(func(s *simulate.Summary) string { return fmt.Sprintf("%.2f", s.NUMANodes.Mean) }))
	}
}

// hoursText prints seconds as hours, or as minutes for small values.
func hoursText(seconds simulate.Mean) string {
	d := time.Duration(seconds.Mean * float64(time.Second))
	if d < time.Hour {
		return fmt.Sprintf("%.0f m", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
