package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/simulate"
)

// lines is a plot of curves. Vertical lengths are in pixels, horizontal ones in thousandths of the
// plot's width, because the plot uses the whole width of the page.
type lines struct {
	Title, About string
	High         int
	Across       []tick
	Down         []tick
	// Asked is the line for complete service.
	Asked  string
	Curves []drawnCurve
	// AxisX and AxisY label the axes.
	AxisX, AxisY string
}

// tick is a mark of an axis. At is in percent of its length.
type tick struct {
	At   float64
	Text string
}

// drawnCurve is a curve with its name.
type drawnCurve struct {
	key
	Points string
	Value  string
	// End is the end of the curve, Label the position of its name.
	End, Label int
}

// Sizes in pixels.
const (
	lowest    = 280 // minimum height of a plot
	labelHigh = 17
	wide      = 1000 // width in horizontal units
)

// window is the part of the plane that a plot shows, in percent.
type window struct{ left, right, low, high float64 }

func (v window) x(at float64) float64 { return wide * (at - v.left) / (v.right - v.left) }

func (v window) y(at float64, high int) float64 {
	return float64(high) * (v.high - at) / (v.high - v.low)
}

// lines draws the plots over the arrived percentage.
func (c *Comparison) lines(all []strategyRuns, unit string) (out []lines) {
	arrived := 0.0
	for i := range c.Runs {
		arrived = max(arrived, float64(len(c.Runs[i].Curve)-1))
	}
	if arrived < 1 {
		return nil
	}
	whole := window{right: arrived, high: 100}
	used := func(r *simulate.Run) simulate.Curve { return r.Curve }
	together := func(r *simulate.Run) simulate.Curve { return r.AlignedCurve }
	plot := func(title, about string, v window, of func(*simulate.Run) simulate.Curve) {
		l := drawn(all, v, of)
		l.Title, l.About = title, about
		l.AxisX, l.AxisY = unit+" requested by the arrived pods, percent", "percent of the "+unit+" of all nodes"
		out = append(out, l)
	}
	judged := used
	if c.NUMA {
		judged = together
		plot("Aligned", "CPUs, memory and devices of the pod are on as few NUMA nodes as an empty machine would need.", whole, together)
	}
	if v, ok := nearer(all, arrived, judged); ok {
		plot("Upper corner", "The corner in which the best strategies differ, enlarged.", v, judged)
	}
	switch {
	case !c.NUMA:
		plot("In use", "Everything that is served.", whole, used)
		slices.Reverse(out) // the whole plot first, then its corner
	case slices.ContainsFunc(c.Runs, func(r simulate.Run) bool { return last(r.Curve)-last(r.AlignedCurve) > hardly }):
		plot("In use", "Everything that is served, aligned or not.", whole, used)
	default:
		out[0].About += " All served pods are aligned here."
	}
	return out
}

// hardly is a difference too small to see, in percent.
const hardly = 0.05

// nearer returns the corner of the plot in which the best curves separate. It begins on the
// diagonal, which is the upper limit of all curves.
func nearer(all []strategyRuns, arrived float64, of func(*simulate.Run) simulate.Curve) (v window, ok bool) {
	best, near := 0.0, 0
	end := func(s *strategyRuns) float64 {
		return mean(s.runs, func(r *simulate.Run) float64 { return last(of(r)) })
	}
	for i := range all {
		best = max(best, end(&all[i]))
	}
	low := best
	for i := range all {
		if e := end(&all[i]); e > best-cornerOf {
			near, low = near+1, min(low, e)
		}
	}
	low = max(0, 5*math.Floor(low/5-1))
	high := min(100, 5*math.Ceil(best/5+.2))
	return window{low, arrived, low, high}, near > 1 && low >= 50 && arrived > low+10
}

// cornerOf is the smallest part of the best curve in the corner, in percent.
const cornerOf = 12

func drawn(all []strategyRuns, v window, of func(*simulate.Run) simulate.Curve) lines {
	l := lines{High: lowest, Down: ticks(v.low, v.high, 6), Across: ticks(v.left, v.right, 6)}
	for i := range l.Down {
		l.Down[i].At = 100 - l.Down[i].At
	}
	var curves []drawnCurve
	shown := 0
	for i := range all {
		if meanCurve(&all[i], of, v.right) >= v.low {
			shown++
		}
	}
	l.High = max(l.High, shown*labelHigh+8)
	for i := range all {
		if t, ok := curveOf(&all[i], v, l.High, of); ok {
			curves = append(curves, t)
		}
	}
	l.Curves = labelled(curves, l.High)
	l.Asked = fmt.Sprintf("%s %s", point(v, l.High, v.low), point(v, l.High, min(v.right, v.high)))
	return l
}

// point returns the point at which all requests are served.
func point(v window, high int, at float64) string {
	return fmt.Sprintf("%.0f,%.1f", v.x(at), v.y(at, high))
}

func meanCurve(s *strategyRuns, of func(*simulate.Run) simulate.Curve, at float64) float64 {
	return mean(s.runs, func(r *simulate.Run) float64 {
		c := of(r)
		if len(c) == 0 {
			return 0
		}
		return c[min(int(at), len(c)-1)]
	})
}

func curveOf(s *strategyRuns, v window, high int, of func(*simulate.Run) simulate.Curve) (drawnCurve, bool) {
	end := meanCurve(s, of, v.right)
	t := drawnCurve{key: s.key, Value: percentText(end), End: int(v.y(end, high))}
	var b strings.Builder
	for x := math.Ceil(v.left); x <= v.right; x++ {
		fmt.Fprintf(&b, "%.0f,%.1f ", v.x(x), v.y(meanCurve(s, of, x), high))
	}
	t.Points = strings.TrimSpace(b.String())
	return t, end >= v.low
}

// labelled places the names near the ends of their curves so that they do not overlap.
func labelled(curves []drawnCurve, high int) []drawnCurve {
	slices.SortStableFunc(curves, func(a, b drawnCurve) int { return a.End - b.End })
	at := labelHigh / 2
	for i := range curves {
		curves[i].Label = max(curves[i].End, at)
		at = curves[i].Label + labelHigh
	}
	at = high - labelHigh/2
	for i := len(curves) - 1; i >= 0; i-- {
		curves[i].Label = min(curves[i].Label, at)
		at = curves[i].Label - labelHigh
	}
	return curves
}

// ticks returns at most that many round numbers from low to high.
func ticks(low, high float64, most int) (out []tick) {
	step := roundStep((high - low) / float64(most))
	for v := step * math.Ceil(low/step); v <= high+step/1e6; v += step {
		out = append(out, tick{100 * (v - low) / (high - low), tickText(v)})
	}
	return out
}

// tickText returns a short text, because there is little room next to a plot.
func tickText(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%gk", math.Round(v/10)/100)
	}
	return fmt.Sprintf("%g", math.Round(v*1000)/1000)
}

// roundStep is the smallest product of 1, 2 or 5 and a power of ten that is not below least.
func roundStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= least*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}
