package page

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/internal/simulate"
)

// Comparison has the results of strategies with the same loads on the same nodes.
type Comparison struct {
	// Facts are shown below the title, in their order; Command makes the page again.
	Facts   []Fact
	Command string
	// GPUs means that percentages are of the GPUs of all nodes; otherwise of the CPUs.
	GPUs bool
	// NUMA means that the nodes have NUMA nodes.
	NUMA bool
	// Strategies are the compared strategies; Runs are their results, one strategy after another.
	Strategies []simulate.Strategy
	Runs       []simulate.Run
	// Filled records how nodes filled; nil if this was not recorded.
	Filled *Recorder
}

// Fact is a name and a value.
type Fact struct{ Name, Value string }

// key is the appearance of a strategy.
type key struct {
	Name string
	// At is its number; Colour and Dash follow from it.
	At, Colour, Dash int
	// Ours is drawn thicker.
	Ours bool
}

// colours is the number of colours in the style; further lines are dashed.
const colours = 8

// ours is the strategy that the scheduler has.
const ours = "Berth"

// strategyRuns are the runs of a strategy.
type strategyRuns struct {
	key  key
	of   *simulate.Strategy
	sum  *simulate.Summary
	runs []simulate.Run
}

// split returns the strategies, the best first.
func (c *Comparison) split() (out []strategyRuns) {
	sums := simulate.Summarize(c.Runs)
	for i, from := 0, 0; i < len(sums); i++ {
		s := strategyRuns{key: key{sums[i].Strategy, i, i % colours, i / colours, sums[i].Strategy == ours}, sum: &sums[i], runs: c.Runs[from : from+sums[i].Runs]}
		if at := slices.IndexFunc(c.Strategies, func(t simulate.Strategy) bool { return t.Name == s.sum.Strategy }); at >= 0 {
			s.of = &c.Strategies[at]
		}
		out, from = append(out, s), from+s.sum.Runs
	}
	slices.SortStableFunc(out, func(a, b strategyRuns) int { return cmp.Compare(mean(b.runs, c.end), mean(a.runs, c.end)) })
	return out
}

// end is the final figure of a run: the aligned share, or the used share if the run knows no NUMA
// nodes.
func (c *Comparison) end(r *simulate.Run) float64 {
	if c.NUMA {
		return r.Aligned
	}
	return used(r)
}

// used returns the amount in use at the end, or on average if pods arrive and end.
func used(r *simulate.Run) float64 {
	if r.Timed == nil {
		return last(r.Curve)
	}
	return onAverage(r.Timed, inUse)
}

func last(c simulate.Curve) float64 {
	if len(c) == 0 {
		return 0
	}
	return c[len(c)-1]
}

func mean(runs []simulate.Run, value func(*simulate.Run) float64) (sum float64) {
	for i := range runs {
		sum += value(&runs[i]) / float64(len(runs))
	}
	return sum
}

// column is a column of the table.
type column struct {
	name string
	cell func(*strategyRuns) string
}

func percentText(v float64) string { return fmt.Sprintf("%.1f", v) }

func meanText(m simulate.Mean) string {
	if m.Deviation == 0 {
		return percentText(m.Mean)
	}
	return fmt.Sprintf("%.1f ± %.1f", m.Mean, m.Deviation)
}

// timed reports whether pods arrive and end.
func (c *Comparison) timed() bool { return len(c.Runs) > 0 && c.Runs[0].Timed != nil }

// onAverage returns the mean over the moments that count.
func onAverage(t *simulate.Timed, value func(*simulate.Moment) float64) (sum float64) {
	count := 0.0
	for i := range t.Course {
		if m := &t.Course[i]; m.Second >= t.From && m.Second <= t.To {
			sum, count = sum+value(m), count+1
		}
	}
	return sum / max(1, count)
}

func inUse(m *simulate.Moment) float64 { return m.InUse }
