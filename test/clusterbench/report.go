package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// ratioResult compares Berth with stock over the pairs of one size and load: medians of ratios, and
// bounds of throughput.
type ratioResult struct {
	Nodes int    `json:"nodes"`
	Load  string `json:"load"`
	// Pods is how many there were in a run.
	Pods    int    `json:"pods"`
	Profile string `json:"profile,omitempty"`
	Pairs   int    `json:"pairs"`
	// Settled is of pods per second until all is settled, Throughput of those bound per second.
	Settled    estimate `json:"settled"`
	Throughput estimate `json:"throughput"`
	// CPU is of processor time per pod, Memory of the peak resident set.
	CPU    estimate `json:"cpu"`
	Memory estimate `json:"memory"`
	// Stock and Berth are medians of pods per second until all is settled, and of those bound.
	Stock      float64 `json:"stock"`
	Berth      float64 `json:"berth"`
	StockBound float64 `json:"stockBound"`
	BerthBound float64 `json:"berthBound"`
}

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

// of says whether the run is one of the ones that are compared.
func (o *ratioResult) of(r *runResult) bool {
	return o.Nodes == r.Nodes && o.Load == r.Load && o.Pods == r.Pods && o.Profile == r.Profile
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

// print writes the result as tables.
func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "machine: %s; load average %s at the beginning, %s at the end\noptions: %s\n", r.Machine, r.LoadAverage[0], r.LoadAverage[1], r.Options)
	r.printRuns(w)
	r.printRatios(w)
	r.printGangs(w)
	r.printFilter(w)
	r.printSeconds(w)
	if r.Writes != nil {
		r.Writes.print(w)
	}
	if len(r.Ways) > 0 && len(r.Ways[0].PerWrite) > 0 {
		printWays(w, r.Ways)
	}
}

// table writes rows under a heading.
func table(w io.Writer, heading string, rows func(line func(cells ...any))) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, heading)
	rows(func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			if f, ok := c.(float64); ok {
				c = fmt.Sprintf("%.3g", f)
			}
			fmt.Fprint(t, c)
		}
		fmt.Fprintln(t)
	})
	t.Flush()
}

func (r *result) printRuns(w io.Writer) {
	if len(r.Runs) == 0 {
		return
	}
	table(w, "nodes\tload\tprofile\tpair\tscheduler\tbound\tsettled/s\tbound/s\tack p50 s\tp99 s\tscheduler us/pod\tserver us/pod\tpeak MiB\tidle MiB\tcycles\tnodes\tFilter ms\tScore ms\treports\trefused\tpromises\tload average", func(line func(...any)) {
		for _, r := range r.Runs {
			promises := "-"
			if p := r.Promises; p != nil {
				promises = fmt.Sprintf("%.0f kept, %.0f contended, %.0f broken", p["kept"], p["contended"], p["mispredicted"]+p["refused"])
			}
			line(r.Nodes, r.Load, r.Profile, r.Pair+1, r.Scheduler, r.Bound, fmt.Sprintf("%.1f", r.Settled), fmt.Sprintf("%.1f", r.PerSecond), r.AcknowledgedP50, r.AcknowledgedP99, fmt.Sprintf("%.0f", r.SchedulerCPU),
				fmt.Sprintf("%.0f", r.ServerCPU), r.PeakMemory>>20, r.IdleMemory>>20, int(r.Attempts), r.Asked, r.Filter, r.Score, r.Reports, r.Refused, promises, r.LoadAverage)
		}
	})
}

func (r *result) printRatios(w io.Writer) {
	if len(r.Ratios) == 0 {
		return
	}
	table(w, "nodes\tload\tprofile\tpods\tpairs\tBerth by stock\tstock\tBerth\tratio\tlower bound\tmedian\tratios", func(line func(...any)) {
		for _, r := range r.Ratios {
			row := func(what string, stock, berth any, e estimate) {
				line(r.Nodes, r.Load, r.Profile, r.Pods, r.Pairs, what, stock, berth, fmt.Sprintf("%.3f", e.Centre), fmt.Sprintf("%.3f (%.0f%%)", e.Bound, 100*e.Sure), fmt.Sprintf("%.3f", e.Median), fmt.Sprintf("%.2f", e.Values))
			}
			row("pods/s settled", fmt.Sprintf("%.1f", r.Stock), fmt.Sprintf("%.1f", r.Berth), r.Settled)
			row("pods/s bound", fmt.Sprintf("%.1f", r.StockBound), fmt.Sprintf("%.1f", r.BerthBound), r.Throughput)
			row("scheduler CPU", "", "", r.CPU)
			row("peak memory", "", "", r.Memory)
		}
	})
}

func (r *result) printFilter(w io.Writer) {
	if len(r.Filter) == 0 {
		return
	}
	table(w, "nodes\tscheduler\tpods\tcount\tcycle p50 ms\tp90\tp99\tmax\tmore than one cycle\tload average", func(line func(...any)) {
		for _, r := range r.Filter {
			q := func(q float64) float64 { return quantile(r.Milliseconds, q) }
			line(r.Nodes, r.Scheduler, r.Pods, len(r.Milliseconds), q(0.5), q(0.9), q(0.99), q(1), r.Retried, r.LoadAverage)
		}
	})
}

func (r *result) printSeconds(w io.Writer) {
	if len(r.Seconds) == 0 {
		return
	}
	table(w, "time went to\tseconds", func(line func(...any)) {
		for _, what := range slices.Sorted(maps.Keys(r.Seconds)) {
			line(what, fmt.Sprintf("%.0f", r.Seconds[what]))
		}
	})
}

func (r *writesResult) print(w io.Writer) {
	fmt.Fprintf(w, "\n%d nodes with %d CPUs and %d pods each; a report is %d bytes as sent, %d bytes as stored\n", r.Nodes, r.CPUs, r.Pods, r.SentBytes, r.StoredBytes)
	fmt.Fprintf(w, "database: %.1f MiB empty, %.1f MiB with all objects, %.1f MiB at the end\n", r.EmptyStorage/(1<<20), r.FullStorage/(1<<20), r.LastStorage/(1<<20))
	table(w, "written\tcores of API server and etcd\theartbeats/s\tp50 ms\tp99 ms\treports/s\tp50 ms\tp99 ms\tus/heartbeat\tus/report\twatched KiB/s\tserver MiB\tload average", func(line func(...any)) {
		for _, p := range r.Phases {
			line(p.Name, p.Cores, p.Heartbeats.PerSecond, p.Heartbeats.P50, p.Heartbeats.P99, p.Reports.PerSecond, p.Reports.P50, p.Reports.P99,
				fmt.Sprintf("%.0f", p.PerHeartbeat), fmt.Sprintf("%.0f", p.PerReport), float64(p.WatchedBytes)/p.Seconds/1024, p.ServerMemory>>20, p.LoadAverage)
		}
	})
}
