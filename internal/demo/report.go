package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Report is the result of one run. It counts API objects: if a refused pod is created again, the
// new object counts as another pod.
type Report struct {
	// Pods is the number of created pods.
	Pods int `json:"pods"`
	// Running is the number of pods that have ever been Running.
	Running int `json:"running"`
	// Rejected is the number of pods that a kubelet refused, by the reason in their status.
	Rejected map[string]int `json:"rejected"`
	// NUMANodesPerPod counts running pods by the number of NUMA nodes that have their exclusive
	// CPUs, memory and devices. Pods without exclusive resources are not counted.
	NUMANodesPerPod map[string]int `json:"numaNodesPerPod"`
	// AvoidablySplit counts running pods on more NUMA nodes than they would have needed on another
	// node. It considers only resources that were free from 3 s before the pod's Binding until 2 s
	// after the pod started to run. Pods that name a node or ask for huge pages are not judged.
	AvoidablySplit int `json:"avoidablySplit"`
	// AvoidablyStranded counts GPUs for which a pod without GPUs left too few CPUs, although a node
	// without GPUs had room for the pod on as few NUMA nodes. The same times and exceptions as for
	// AvoidablySplit apply.
	AvoidablyStranded int `json:"avoidablyStranded"`
	// StrandedDevices is the mean number of free GPUs with fewer than 4 free CPUs each on their
	// NUMA node, over the time in which pods were created. 4 CPUs are the smallest request of a pod
	// with a GPU.
	StrandedDevices float64 `json:"strandedDevices"`
	// CrossSocket is the number of running pods with CPUs of more than one socket.
	CrossSocket int `json:"crossSocket"`
	// Predicted is the number of running pods with a decision; Exact is the number of these
	// decisions that are marked exact.
	Predicted int `json:"predicted"`
	Exact     int `json:"exact"`
	// Mispredicted is the number of running pods whose assignment differs from their exact
	// decision, and of pods with exclusive resources that should have a decision and have none.
	Mispredicted int `json:"mispredicted"`
	// Contended is the number of pods that did not get what their decision promised, because of
	// another pod. Either another scheduler or a user had put the other pod on the node, or the
	// other pod had ended before the Binding and the scheduler did not know this yet. The scheduler
	// counts these pods. They also count as rejected or mispredicted.
	Contended int `json:"contended"`
	// Pending is the number of pods that were neither running nor refused at the end.
	Pending int `json:"pending"`
	// Stalled is the number of pending pods for which a node had room at the end, when no event had
	// happened for the runner's Patience. Pods that ask for huge pages are not judged.
	Stalled int `json:"stalled"`
	// OutOfTime means that the run ended while the scheduler was still trying pods, because the
	// machine was too slow. The numbers of such a run are not reliable.
	OutOfTime bool `json:"outOfTime"`
	// SecondsToRunning is the time from when the workload first asked for the pod until the API
	// showed it Running.
	SecondsToRunning Seconds `json:"secondsToRunning"`

	// Notes explain mispredictions, refusals, late pods and waiting pods in words. They are not
	// part of the JSON.
	Notes []string `json:"-"`

	times times
}

// times are the delays of the pods that ran. The key of toRunning is the pod's name in the
// workload.
type times struct {
	toRunning               map[string]time.Duration
	refused, toNode, onNode []time.Duration
}

// Seconds are the quantiles of the time until pods run, and of the three parts of this time.
// Refused lasts until the creation of the API object that no kubelet refuses, ToNode until the API
// shows its node, and OnNode until the pod runs.
type Seconds struct {
	Quantiles
	// InBoth covers the pods that ran under both schedulers. A pod that runs late under one
	// scheduler may never run under the other, because it waits or is refused until it is deleted.
	InBoth  Quantiles `json:"inBoth"`
	Refused Quantiles `json:"refused"`
	ToNode  Quantiles `json:"toNode"`
	OnNode  Quantiles `json:"onNode"`
}

// Quantiles are quantiles of a time in seconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

func newReport() *Report {
	return &Report{Rejected: map[string]int{}, NUMANodesPerPod: map[string]int{}, times: times{toRunning: map[string]time.Duration{}}}
}

// Refused returns the number of refusals for all reasons.
func (r *Report) Refused() (n int) {
	for _, m := range r.Rejected {
		n += m
	}
	return n
}

// finish computes the fields that depend on all pods of the run.
func (r *Report) finish() {
	t := &r.times
	r.SecondsToRunning = Seconds{Quantiles: quantilesOf(slices.Collect(maps.Values(t.toRunning))), Refused: quantilesOf(t.refused), ToNode: quantilesOf(t.toNode), OnNode: quantilesOf(t.onNode)}
}

// finish computes the fields that depend on both runs.
func (c *Comparison) finish() {
	halves := [2]*Report{c.Stock, c.Berth}
	for i, r := range halves {
		var both []time.Duration
		for name, took := range r.times.toRunning {
			if _, ran := halves[1-i].times.toRunning[name]; ran {
				both = append(both, took)
			}
		}
		r.SecondsToRunning.InBoth = quantilesOf(both)
	}
}

// quantilesOf returns the quantiles of the times, which it sorts.
func quantilesOf(times []time.Duration) Quantiles {
	slices.Sort(times)
	return Quantiles{P50: quantile(times, 50), P99: quantile(times, 99)}
}

// quantile returns a quantile of the sorted values in seconds, rounded to milliseconds: the
// smallest value such that at least this percentage of the values are not larger. It returns 0 if
// there are no values.
func quantile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := (len(sorted)*percent+99)/100 - 1
	return float64(sorted[max(i, 0)].Round(time.Millisecond)) / float64(time.Second)
}

// Comparison has the reports of the two runs of a demo, one for each scheduler.
type Comparison struct {
	Stock *Report `json:"stock"`
	Berth *Report `json:"berth"`
}

// Kept reports whether no kubelet refused a pod that Berth placed, and there are no more wrong
// predictions than contended promises.
func (c *Comparison) Kept() bool {
	return c.Berth.Refused() == 0 && c.Berth.Mispredicted <= c.Berth.Contended
}

// overtaken explains wrong predictions that were caused by pods deleted at the last moment.
const overtaken = "Pods with CPUs other than promised: %d. A pod on the same node was deleted just before their Binding, and the\n" +
	"API server told the scheduler only after the Binding. The kubelet gave them the CPUs that became free. This happens\n" +
	"if a machine is too busy: see \"contended\" in docs/concepts.md.\n"

// outOfTime warns that the time limit ended one of the two runs.
const outOfTime = "%s: the time limit ended the run before all pods had been tried; " +
	"this machine was too slow or too busy, so the numbers are not reliable\n"

// Comparisons are the comparisons of one or more runs.
type Comparisons []*Comparison

// Kept reports whether Berth kept its promise in all runs.
func (c Comparisons) Kept() bool {
	return !slices.ContainsFunc(c, func(one *Comparison) bool { return !one.Kept() })
}

// WriteJSON writes each comparison as a line.
func (c Comparisons) WriteJSON(w io.Writer) error {
	lines := json.NewEncoder(w)
	for _, one := range c {
		if err := lines.Encode(one); err != nil {
			return err
		}
	}
	return nil
}

// WriteTable prints the results of the two schedulers side by side. For several runs it prints the
// median, minimum and maximum.
func (c Comparisons) WriteTable(w io.Writer) error {
	stock, berth := c.halves()
	rows := [][]string{{"", Stock{}.Title(), Berth{}.Title()}}
	for _, f := range figures(append(slices.Clone(stock), berth...)) {
		rows = append(rows, []string{f.name, f.text(stock), f.text(berth)})
	}
	if err := writeRows(w, rows); err != nil {
		return err
	}
	if len(c) > 1 {
		if _, err := fmt.Fprintf(w, "Medians of %d runs, with the smallest and the largest value in brackets.\n", len(c)); err != nil {
			return err
		}
	}
	if n := contended(berth); n > 0 {
		if _, err := fmt.Fprintf(w, overtaken, n); err != nil {
			return err
		}
	}
	for i := range c {
		for _, half := range []struct {
			title string
			*Report
		}{{Stock{}.Title(), stock[i]}, {Berth{}.Title(), berth[i]}} {
			if !half.OutOfTime {
				continue
			}
			if len(c) > 1 {
				half.title += fmt.Sprintf(", run %d", i+1)
			}
			if _, err := fmt.Fprintf(w, outOfTime, half.title); err != nil {
				return err
			}
		}
	}
	return nil
}

func contended(reports []*Report) (n int) {
	for _, r := range reports {
		n += r.Contended
	}
	return n
}

func (c Comparisons) halves() (stock, berth []*Report) {
	for _, one := range c {
		stock, berth = append(stock, one.Stock), append(berth, one.Berth)
	}
	return stock, berth
}

// writeRows writes rows with equal numbers of cells. The first cell is aligned to the left, the
// others to the right.
func writeRows(w io.Writer, rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, r := range rows {
		line := fmt.Sprintf("%-*s", widths[0], r[0])
		for i, cell := range r[1:] {
			line += fmt.Sprintf("   %*s", widths[i+1], cell)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

type figure struct {
	name   string
	of     func(*Report) float64
	digits int // after the decimal point
	// share returns the number of one run as a share of all pods. It is nil if a share has no
	// meaning.
	share func(*Report) string
}

// text returns the figure of a run, or the median and the range of several runs.
func (f *figure) text(runs []*Report) string {
	values := make([]float64, 0, len(runs))
	for _, r := range runs {
		values = append(values, f.of(r))
	}
	slices.Sort(values)
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', f.digits, 64) }
	n := len(values)
	text, least, greatest := number((values[(n-1)/2]+values[n/2])/2), number(values[0]), number(values[n-1])
	switch {
	case n == 1 && f.share != nil:
		return text + f.share(runs[0])
	case least == greatest:
		return text
	default:
		return fmt.Sprintf("%s (%s to %s)", text, least, greatest)
	}
}

// figures returns the lines of the table. A line that only some of the reports need is 0 for the
// others.
func figures(reports []*Report) []figure {
	var out []figure
	number := func(name string, f func(*Report) int) {
		out = append(out, figure{name: name, of: func(r *Report) float64 { return float64(f(r)) }})
	}
	fraction := func(name string, f func(*Report) float64) {
		out = append(out, figure{name: name, of: f, digits: 2})
	}
	rejected, nodes := map[string]int{}, map[string]int{}
	for _, r := range reports {
		maps.Copy(rejected, r.Rejected)
		maps.Copy(nodes, r.NUMANodesPerPod)
	}
	number("pods created", func(r *Report) int { return r.Pods })
	number("ever running", func(r *Report) int { return r.Running })
	number("refused by the kubelet", (*Report).Refused)
	for _, reason := range keys(rejected) {
		number("  "+reason, func(r *Report) int { return r.Rejected[reason] })
	}
	number("waiting in the end", func(r *Report) int { return r.Pending })
	number("  although a node had room", func(r *Report) int { return r.Stalled })
	for _, n := range keys(nodes) {
		number("pods on "+n+" NUMA node"+plural(n), func(r *Report) int { return r.NUMANodesPerPod[n] })
	}
	number("  avoidably split", func(r *Report) int { return r.AvoidablySplit })
	number("pods across sockets", func(r *Report) int { return r.CrossSocket })
	fraction("GPUs without CPUs, mean", func(r *Report) float64 { return r.StrandedDevices })
	number("  avoidably stranded", func(r *Report) int { return r.AvoidablyStranded })
	number("decisions before binding", func(r *Report) int { return r.Predicted })
	number("  exact", func(r *Report) int { return r.Exact })
	out[len(out)-1].share = (*Report).exactShare
	number("  wrong", func(r *Report) int { return r.Mispredicted })
	number("  contended", func(r *Report) int { return r.Contended })
	fraction("seconds to running, median", func(r *Report) float64 { return r.SecondsToRunning.P50 })
	fraction("seconds to running, p99", func(r *Report) float64 { return r.SecondsToRunning.P99 })
	fraction("  of pods that ran in both", func(r *Report) float64 { return r.SecondsToRunning.InBoth.P99 })
	fraction("  while refused, p99", func(r *Report) float64 { return r.SecondsToRunning.Refused.P99 })
	fraction("  until it has a node, p99", func(r *Report) float64 { return r.SecondsToRunning.ToNode.P99 })
	fraction("  from then on, p99", func(r *Report) float64 { return r.SecondsToRunning.OnNode.P99 })
	return out
}

func plural(n string) string {
	if n == "1" {
		return ""
	}
	return "s"
}

func (r *Report) exactShare() string {
	if r.Predicted == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d%%)", 100*r.Exact/r.Predicted)
}

// keys returns the keys in order: first numbers by value, then other texts in alphabetical order.
func keys(set map[string]int) []string {
	return slices.SortedFunc(maps.Keys(set), func(x, y string) int {
		i, errX := strconv.Atoi(x)
		j, errY := strconv.Atoi(y)
		if errX == nil && errY == nil {
			return cmp.Compare(i, j)
		}
		return cmp.Compare(x, y)
	})
}
