package simulate

import (
	"fmt"
	"math"
	"time"
)

// Mean is the mean of a value over several runs.
type Mean struct {
	Mean float64 `json:"mean"`
	// Deviation is the sample standard deviation over the runs; 0 for one run.
	Deviation float64 `json:"deviation"`
}

// String returns the mean and the deviation, such as "71.23 ± 0.41". If the deviation is 0, it
// returns only the mean.
func (m Mean) String() string {
	if m.Deviation == 0 {
		return fmt.Sprintf("%.2f", m.Mean)
	}
	return fmt.Sprintf("%.2f ± %.2f", m.Mean, m.Deviation)
}

// Duration returns a mean in seconds as a Duration, rounded to seconds.
func (m Mean) Duration() time.Duration {
	return time.Duration(m.Mean * float64(time.Second)).Round(time.Second)
}

// meanOf returns the mean and the deviation, rounded to thousandths, because runs differ by more
// than that.
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

// Point is a point of the curves (Curve). When the arrived pods ask for Arrived percent of the
// GPUs, pods have Served percent of the GPUs, and aligned pods have Aligned percent.
type Point struct {
	Arrived int  `json:"arrived"`
	Served  Mean `json:"served"`
	Aligned Mean `json:"aligned"`
}

// Summary is the result of one strategy over all seeds. Shares are in percent.
type Summary struct {
	Strategy string `json:"strategy"`
	Runs     int    `json:"runs"`
	// Aligned is the mean of Run.Aligned.
	Aligned Mean `json:"aligned"`
	// Pods, GPUs and CPUs are the served percentages of the requests. The fields with Aligned in
	// their names are the percentages of the requests that aligned pods got.
	Pods        Mean `json:"podsServed"`
	PodsAligned Mean `json:"podsAligned"`
	GPUs        Mean `json:"gpusServed"`
	GPUsAligned Mean `json:"gpusAligned"`
	CPUs        Mean `json:"cpusServed"`
	CPUsAligned Mean `json:"cpusAligned"`
	// Refusals is the number of kubelets' refusals per arrived pod.
	Refusals Mean `json:"refusalsPerPod"`
	// NUMANodes is the mean number of NUMA nodes of a served, pinned pod.
	NUMANodes Mean `json:"numaNodesPerPod"`
	// Unused is the mean over the runs, or nil if they have none.
	Unused *Unused `json:"unused,omitempty"`
	Curve  []Point `json:"curve,omitempty"`
	// Timed is nil if the Experiment has no Times.
	Timed *TimedSummary `json:"timed,omitempty"`
}

// TimedSummary summarizes the Timed results of one strategy over all seeds. The fields with Hours
// in their names are percentages of the hours that pods ask for.
type TimedSummary struct {
	Arrived         Mean `json:"arrived"`
	GPUHours        Mean `json:"gpuHoursServed"`
	GPUHoursAligned Mean `json:"gpuHoursAligned"`
	CPUHours        Mean `json:"cpuHoursServed"`
	CPUHoursAligned Mean `json:"cpuHoursAligned"`
	// WaitingP50 and WaitingP99 are seconds.
	WaitingP50 Mean `json:"waitingP50Seconds"`
	WaitingP99 Mean `json:"waitingP99Seconds"`
	// Refused is the percentage of pods that a kubelet refused before they first ran.
	Refused Mean `json:"podsRefused"`
	// Left is the number of pods without a node at the end.
	Left Mean `json:"leftWaiting"`
	// Gangs is the number of gangs in all runs. Whole is the percentage of gangs that ran before
	// the end.
	Gangs int64 `json:"gangs"`
	Whole Mean  `json:"gangsWhole"`
	// Moves is the number of moved pods, and MadeRoom the number of pods that got room. Moves and
	// MadeRoom are nil if the strategy does not move pods.
	Moves    *Mean `json:"moves,omitempty"`
	MadeRoom *Mean `json:"madeRoomFor,omitempty"`
	// Course is the mean of the runs' courses.
	Course []CoursePoint `json:"course"`
}

// CoursePoint is the mean of the Moments of all runs at one second.
type CoursePoint struct {
	Second  int64   `json:"second"`
	InUse   float64 `json:"inUse"`
	Aligned float64 `json:"aligned"`
	Waiting float64 `json:"waiting"`
}

// Summarize summarizes the runs of each strategy, in the order of the runs. The runs of a strategy
// must be next to each other in the list.
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

func meanOver(runs []Run, value func(*Run) float64) Mean {
	values := make([]float64, len(runs))
	for i := range runs {
		values[i] = value(&runs[i])
	}
	return meanOf(values)
}

func summarize(runs []Run) Summary {
	of := func(value func(*Run) float64) Mean { return meanOver(runs, value) }
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
	if runs[0].Unused != nil {
		s.Unused = meanUnused(runs)
	}
	if runs[0].Timed != nil {
		s.Timed = summarizeTimed(runs)
	}
	return s
}

func summarizeTimed(runs []Run) *TimedSummary {
	of := func(value func(*Timed) float64) Mean {
		return meanOver(runs, func(r *Run) float64 { return value(r.Timed) })
	}
	s := &TimedSummary{
		Arrived:         of(func(t *Timed) float64 { return float64(t.Arrived) }),
		GPUHours:        of(func(t *Timed) float64 { return t.GPUs.part() }),
		GPUHoursAligned: of(func(t *Timed) float64 { return t.GPUs.aligned() }),
		CPUHours:        of(func(t *Timed) float64 { return t.CPUs.part() }),
		CPUHoursAligned: of(func(t *Timed) float64 { return t.CPUs.aligned() }),
		WaitingP50:      of(func(t *Timed) float64 { return float64(t.Waiting.P50) }),
		WaitingP99:      of(func(t *Timed) float64 { return float64(t.Waiting.P99) }),
		Left:            of(func(t *Timed) float64 { return float64(t.Left) }),
		Whole:           of(func(t *Timed) float64 { return 100 * ratio(t.Whole, t.Gangs) }),
		Refused:         meanOver(runs, func(r *Run) float64 { return 100 * ratio(r.Timed.Refused, r.Pods.Asked) }),
	}
	if runs[0].Timed.Plans != nil {
		moves, rooms := of(func(t *Timed) float64 { return float64(t.Plans.Moves) }), of(func(t *Timed) float64 { return float64(t.Plans.Pods) })
		s.Moves, s.MadeRoom = &moves, &rooms
	}
	n := float64(len(runs))
	for i, m := range runs[0].Timed.Course {
		p := CoursePoint{Second: m.Second}
		for k := range runs {
			m := runs[k].Timed.Course[i]
			p.InUse, p.Aligned, p.Waiting = p.InUse+m.InUse/n, p.Aligned+m.Aligned/n, p.Waiting+float64(m.Waiting)/n
		}
		s.Course = append(s.Course, CoursePoint{p.Second, round(p.InUse), round(p.Aligned), round(p.Waiting)})
	}
	for i := range runs {
		s.Gangs += runs[i].Timed.Gangs
	}
	return s
}

// pointEvery is the distance in percent between two points of a curve.
const pointEvery = 10

// at returns the value at a percentage, or the last value of a shorter curve.
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
