package main

import (
	"slices"
)

// compare makes ratios of the runs.
func compare(runs []runResult) []ratioResult {
	var out []ratioResult
	for i := range runs {
		r := &runs[i]
		if !slices.ContainsFunc(out, func(o ratioResult) bool { return o.of(r) }) {
			if o := compareOne(runs, ratioResult{Nodes: r.Nodes, Load: r.Load, Pods: r.Pods, Profile: r.Profile}); o.Pairs > 0 {
				out = append(out, o)
			}
		}
	}
	return out
}

func compareOne(runs []runResult, o ratioResult) ratioResult {
	of := func(who contestant) []runResult {
		return byPair(runs, func(r *runResult) bool { return o.of(r) && r.Scheduler == who })
	}
	a, b := of(stock), of(berth)
	ratios := func(value func(*runResult) float64) estimate { return ratiosOf(b, a, value) }
	typical := func(rs []runResult, value func(*runResult) float64) float64 {
		var all []float64
		for i := range rs {
			all = append(all, value(&rs[i]))
		}
		return median(all)
	}
	settled, bound := func(r *runResult) float64 { return r.Settled }, func(r *runResult) float64 { return r.PerSecond }
	return ratioResult{
		Nodes: o.Nodes, Load: o.Load, Pods: o.Pods, Profile: o.Profile, Pairs: min(len(a), len(b)),
		Settled: ratios(settled), Throughput: ratios(bound),
		Told:   ratios(func(r *runResult) float64 { return r.Told }),
		CPU:    ratios(func(r *runResult) float64 { return r.SchedulerCPU }),
		Memory: ratios(func(r *runResult) float64 { return float64(r.PeakMemory) }),
		Stock:  typical(a, settled), Berth: typical(b, settled), StockBound: typical(a, bound), BerthBound: typical(b, bound),
	}
}

// byPair returns the wanted runs, by their pair.
func byPair(runs []runResult, wanted func(*runResult) bool) (out []runResult) {
	for i := range runs {
		if wanted(&runs[i]) {
			out = append(out, runs[i])
		}
	}
	slices.SortFunc(out, func(a, b runResult) int { return a.Pair - b.Pair })
	return out
}

// ratiosOf divides a value of some runs by that of others, pair by pair.
func ratiosOf(some, others []runResult, value func(*runResult) float64) estimate {
	var all []float64
	for i := range min(len(some), len(others)) {
		all = append(all, value(&some[i])/value(&others[i]))
	}
	return estimateOf(all)
}

// compareGangs makes ratios of the runs of Berth.
func compareGangs(runs []runResult) (out []gangRatio) {
	for _, nodes := range sizesOf(runs) {
		of := func(load string) []runResult {
			return byPair(runs, func(r *runResult) bool { return r.Nodes == nodes && r.Load == load && r.Scheduler == berth })
		}
		single, gangs := of(loadPinned), of(loadGangs)
		pairs := min(len(single), len(gangs))
		if pairs == 0 {
			continue
		}
		ratios := func(value func(*runResult) float64) estimate { return ratiosOf(gangs, single, value) }
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
