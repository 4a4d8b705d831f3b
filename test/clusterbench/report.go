package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// print writes the result as tables.
func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "machine: %s; load average %s at the beginning, %s at the end\noptions: %s\n", r.Machine, r.LoadAverage[0], r.LoadAverage[1], r.Options)
	r.printRuns(w)
	r.printRatios(w)
	r.printGangs(w)
	r.printFilter(w)
	r.printStarts(w)
	r.printShadow(w)
	r.printSeconds(w)
	if r.Writes != nil {
		r.Writes.print(w)
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
	table(w, "nodes\tload\tprofile\tpair\tscheduler\tbound\tsettled/s\ttold/s\tbound/s\tack p50 s\tp99 s\tscheduler us/pod\tserver us/pod\tpeak MiB\tidle MiB\tcycles\tnowhere\tnodes\tFilter ms\tScore ms\treports\tevents\trefused\tpromises\tload average", func(line func(...any)) {
		for _, r := range r.Runs {
			promises := "-"
			if p := r.Promises; p != nil {
				promises = fmt.Sprintf("%.0f kept, %.0f contended, %.0f broken", p["kept"], p["contended"], p["mispredicted"]+p["refused"])
			}
			line(r.Nodes, r.Load, r.Profile, r.Pair+1, r.Scheduler, r.Bound, fmt.Sprintf("%.1f", r.Settled), fmt.Sprintf("%.1f", r.Told), fmt.Sprintf("%.1f", r.PerSecond), r.AcknowledgedP50, r.AcknowledgedP99, fmt.Sprintf("%.0f", r.SchedulerCPU),
				fmt.Sprintf("%.0f", r.ServerCPU), r.PeakMemory>>20, r.IdleMemory>>20, int(r.Attempts), int(r.Nowhere), r.Asked, r.Filter, r.Score, r.Reports, r.Events, r.Refused, promises, r.LoadAverage)
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
			row("pods/s told", "", "", r.Told)
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

func (r *result) printShadow(w io.Writer) {
	if !slices.ContainsFunc(r.Runs, func(run runResult) bool { return run.Shadow != nil }) {
		return
	}
	table(w, "nodes\tload\tprofile\tscheduler us/pod\tshadow mode us/pod\tratio\tpeak MiB\tjudged\tnot judged", func(line func(...any)) {
		for i := range r.Runs {
			if run := &r.Runs[i]; run.Shadow != nil {
				line(run.Nodes, run.Load, run.Profile, fmt.Sprintf("%.0f", run.SchedulerCPU), fmt.Sprintf("%.0f", run.Shadow.CPU), run.Shadow.CPU/run.SchedulerCPU,
					run.Shadow.Memory>>20, run.Shadow.Judged, run.Shadow.NotJudged)
			}
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
