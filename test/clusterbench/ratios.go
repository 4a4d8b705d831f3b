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
	of := func(who contestant) (out []runResult) {
		for _, r := range runs {
			if o.of(&r) && r.Scheduler == who {
				out = append(out, r)
			}
		}
		slices.SortFunc(out, func(a, b runResult) int { return a.Pair - b.Pair })
		return out
	}
	a, b := of(stock), of(berth)
	ratios := func(value func(*runResult) float64) (out []float64) {
		for i := range min(len(a), len(b)) {
			out = append(out, value(&b[i])/value(&a[i]))
		}
		return out
	}
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
		Settled: estimateOf(ratios(settled)), Throughput: estimateOf(ratios(bound)),
		CPU:    estimateOf(ratios(func(r *runResult) float64 { return r.SchedulerCPU })),
		Memory: estimateOf(ratios(func(r *runResult) float64 { return float64(r.PeakMemory) })),
		Stock:  typical(a, settled), Berth: typical(b, settled), StockBound: typical(a, bound), BerthBound: typical(b, bound),
	}
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
