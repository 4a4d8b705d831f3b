package page

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/lab"
	"github.com/berth-dev/berth/test/golden"
)

// small simulates a few pods on a few nodes.
func small(t *testing.T, overlay string, names ...string) *Comparison {
	t.Helper()
	e := simulate.Experiment{Seeds: []int64{1, 2}, Unused: true}
	for i := range 6 {
		e.Nodes = append(e.Nodes, trace.Node{Name: fmt.Sprint("n", i), MilliCPU: 64000, MiB: 1 << 18, GPUs: 4})
	}
	var err error
	if e.Pods, err = lab.Synthetic("inference", false); err != nil {
		t.Fatal(err)
	}
	if e.Strategies, err = lab.StrategiesOf(names...); err != nil {
		t.Fatal(err)
	}
	if overlay != "" {
		o, err := lab.ParseOverlay(overlay)
		if err == nil {
			e.Ground, err = lab.NewNUMA(e.Nodes, lab.Overlays{Rest: &o})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	e.Arrive = lab.Arrive(e.Nodes, e.Pods, 1.3)
	c := &Comparison{GPUs: true, NUMA: overlay != "", Strategies: e.Strategies, Command: "berth simulate -o html", Facts: []Fact{{"nodes", "6"}}}
	c.Filled = &Recorder{Seed: 1, GPUs: true}
	e.Watch = c.Filled.Watch
	if c.Runs, err = e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func written(t *testing.T, c *Comparison) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTimed: if pods arrive and end, the page shows how long they wait, and has plots over hours.
func TestTimed(t *testing.T) {
	c := small(t, "sockets/restricted", "StockLeast", "Berth")
	for i := range c.Runs {
		c.Runs[i].Curve, c.Runs[i].AlignedCurve, c.Filled = nil, nil, nil
		c.Runs[i].Timed = &simulate.Timed{From: 3600, To: 7200, Waiting: simulate.Waiting{P50: 60, P99: 600},
			Course: []simulate.Moment{{Second: 0}, {Second: 3600, InUse: 40, Aligned: 30, Waiting: 2}, {Second: 7200, InUse: 60, Aligned: 50, Waiting: 7}}}
	}
	text := written(t, c)
	for _, want := range []string{"<h2>Waiting</h2>", "<h2>How long pods wait</h2>", "10.0, half 1.0", ">50.0</td>", "On average", "Pods come and go.", "hours"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q", want)
		}
	}
	for _, unwanted := range []string{"dotted", "NaN", "How the nodes fill", "none leaves"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q is there", unwanted)
		}
	}
}

// picture is not compared, because another release of Go may compress it differently.
var picture = regexp.MustCompile(`data:image/png;base64,[^"]*`)

func TestGolden(t *testing.T) {
	for name, c := range map[string]*Comparison{
		"numa":    small(t, "sockets/restricted", "StockLeast", "Berth"),
		"amounts": small(t, "", "FGD"),
	} {
		text := written(t, c)
		if again := written(t, c); again != text {
			t.Errorf("%s: two writes differ", name)
		}
		if n := strings.Count(text, "<img "); n != len(picture.FindAllString(text, -1)) || n != len(c.Strategies) {
			t.Errorf("%s: %d pictures of %d strategies", name, n, len(c.Strategies))
		}
		_, body, _ := strings.Cut(picture.ReplaceAllString(text, "data:"), "</style>")
		golden.File(t, "testdata/"+name+".txt", body)
	}
}

// TestAlone: the page loads nothing, runs no script, and escapes texts.
func TestAlone(t *testing.T) {
	c := small(t, "quarters/best-effort", "StockLeast", "StockMost", "Berth")
	const hostile = `</title><script>alert(1)</script>"'><img src=https://x onerror=alert(2)>{{.}}`
	c.Command, c.Facts = hostile, []Fact{{hostile, hostile}}
	for i := range c.Runs {
		c.Runs[i].Strategy += hostile
	}
	text := written(t, c)
	for _, banned := range []string{"<script", "<img src=https", "<link", "@import", "ZgotmplZ", "{{"} {
		if strings.Contains(strings.ReplaceAll(text, "{{.}}", ""), banned) {
			t.Errorf("the page has %q", banned)
		}
	}
	for _, m := range regexp.MustCompile(`(?:src|href)\s*=\s*"([^"]*)"|url\(([^)]*)\)`).FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(m[1], "data:image/png;base64,") {
			t.Errorf("the page asks for %.60q", m[0])
		}
	}
	if n := strings.Count(text, "&lt;script&gt;alert(1)"); n < 10 {
		t.Errorf("hostile names are seen %d times", n)
	}
}

// TestLabelled: names do not overlap and are inside the plot.
func TestLabelled(t *testing.T) {
	for n := range 20 {
		const high = 20 * labelHigh
		var traces []drawnCurve
		for i := range n {
			traces = append(traces, drawnCurve{End: i * i * 7 % high})
		}
		for i, l := range labelled(traces, high) {
			if l.Label < labelHigh/2 || l.Label > high-labelHigh/2 {
				t.Errorf("%d names: one at %d of %d", n, l.Label, high)
			}
			if i > 0 && l.Label-traces[i-1].Label < labelHigh {
				t.Errorf("%d names: at %d and %d", n, traces[i-1].Label, l.Label)
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0, 100, "0 20 40 60 80 100"}, {85, 100, "85 90 95 100"}, {0, 1, "0 0.2 0.4 0.6 0.8 1"}, {0, 0.03, "0 0.005 0.01 0.015 0.02 0.025 0.03"}, {0, 130, "0 50 100"}, {0, 15000, "0 5k 10k 15k"},
	} {
		var got []string
		for _, tick := range ticks(c.low, c.high, 6) {
			got = append(got, tick.Text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v to %v: %v, want %s", c.low, c.high, got, c.want)
		}
	}
}
