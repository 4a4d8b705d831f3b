// Package results writes the measured part of docs/performance.md from the files in this folder:
// JSON that clusterbench writes, and the output of BenchmarkCycle. `make reference` calls it.
package results

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/test/golden"
)

const page = "../../../docs/performance.md"

// TestReferenceFigures compares the measured part of docs/performance.md with the files.
func TestReferenceFigures(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin := bytes.Index(text, []byte("<!-- measured: begin"))
	end := bytes.Index(text, []byte("<!-- measured: end"))
	if begin < 0 || end < begin {
		t.Fatalf("%s: want a comment <!-- measured: begin --> and one <!-- measured: end --> after it", page)
	}
	begin += bytes.IndexByte(text[begin:], '\n') + 1
	var m measured
	for _, file := range files(t) {
		if err := m.take(file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	golden.File(t, page, string(text[:begin])+m.String()+string(text[end:]))
}

func files(t *testing.T) (out []string) {
	t.Helper()
	for _, pattern := range []string{"*.json", "*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, files...)
	}
	return out
}

// row is a line of the table. Values are Berth's divided by the stock scheduler's.
type row struct {
	load                       string
	cpu, settled, told, memory float64 // 0 if not measured
	pairs                      int
	day                        string
	order                      [3]int
}

// measured is what the files contain.
type measured struct {
	rows  []row
	lines []string
}

func (m *measured) take(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if strings.HasSuffix(file, ".txt") {
		return m.takeCycles(string(text))
	}
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	if r.Begun.IsZero() {
		return fmt.Errorf("begun: want the time of the measurement")
	}
	return m.takeResult(&r)
}

func (m *measured) add(r row) error {
	if slices.ContainsFunc(m.rows, func(o row) bool { return o.load == r.load }) {
		return fmt.Errorf("%s: another file has this load: want one", r.load)
	}
	if r.pairs == 0 || r.cpu == 0 {
		return fmt.Errorf("%s: %d pairs, CPU %g: want both", r.load, r.pairs, r.cpu)
	}
	m.rows = append(m.rows, r)
	return nil
}

// result has the fields of clusterbench's JSON that the page shows.
type result struct {
	Begun  time.Time
	Ratios []struct {
		Nodes, Pods, Pairs         int
		Load, Profile              string
		CPU, Settled, Told, Memory estimate
	}
	Gangs []struct {
		Nodes, Pairs int
		Settled, CPU estimate
	}
	Starts []struct {
		Nodes, Pods, Pair int
		Scheduler         string
		Seconds           float64
	}
	Filter []struct {
		Nodes, There    int
		Scheduler, Pods string
		Milliseconds    []float64
	}
}

type estimate struct{ Median float64 }

func (m *measured) takeResult(r *result) error {
	day := r.Begun.Format(time.DateOnly)
	for _, o := range r.Ratios {
		err := m.add(row{
			load: fmt.Sprintf("%s %s pods at once, %s nodes%s", thousands(o.Pods), o.Load, thousands(o.Nodes), profiles[o.Profile]),
			cpu:  o.CPU.Median, settled: o.Settled.Median, told: o.Told.Median, memory: o.Memory.Median,
			pairs: o.Pairs, day: day, order: [3]int{1 + len(profiles[o.Profile]), o.Nodes*100_000 + o.Pods, strings.Index("pinned ordinary", o.Load)},
		})
		if err != nil {
			return err
		}
	}
	for _, o := range r.Gangs {
		err := m.add(row{
			load: fmt.Sprintf("pods in gangs of 16, divided by the same pods one by one, %s nodes", thousands(o.Nodes)),
			cpu:  o.CPU.Median, settled: o.Settled.Median, pairs: o.Pairs, day: day, order: [3]int{math.MaxInt, o.Nodes},
		})
		if err != nil {
			return err
		}
	}
	m.takeStarts(r, day)
	m.takeSearches(r, day)
	return nil
}

// profiles describes the arguments of the other plugins.
var profiles = map[string]string{"chart": "", "stock": ", kube-scheduler's default arguments"}

// takeStarts compares the time of each pair from the start of a scheduler to its first Binding.
func (m *measured) takeStarts(r *result, day string) {
	type size struct{ nodes, pods int }
	ratios := map[size][]float64{}
	for _, b := range r.Starts {
		for _, s := range r.Starts {
			if b.Scheduler == "berth" && s.Scheduler == "stock" && b.Nodes == s.Nodes && b.Pods == s.Pods && b.Pair == s.Pair {
				ratios[size{b.Nodes, b.Pods}] = append(ratios[size{b.Nodes, b.Pods}], b.Seconds/s.Seconds)
			}
		}
	}
	for at, all := range ratios {
		m.lines = append(m.lines, fmt.Sprintf("- Time from the start of the process to the first Binding, %s nodes with %s running pods: **%.2f** (%d pairs, %s).",
			thousands(at.nodes), thousands(at.pods), quantile(all, 0.5), len(all), day))
	}
}

// takeSearches compares the search times for single pods.
func (m *measured) takeSearches(r *result, day string) {
	shapes := map[string]string{"new": "a shape that no pod had before", "repeated": "a shape that pods had before"}
	for _, b := range r.Filter {
		for _, s := range r.Filter {
			if b.Scheduler == "berth" && s.Scheduler == "stock" && b.Nodes == s.Nodes && b.There == s.There && b.Pods == s.Pods {
				ratio := func(q float64) float64 { return quantile(b.Milliseconds, q) / quantile(s.Milliseconds, q) }
				m.lines = append(m.lines, fmt.Sprintf("- Time to find a node for one pinned pod of %s, %s nodes: **%.2f** at the median, **%.2f** at the 99th percentile (%d pods, %s).",
					shapes[b.Pods], thousands(b.Nodes), ratio(0.5), ratio(0.99), len(b.Milliseconds), day))
			}
		}
	}
}

var (
	cycleDay  = regexp.MustCompile(`^measured (\d{4}-\d\d-\d\d)\n`)
	cycleLine = regexp.MustCompile(`(?m)^BenchmarkCycle/(\w+)/(\w+)(?:-\d+)?\s+(\d+)\s(?:.*\s)?([0-9.]+) ratio\b`)
	// cycleLoads are the benchmark's loads, as the page describes them, in its order.
	cycleLoads = [][2]string{
		{"known", "one cycle, pinned pod of a shape that pods had before"},
		{"new", "one cycle, pinned pod of a new shape"},
		{"ordinary", "one cycle, ordinary pod"},
	}
)

func (m *measured) takeCycles(text string) error {
	day := cycleDay.FindStringSubmatch(text)
	if day == nil {
		return fmt.Errorf("first line: want measured YYYY-MM-DD")
	}
	found := cycleLine.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		return fmt.Errorf("no line of BenchmarkCycle with a ratio")
	}
	for _, f := range found {
		at := slices.IndexFunc(cycleLoads, func(l [2]string) bool { return l[0] == f[2] })
		profile, known := profiles[f[1]]
		if at < 0 || !known {
			return fmt.Errorf("BenchmarkCycle/%s/%s: this load is not known here", f[1], f[2])
		}
		pairs, _ := strconv.Atoi(f[3])
		cpu, _ := strconv.ParseFloat(f[4], 64)
		if err := m.add(row{load: cycleLoads[at][1] + ", 5,000 nodes" + profile, cpu: cpu, pairs: pairs, day: day[1], order: [3]int{0, len(profile), at}}); err != nil {
			return err
		}
	}
	return nil
}

// String is the part of the page.
func (m *measured) String() string {
	slices.SortFunc(m.rows, func(a, b row) int { return slices.Compare(a.order[:], b.order[:]) })
	slices.SortFunc(m.lines, cmp.Compare)
	var b strings.Builder
	b.WriteString("\n| load | CPU time | pods settled per second | pods settled per second, with events written | peak memory | pairs | measured |\n|---|--:|--:|--:|--:|--:|---|\n")
	for _, r := range m.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d | %s |\n", r.load, cell(r.cpu), cell(r.settled), cell(r.told), cell(r.memory), r.pairs, r.day)
	}
	b.WriteString("\n")
	for _, line := range m.lines {
		b.WriteString(wrap(line) + "\n")
	}
	if len(m.lines) > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

func cell(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}

// wrap breaks a list item into lines of at most 120 columns.
func wrap(line string) string {
	out, column := "", 0
	for i, word := range strings.Fields(line) {
		switch {
		case i == 0:
		case column+1+len(word) > 120:
			out, column = out+"\n  ", 2
		default:
			out, column = out+" ", column+1
		}
		out, column = out+word, column+len(word)
	}
	return out
}

// thousands writes 15000 as 15,000.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// quantile interpolates between the two nearest values. It is NaN if there are none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	at := q * float64(len(s)-1)
	low := int(at)
	return s[low] + (s[min(low+1, len(s)-1)]-s[low])*(at-float64(low))
}

// TestTake: a file with invalid contents is an error.
func TestTake(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"no day":         {"a.txt", "BenchmarkCycle/chart/known-2 7 0.3 ratio\n", "want measured"},
		"no ratio":       {"a.txt", "measured 2026-11-28\nBenchmarkCycle/chart/known-2 7 681 berth-us/cycle\n", "no line"},
		"unknown load":   {"a.txt", "measured 2026-11-28\nBenchmarkCycle/chart/odd-2 7 0.3 ratio\n", "not known"},
		"twice":          {"a.txt", "measured 2026-11-28\nBenchmarkCycle/chart/new-2 7 0.3 ratio\nBenchmarkCycle/chart/new-2 7 0.4 ratio\n", "another file"},
		"no time":        {"a.json", `{"ratios":[]}`, "begun"},
		"nothing in it":  {"a.json", `{"begun":"2026-11-28T00:00:00Z","ratios":[{"nodes":5000,"pods":2000,"load":"pinned","profile":"chart"}]}`, "0 pairs"},
		"no JSON at all": {"a.json", `nodes`, "invalid"},
	} {
		file := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		var m measured
		if err := m.take(file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v: want an error with %q", name, err, c.want)
		}
	}
}
