package page

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-dev/berth/internal/simulate"
)

// ranges has the results of all seeds, strategy by strategy.
type ranges struct {
	Rows  []rangeRow
	Ticks []tick
}

// rangeRow is the range of a strategy's results over all seeds, in percent of the width.
type rangeRow struct {
	key
	From, Wide, Mean float64
	Text             string
}

func rangesOf(all []strategyRuns, value func(*simulate.Run) float64) (out ranges) {
	type found struct{ least, most, mean float64 }
	values, low := make([]found, len(all)), 100.0
	for i := range all {
		f := found{math.Inf(1), math.Inf(-1), mean(all[i].runs, value)}
		for j := range all[i].runs {
			v := value(&all[i].runs[j])
			f.least, f.most = min(f.least, v), max(f.most, v)
		}
		values[i], low = f, min(low, f.least)
	}
	step := roundStep((100 - low) / 5)
	low = max(0, step*math.Floor(low/step-.25))
	at := func(v float64) float64 { return 100 * (v - low) / (100 - low) }
	for i := range all {
		f := &values[i]
		r := rangeRow{key: all[i].key, From: at(f.least), Wide: at(f.most) - at(f.least), Mean: at(f.mean), Text: percentText(f.mean)}
		out.Rows = append(out.Rows, r)
	}
	out.Ticks = ticks(low, 100, 6)
	return out
}

// bars are sums of parts, strategy by strategy.
type bars struct {
	Title, About string
	Kinds        []kind
	Rows         []barRow
	Ticks        []tick
}

// kind is the meaning of a part; Class determines its colour.
type kind struct{ Name, Class string }

type barRow struct {
	key
	Parts []part
	Text  string
}

// part is one segment of a bar. Wide is in percent of the plot's width.
type part struct {
	kind
	Wide float64
	Text string
}

func (c *Comparison) bars(all []strategyRuns, unit string) (out []bars) {
	if b := unusedBars(all, unit, c.GPUs); len(b.Rows) > 0 {
		out = append(out, b)
	}
	if c.timed() {
		out = append(out, waitingBars(all))
	}
	if c.NUMA && slices.ContainsFunc(c.Runs, func(r simulate.Run) bool { return r.Pinned > 0 }) {
		out = append(out, spreadBars(all))
	}
	if b := refusalBars(all); len(b.Rows) > 0 {
		out = append(out, b)
	}
	return out
}

// fill makes rows of values, one for each kind, with a text beside each row. full is the value that
// has the full width.
func (b *bars) fill(all []strategyRuns, full float64, values func(*strategyRuns) []float64, text func(*strategyRuns) string) {
	for i := range all {
		r := barRow{key: all[i].key, Text: text(&all[i])}
		for k, v := range values(&all[i]) {
			r.Parts = append(r.Parts, part{b.Kinds[k], 100 * v / full, fmt.Sprintf("%s: %.2f", b.Kinds[k].Name, v)})
		}
		b.Rows = append(b.Rows, r)
	}
	b.Ticks = ticks(0, full, 6)
}

// unusedBars shows the free resources at the end.
func unusedBars(all []strategyRuns, unit string, gpus bool) bars {
	b := bars{Title: "Free at the end, and why", About: "Percent of the " + unit + " of all nodes that no pod uses, by the reason why the next pod of the load cannot use them. All but the first part are stranded for that pod.",
		Kinds: []kind{{"it would fit", "u0"}, {"too few CPUs", "u1"}, {"too little memory", "u2"}}}
	if gpus {
		b.Kinds = append(b.Kinds, kind{"too few GPUs", "u3"})
	}
	b.Kinds = append(b.Kinds, kind{"not on the NUMA nodes that it needs", "u4"})
	values := func(s *strategyRuns) []float64 {
		u := s.sum.Unused
		if gpus {
			return []float64{u.Usable, u.CPUs, u.Memory, u.GPUs, u.NUMANodes}
		}
		return []float64{u.Usable, u.CPUs, u.Memory, u.NUMANodes}
	}
	sum := func(s *strategyRuns) (sum float64) {
		for _, v := range values(s) {
			sum += v
		}
		return sum
	}
	full := 1.0
	for i := range all {
		if all[i].sum.Unused == nil {
			return bars{}
		}
		full = max(full, sum(&all[i]))
	}
	b.fill(all, full, values, func(s *strategyRuns) string { return percentText(sum(s)) })
	return b
}

// spreadBars shows how many NUMA nodes pods use.
func spreadBars(all []strategyRuns) bars {
	b := bars{Title: "NUMA nodes per pod", About: "Percent of the served pods by their number of NUMA nodes.",
		Kinds: []kind{{"1 NUMA node", "n0"}, {"2 NUMA nodes", "n1"}, {"3 NUMA nodes", "n2"}, {"4 and more", "n3"}}}
	b.fill(all, 100, func(s *strategyRuns) []float64 {
		out := make([]float64, len(b.Kinds))
		for k := range out {
			out[k] = mean(s.runs, func(r *simulate.Run) float64 { return 100 * float64(r.OnNUMANodes[k]) / float64(max(1, r.Pinned)) })
		}
		return out
	}, func(s *strategyRuns) string { return fmt.Sprintf("%.2f", s.sum.NUMANodes.Mean) })
	return b
}

// refusalBars shows how many pods controllers must create again.
func refusalBars(all []strategyRuns) bars {
	b := bars{Title: "Refused by kubelets", About: "Refusals by kubelets per arrived pod. A controller creates a refused pod again.",
		Kinds: []kind{{"refusals per pod", "u4"}}}
	most := 0.0
	for i := range all {
		most = max(most, all[i].sum.Refusals.Mean)
	}
	if most == 0 {
		return bars{}
	}
	b.fill(all, most, func(s *strategyRuns) []float64 { return []float64{s.sum.Refusals.Mean} },
		func(s *strategyRuns) string { return fmt.Sprintf("%.2f", s.sum.Refusals.Mean) })
	return b
}

// waitingBars shows how long pods waited until they first ran.
func waitingBars(all []strategyRuns) bars {
	b := bars{Title: "How long pods wait", About: "Minutes until a pod first ran, or until the end if it never ran. The bar shows the 99th percentile, the text the median.",
		Kinds: []kind{{"99 of 100 pods, minutes", "n2"}}}
	most := 1.0
	for i := range all {
		most = max(most, all[i].sum.Timed.WaitingP99.Mean/60)
	}
	b.fill(all, most, func(s *strategyRuns) []float64 { return []float64{s.sum.Timed.WaitingP99.Mean / 60} },
		func(s *strategyRuns) string {
			return fmt.Sprintf("%.1f, half %.1f", s.sum.Timed.WaitingP99.Mean/60, s.sum.Timed.WaitingP50.Mean/60)
		})
	return b
}
