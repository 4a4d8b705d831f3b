// Package page draws a comparison of strategies as one page of HTML that needs nothing else: no
// script, no font, no picture from elsewhere. The plots are SVG and plain boxes that are as wide as
// the screen lets them be, and follow its light or dark mode.
package page

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/berth-dev/berth/internal/simulate"
)

// Comparison is what strategies have made of the same loads on the same nodes.
type Comparison struct {
	// Facts are shown below the title, in their order; Command makes the page again.
	Facts   []Fact
	Command string
	// GPUs says that parts are of the GPUs of all nodes; otherwise they are of the CPUs.
	GPUs bool
	// NUMA says that the nodes have NUMA nodes.
	NUMA bool
	// Strategies are what was compared; Runs what came of them, one strategy after another.
	Strategies []simulate.Strategy
	Runs       []simulate.Run
}

// Fact is a name and a value.
type Fact struct{ Name, Value string }

//go:embed page.html
var text string

//go:embed page.css
var style string

var layout = template.Must(template.New("page").Parse(text))

// Write writes the page. It is the same for the same Comparison.
func (c *Comparison) Write(w io.Writer) error { return layout.Execute(w, c.sheet()) }

// sheet is what the layout shows.
type sheet struct {
	Title, Lead, Unit string
	Facts             []Fact
	Command           string
	Style             template.CSS
	Keys              []key
	Lines             []lines
	Ends              ranges
	Bars              []bars
	Heat              []heat
	Columns           []string
	Rows              []row
	NUMA, Timed       bool
}

// key is how a strategy is drawn.
type key struct {
	Name string
	// At is its number, Colour and Dash what follows from it.
	At, Colour, Dash int
	// Ours is drawn thicker.
	Ours bool
}

// colours is how many the style has; beyond that lines are dashed.
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

func (c *Comparison) sheet() *sheet {
	all := c.split()
	s := &sheet{Unit: "CPUs", Facts: c.Facts, Command: c.Command, Style: template.CSS(style), NUMA: c.NUMA, Timed: c.timed()}
	if c.GPUs {
		s.Unit = "GPUs"
	}
	columns := c.columns(all, s.Unit)
	for _, column := range columns {
		s.Columns = append(s.Columns, column.name)
	}
	for i := range all {
		s.Keys, s.Rows = append(s.Keys, all[i].key), append(s.Rows, rowOf(&all[i], columns))
	}
	s.Title, s.Lead = c.words(all, s.Unit)
	s.Lines = c.lines(all, s.Unit)
	s.Ends = rangesOf(all, c.end)
	s.Bars = c.bars(all, s.Unit)
	s.Heat = heatOf(all)
	return s
}

// end is what a run is judged by: what lies together, or what is in use where nothing is known of
// NUMA nodes.
func (c *Comparison) end(r *simulate.Run) float64 {
	if c.NUMA {
		return r.Aligned
	}
	return used(r)
}

// used is how much is in use in the end, or on average where pods come and go.
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

// words say what came of it.
func (c *Comparison) words(all []strategyRuns, unit string) (title, lead string) {
	what := "in use"
	if c.NUMA {
		what = "used by pods that lie together"
	}
	title = fmt.Sprintf("How many %s each strategy serves", unit)
	if len(all) == 0 {
		return title, ""
	}
	best, worst := &all[0], &all[len(all)-1]
	when := "In the end"
	if c.timed() {
		when = "On average"
	}
	lead = fmt.Sprintf("%s %.1f percent of the %s of all nodes are %s with %s.", when, mean(best.runs, c.end), unit, what, best.key.Name)
	if len(all) > 1 {
		lead = fmt.Sprintf("%s %.1f percent of the %s of all nodes are %s with %s, %.1f percent with %s.",
			when, mean(best.runs, c.end), unit, what, best.key.Name, mean(worst.runs, c.end), worst.key.Name)
	}
	return title, lead
}

// row is a strategy in the table.
type row struct {
	key
	About string
	Cells []string
}

// column is one of the table.
type column struct {
	name string
	cell func(*strategyRuns) string
}

// columns are what the table says of each strategy.
func (c *Comparison) columns(all []strategyRuns, unit string) []column {
	out := []column{{unit + " in use, %", func(s *strategyRuns) string { return percentText(mean(s.runs, used)) }}}
	if c.NUMA {
		out = append(out, column{"aligned, %", func(s *strategyRuns) string { return meanText(s.sum.Aligned) }})
	}
	if c.timed() {
		return append(out, timedColumns(c.GPUs, unit)...)
	}
	out = append(out, column{"pods served, %", func(s *strategyRuns) string { return percentText(s.sum.Pods.Mean) }})
	if slices.ContainsFunc(all, func(s strategyRuns) bool { return s.sum.Refusals.Mean > 0 }) {
		out = append(out, column{"refusals per pod", func(s *strategyRuns) string { return fmt.Sprintf("%.2f", s.sum.Refusals.Mean) }})
	}
	if c.NUMA {
		out = append(out, column{"NUMA nodes per pod", func(s *strategyRuns) string { return fmt.Sprintf("%.2f", s.sum.NUMANodes.Mean) }})
	}
	if !slices.ContainsFunc(all, func(s strategyRuns) bool { return s.sum.Unused == nil }) {
		out = append(out, column{"free and stranded, %", func(s *strategyRuns) string {
			u := s.sum.Unused
			return percentText(u.CPUs + u.Memory + u.GPUs + u.NUMANodes)
		}})
	}
	return out
}

func rowOf(s *strategyRuns, columns []column) row {
	r := row{key: s.key}
	for _, c := range columns {
		r.Cells = append(r.Cells, c.cell(s))
	}
	if s.of != nil {
		r.About = s.of.About
	}
	return r
}

func percentText(v float64) string { return fmt.Sprintf("%.1f", v) }

func meanText(m simulate.Mean) string {
	if m.Deviation == 0 {
		return percentText(m.Mean)
	}
	return fmt.Sprintf("%.1f ± %.1f", m.Mean, m.Deviation)
}
