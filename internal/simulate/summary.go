package simulate

import (
	"math"
)

// Mean is what several runs come to.
type Mean struct {
	Mean float64 `json:"mean"`
	// Deviation is the standard deviation of the runs (of a sample); 0 for one run.
	Deviation float64 `json:"deviation"`
}

// meanOf rounds to thousandths, which is finer than any run repeats.
func meanOf(values []float64) (m Mean) {
	n := float64(len(values))
	for _, v := range values {
		m.Mean += v / n
	}
	for _, v := range values {
		m.Deviation += (v - m.Mean) * (v - m.Mean) / max(1, n-1)
	}
	return Mean{round(m.Mean), round(math.Sqrt(m.Deviation))}
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

// Point is a point of a curve: the GPUs served, in percent of those of all nodes, when pods that
// ask for so many percent have arrived. Aligned is those that serve pods which lie together.
type Point struct {
	Arrived int  `json:"arrived"`
	Served  Mean `json:"served"`
	Aligned Mean `json:"aligned"`
}

// Summary is what came of one strategy over all seeds. Parts are in percent.
type Summary struct {
	Strategy string `json:"strategy"`
	Runs     int    `json:"runs"`
	// Aligned is that of the runs.
	Aligned Mean `json:"aligned"`
	// Pods, GPUs and CPUs are what was served of what was asked; Aligned is what of that lies
	// together.
	Pods        Mean `json:"podsServed"`
	PodsAligned Mean `json:"podsAligned"`
	GPUs        Mean `json:"gpusServed"`
	GPUsAligned Mean `json:"gpusAligned"`
	CPUs        Mean `json:"cpusServed"`
	CPUsAligned Mean `json:"cpusAligned"`
	// Refusals is how often a kubelet refused a pod, for each pod that arrived.
	Refusals Mean `json:"refusalsPerPod"`
	// NUMANodes is how many NUMA nodes a served, pinned pod lies on.
	NUMANodes Mean `json:"numaNodesPerPod"`
	// Unused is that of the recordings; nil where there are none.
	Unused *Unused `json:"unused,omitempty"`
	Curve  []Point `json:"curve,omitempty"`
}

// Summarize sums up runs, by strategy in the order in which they come.
func Summarize(runs []Run) (out []Summary) {
	for from := 0; from < len(runs); {
		to := from
		for to < len(runs) && runs[to].Strategy == runs[from].Strategy {
			to++
		}
		out, from = append(out, summarize(runs[from:to])), to
	}
	return out
}

func summarize(runs []Run) Summary {
	of := func(value func(*Run) float64) Mean {
		values := make([]float64, len(runs))
		for i := range runs {
			values[i] = value(&runs[i])
		}
		return meanOf(values)
	}
	s := Summary{Strategy: runs[0].Strategy, Runs: len(runs),
		Aligned:     of(func(r *Run) float64 { return r.Aligned }),
		Pods:        of(func(r *Run) float64 { return r.Pods.part() }),
		PodsAligned: of(func(r *Run) float64 { return r.Pods.aligned() }),
		GPUs:        of(func(r *Run) float64 { return r.GPUs.part() }),
		GPUsAligned: of(func(r *Run) float64 { return r.GPUs.aligned() }),
		CPUs:        of(func(r *Run) float64 { return r.CPUs.part() }),
		CPUsAligned: of(func(r *Run) float64 { return r.CPUs.aligned() }),
		Refusals:    of(func(r *Run) float64 { return ratio(r.Refusals, r.Pods.Asked) }),
		NUMANodes:   of(func(r *Run) float64 { return ratio(r.NUMANodes, r.Pinned) }),
	}
	for at := pointEvery; at < len(runs[0].Curve); at += pointEvery {
		s.Curve = append(s.Curve, Point{at, of(func(r *Run) float64 { return r.Curve.at(at) }), of(func(r *Run) float64 { return r.AlignedCurve.at(at) })})
	}
	if runs[0].Recording != nil {
		s.Unused = meanUnused(runs)
	}
	return s
}

// pointEvery is how many percent lie between two points of a curve.
const pointEvery = 10

// at is the value at a percentage, or the last one before.
func (c Curve) at(percent int) float64 {
	if len(c) == 0 {
		return 0
	}
	return c[min(percent, len(c)-1)]
}

func (s *Served) part() float64    { return 100 * ratio(s.Served, s.Asked) }
func (s *Served) aligned() float64 { return 100 * ratio(s.Aligned, s.Asked) }

func ratio(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}
