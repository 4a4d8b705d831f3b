// Package page draws a comparison of strategies as one self-contained page of HTML: no script, no
// font, no external picture. The plots are SVG and plain boxes that use the width of the screen and
// follow its light or dark mode.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
)

//go:embed page.html
var text string

//go:embed page.css
var style string

var layout = template.Must(template.New("page").Parse(text))

// Write writes the page. Equal Comparisons give equal pages.
func (c *Comparison) Write(w io.Writer) error { return layout.Execute(w, c.sheet()) }

// sheet is the data of the layout.
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
	if c.timed() {
		s.Lines = c.overTime(all, s.Unit)
	} else {
		s.Lines = c.lines(all, s.Unit)
	}
	s.Ends = rangesOf(all, c.end)
	s.Bars = c.bars(all, s.Unit)
	s.Heat = c.heats(all)
	return s
}

// words describes the results.
func (c *Comparison) words(all []strategyRuns, unit string) (title, lead string) {
	what := "in use"
	if c.NUMA {
		what = "used by aligned pods"
	}
	title = fmt.Sprintf("How many %s each strategy serves", unit)
	if len(all) == 0 {
		return title, ""
	}
	best, worst := &all[0], &all[len(all)-1]
	when := "At the end"
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

// columns are the table's columns for each strategy.
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
