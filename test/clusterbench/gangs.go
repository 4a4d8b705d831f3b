package main

import (
	"fmt"
	"io"
	"slices"
)

// gangs measures the same pods in gangs and one by one, both placed by Berth, in pairs.
func (b *bench) gangs() error {
	kinds, err := kindsOfCluster()
	if err != nil {
		return err
	}
	if err := b.simulate(kinds); err != nil {
		return err
	}
	for i, nodes := range b.options.nodes {
		if err := b.grow(nodes); err != nil {
			return err
		}
		if i == 0 && b.options.warmUp > 0 {
			if err := b.warmUpGangs(nodes); err != nil {
				return err
			}
		}
		pods := of(b.options.pods, i) / gangSize * gangSize
		for pair := range of(b.options.pairs, i) {
			if err := b.gangPair(nodes, pair, pods); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) warmUpGangs(nodes int) error {
	r, err := b.run(runKey{Nodes: nodes, Load: loadPinned, Scheduler: berth}, b.options.warmUp)
	if err == nil {
		b.say("not counted: %s", r.String())
	}
	return err
}

// gangPair measures both in turn, which changes from pair to pair.
func (b *bench) gangPair(nodes, pair, pods int) error {
	loads := []string{loadPinned, loadGangs}
	if pair%2 == 1 {
		slices.Reverse(loads)
	}
	for _, load := range loads {
		r, err := b.run(runKey{Nodes: nodes, Load: load, Scheduler: berth, Pair: pair}, pods)
		if err != nil {
			return err
		}
		b.result.Runs = append(b.result.Runs, r)
		b.say("%s", r.String())
		if err := b.keep(); err != nil {
			return err
		}
	}
	return nil
}

// gangRatio compares pods in gangs with the same pods one by one, over the pairs of one size.
type gangRatio struct {
	Nodes int `json:"nodes"`
	Pairs int `json:"pairs"`
	// Settled is of pods per second until all is settled, Throughput of those bound per second,
	// CPU of the scheduler's processor time per pod.
	Settled    estimate `json:"settled"`
	Throughput estimate `json:"throughput"`
	CPU        estimate `json:"cpu"`
}

// compareGangs makes ratios of the runs of Berth.
func compareGangs(runs []runResult) (out []gangRatio) {
	for _, nodes := range sizesOf(runs) {
		of := func(load string) (found []runResult) {
			for _, r := range runs {
				if r.Nodes == nodes && r.Load == load && r.Scheduler == berth {
					found = append(found, r)
				}
			}
			slices.SortFunc(found, func(a, b runResult) int { return a.Pair - b.Pair })
			return found
		}
		single, gangs := of(loadPinned), of(loadGangs)
		pairs := min(len(single), len(gangs))
		if pairs == 0 {
			continue
		}
		ratios := func(value func(*runResult) float64) estimate {
			var all []float64
			for i := range pairs {
				all = append(all, value(&gangs[i])/value(&single[i]))
			}
			return estimateOf(all)
		}
		out = append(out, gangRatio{
			Nodes: nodes, Pairs: pairs,
			Settled:    ratios(func(r *runResult) float64 { return r.Settled }),
			Throughput: ratios(func(r *runResult) float64 { return r.PerSecond }),
			CPU:        ratios(func(r *runResult) float64 { return r.SchedulerCPU }),
		})
	}
	return out
}

// sizesOf returns the numbers of nodes in the runs' order.
func sizesOf(runs []runResult) (out []int) {
	for i := range runs {
		if !slices.Contains(out, runs[i].Nodes) {
			out = append(out, runs[i].Nodes)
		}
	}
	return out
}

func (r *result) printGangs(w io.Writer) {
	if len(r.Gangs) == 0 {
		return
	}
	table(w, "nodes\tpairs\tgangs by one by one\tratio\tlower bound\tmedian\tratios", func(line func(...any)) {
		for _, g := range r.Gangs {
			row := func(what string, e estimate) {
				line(g.Nodes, g.Pairs, what, fmt.Sprintf("%.3f", e.Centre), fmt.Sprintf("%.3f (%.0f%%)", e.Bound, 100*e.Sure), fmt.Sprintf("%.3f", e.Median), fmt.Sprintf("%.2f", e.Values))
			}
			row("pods/s settled", g.Settled)
			row("pods/s bound", g.Throughput)
			row("scheduler CPU", g.CPU)
		}
	})
}
