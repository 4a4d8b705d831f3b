package page

import (
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/simulate"
)

// course returns the curve of a value over time.
func course(value func(*simulate.Moment) float64) func(*simulate.Run) simulate.Curve {
	return func(r *simulate.Run) (out simulate.Curve) {
		for i := range r.Timed.Course {
			out = append(out, value(&r.Timed.Course[i]))
		}
		return out
	}
}

func aligned(m *simulate.Moment) float64 { return m.Aligned }
func waiting(m *simulate.Moment) float64 { return float64(m.Waiting) }

// overTime makes the plots over the hours of the runs.
func (c *Comparison) overTime(all []strategyRuns, unit string) (out []lines) {
	moments := c.Runs[0].Timed.Course
	if len(moments) < 2 {
		return nil
	}
	most := 1.0
	for i := range c.Runs {
		for _, m := range c.Runs[i].Timed.Course {
			most = max(most, float64(m.Waiting))
		}
	}
	hours := float64(moments[len(moments)-1].Second) / 3600
	plot := func(title, about, axis string, high float64, value func(*simulate.Moment) float64) {
		l := drawn(all, window{right: float64(len(moments) - 1), high: high}, course(value))
		l.Title, l.About, l.AxisX, l.AxisY, l.Asked = title, about, "hours", axis, ""
		l.Across = ticks(0, hours, 6)
		out = append(out, l)
	}
	part := "percent of the " + unit + " of all nodes"
	if c.NUMA {
		plot("Aligned", "CPUs, memory and devices of the pod are on as few NUMA nodes as an empty machine would need.", part, 100, aligned)
	}
	switch {
	case !c.NUMA:
		plot("In use", "Everything that is served.", part, 100, inUse)
	case slices.ContainsFunc(c.Runs, func(r simulate.Run) bool { return onAverage(r.Timed, inUse)-onAverage(r.Timed, aligned) > hardly }):
		plot("In use", "Everything that is served, aligned or not.", part, 100, inUse)
	default:
		out[0].About += " All served pods are aligned here."
	}
	step := roundStep(most / 5)
	plot("Waiting", "Pods that have arrived and have no node yet.", "pods", step*math.Ceil(most/step), waiting)
	for i, curves := 0, out[len(out)-1].Curves; i < len(curves); i++ {
		curves[i].Value, _, _ = strings.Cut(curves[i].Value, ".") // whole pods
	}
	return out
}

// timedColumns are the table's columns if pods arrive and end.
func timedColumns(gpus bool, unit string) []column {
	minutes := func(of func(*simulate.TimedSummary) simulate.Mean) func(*strategyRuns) string {
		return func(s *strategyRuns) string { return percentText(of(s.sum.Timed).Mean / 60) }
	}
	return []column{
		{unit[:3] + " hours aligned of those asked for, %", func(s *strategyRuns) string {
			if gpus {
				return meanText(s.sum.Timed.GPUHoursAligned)
			}
			return meanText(s.sum.Timed.CPUHoursAligned)
		}},
		{"half wait at most, minutes", minutes(func(t *simulate.TimedSummary) simulate.Mean { return t.WaitingP50 })},
		{"99 of 100, minutes", minutes(func(t *simulate.TimedSummary) simulate.Mean { return t.WaitingP99 })},
		{"pods refused by kubelets, %", func(s *strategyRuns) string { return percentText(s.sum.Timed.Refused.Mean) }},
	}
}
