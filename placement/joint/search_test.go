package joint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/topology"
)

// switched returns a machine with numbers of NUMA nodes, and of PCIe switches on each. Each
// function is a kind of devices, and returns how many devices a switch has.
func switched(t testing.TB, nodes, switches int, kinds ...func(at int) int) *Model {
	t.Helper()
	return newModel(t, switchedConfig(nodes, switches, kinds...))
}

func newModel(t testing.TB, c Config) *Model {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func switchedConfig(nodes, switches int, kinds ...func(at int) int) Config {
	c := configOf(fmt.Sprintf("package:1 numa:%d l3:1 core:2 pu:2 number:packed mem:8Gi dist:10,12", nodes), topology.CPUSet{})
	for i, count := range kinds {
		kind := DeviceKind{Name: fmt.Sprint("kind", i)}
		for at := range nodes * switches {
			for range count(at) {
				kind.Devices = append(kind.Devices, Device{ID: fmt.Sprint(i, "-", len(kind.Devices)), Node: at / switches, Root: 1 + at, Switch: 1 + at})
			}
		}
		c.Devices = append(c.Devices, kind)
	}
	return c
}

// uneven takes some of the devices of each kind, as pods of all sizes would.
func uneven(rng *rand.Rand, m *Model) *Book {
	b := m.NewBook()
	for k := range m.Devices.Kinds() {
		for i := range m.Devices.Len(uint8(k)) {
			if rng.IntN(3) == 0 {
				m.Devices.Take(b, DeviceRef{uint8(k), uint16(i)})
			}
		}
	}
	return b
}

// TestFreeDevicesAreNeverRefused: a request for devices at any place gets as many as are free,
// whatever the number of their places.
func TestFreeDevicesAreNeverRefused(t *testing.T) {
	for _, shape := range [][2]int{{2, 10}, {8, 4}, {16, 4}} {
		m := switched(t, shape[0], shape[1], func(at int) int { return 3 + at*7%16 })
		rng := rand.New(rand.NewPCG(uint64(shape[0]), 9))
		try := m.NewTry()
		var g Grant
		for range 20 {
			b := uneven(rng, m)
			free := 0
			for v := range m.Cores.nodes {
				n, _ := m.Devices.On(b, 0, v)
				free += n
			}
			for n := free; n > 0; n -= 1 + free/16 {
				w := Want{Devices: []DeviceWant{{N: n}}, Width: AnyWidth}
				if try.Begin(b); try.Place(&w, &g) != Placed || len(g.Devices) != n {
					t.Fatalf("%v: %d of %d free devices are refused", shape, n, free)
				}
			}
		}
	}
}

// wideWants are requests for eight GPUs and eight NICs.
func wideWants() (out []Want) {
	for same := Anywhere; same < sames; same++ {
		for _, width := range []Width{AnyWidth, Fewest} {
			w := Want{CPUs: 2, Devices: []DeviceWant{{Kind: 0, N: 8}, {Kind: 1, N: 8}}, Width: width, Same: same}
			if same != Anywhere {
				w.SameHow = Preferred
			}
			out = append(out, w)
		}
	}
	return out
}

// wideMachines have 16 NUMA nodes with four switches each. Realistic machines have one GPU and one
// NIC below each switch, or two and four. Others have a different number of each below every
// switch. The GPUs of one machine are linked, each pair by a different number of links.
func wideMachines(t testing.TB) map[string]*Model {
	linked := switchedConfig(16, 4, func(at int) int { return b2i(at%5 == 1) }, func(int) int { return 1 })
	for a := range linked.Devices[0].Devices[:maxLinked] {
		for b := range a {
			linked.Devices[0].Links = append(linked.Devices[0].Links, DeviceLink{A: a, B: b, Count: 1 + a*7*b%5})
		}
	}
	linked.Devices[0].Devices = linked.Devices[0].Devices[:maxLinked]
	return map[string]*Model{
		"One":    switched(t, 16, 4, func(int) int { return 1 }, func(int) int { return 1 }),
		"Even":   switched(t, 16, 4, func(int) int { return 2 }, func(int) int { return 4 }),
		"Uneven": switched(t, 16, 4, func(at int) int { return at * 5 % 4 }, func(at int) int { return at * 7 % 5 }),
		"Linked": newModel(t, linked),
		"Forged": switched(t, 16, 4, func(at int) int { return at * 37 % 61 % 3 }, func(at int) int { return at * 53 % 59 % 2 }),
	}
}

// TestStepsOfAQuestion: on machines with 64 places, the median question takes few steps, and only
// the strangest machine's questions are cut off. A question without a budget of steps is answered
// too.
func TestStepsOfAQuestion(t *testing.T) {
	for name, m := range wideMachines(t) {
		rng := rand.New(rand.NewPCG(5, 16))
		try := m.NewTry()
		var took []int
		cut := 0
		for range 12 {
			b := uneven(rng, m)
			for _, w := range wideWants() {
				var all, none Grant
				try.Budget = new(Budget)
				try.Begin(b)
				hurried := try.Place(&w, &none)
				try.Budget.Refill()
				try.Begin(b)
				outcome := try.Place(&w, &all)
				took = append(took, Steps-try.Budget.Left())
				cut += b2i(all.Cut)
				if hurried != outcome || hurried == Placed && (len(none.Devices) != 16 || !none.Cut) {
					t.Fatalf("%s: %+v: without a step %v %+v, with all %v %+v", name, w, hurried, none, outcome, all)
				}
			}
		}
		slices.Sort(took)
		t.Logf("%s: steps: median %d, most %d, cut off %d of %d", name, took[len(took)/2], took[len(took)-1], cut, len(took))
		if most := took[len(took)/2]; most > 1000 && name != "Linked" {
			t.Errorf("%s: a question takes %d steps at the median, want at most 1000", name, most)
		}
		if name != "Forged" && cut > 0 {
			t.Errorf("%s: %d questions of %d were cut off", name, cut, len(took))
		}
	}
}

// TestAWideQuestionAllocatesNothing: this is true for questions that are cut off and for others.
func TestAWideQuestionAllocatesNothing(t *testing.T) {
	for name, m := range wideMachines(t) {
		try, b := m.NewTry(), uneven(rand.New(rand.NewPCG(5, 16)), m)
		var g Grant
		for _, w := range wideWants() {
			ask := func() { try.Begin(b); try.Place(&w, &g) }
			ask()
			if n := testing.AllocsPerRun(10, ask); n > 0 {
				t.Errorf("%s: %+v: %v allocations", name, w, n)
			}
		}
	}
}

// torn is a machine whose free CPUs are on one half of its NUMA nodes, and whose devices are on the
// other half. The request needs all of them, so only the last set of NUMA nodes that is tried fits.
func torn(t testing.TB) (*Model, *Book, Want) {
	half := func(at int) int { return b2i(at >= 32) * (1 + at%3) }
	m := switched(t, 16, 4, half, half)
	b := m.NewBook()
	m.Take(b, &Held{CPUs: m.Cores.Free(b)})
	var back topology.CPUSet
	for i := range m.Cores.cores {
		if m.Cores.cores[i].node < 8 {
			for _, id := range m.Cores.cores[i].cpus[:2] {
				back.Add(id)
			}
		}
	}
	m.Give(b, &Held{CPUs: back})
	w := Want{CPUs: back.Len(), Devices: []DeviceWant{{Kind: 0, N: 60}, {Kind: 1, N: 60}}, Width: AnyWidth, Same: SameSwitch, SameHow: Preferred,
		Rules: Rules{Bind: FullCores, BindHow: Preferred, Exclusive: ExclusiveCore, ExclusiveHow: Preferred, L3: Preferred}}
	return m, b, w
}

// BenchmarkTorn measures the longest possible question.
func BenchmarkTorn(b *testing.B) {
	m, book, w := torn(b)
	try := m.NewTry()
	var g Grant
	for b.Loop() {
		try.Begin(book)
		if try.Place(&w, &g) != Placed || g.Nodes != m.space.All() {
			b.Fatalf("%+v", g)
		}
	}
}

// BenchmarkWide measures a request for eight GPUs and eight NICs on 16 NUMA nodes with four
// switches each, half of them in use.
func BenchmarkWide(b *testing.B) {
	for name, m := range wideMachines(b) {
		for _, w := range wideWants() {
			b.Run(fmt.Sprintf("%s/same=%d/width=%d", name, w.Same, w.Width), func(b *testing.B) { benchWide(b, m, w) })
		}
	}
}

// benchWide reports the median and the worst of 64 occupancies. Each time is the best of 25.
func benchWide(b *testing.B, m *Model, w Want) {
	took, cut := timesOf(m, w)
	try, book := m.NewTry(), uneven(rand.New(rand.NewPCG(5, 16)), m)
	var g Grant
	for b.Loop() {
		try.Begin(book)
		try.Place(&w, &g)
	}
	reportTimes(b, took)
	b.ReportMetric(float64(cut), "cut")
}

// timesOf returns how long a question takes in each of 64 occupancies, and how many questions were
// cut off. Each time is the best of 25.
func timesOf(m *Model, w Want) (took []time.Duration, cut int) {
	rng := rand.New(rand.NewPCG(5, 16))
	try := m.NewTry()
	var g Grant
	for range 64 {
		book, best := uneven(rng, m), time.Hour
		for range 25 {
			start := time.Now()
			try.Begin(book)
			try.Place(&w, &g)
			best = min(best, time.Since(start))
		}
		took = append(took, best)
		cut += b2i(g.Cut)
	}
	return took, cut
}

func reportTimes(b *testing.B, took []time.Duration) (median, worst time.Duration) {
	slices.Sort(took)
	median, worst = took[len(took)/2], took[len(took)-1]
	b.ReportMetric(float64(median.Nanoseconds())/1000, "us-p50")
	b.ReportMetric(float64(worst.Nanoseconds())/1000, "us-worst")
	return median, worst
}

// BenchmarkWideAll measures all questions of BenchmarkWide together. It fails if they take longer
// than promised: 20 us at the median, 1 ms at worst.
func BenchmarkWideAll(b *testing.B) {
	var took []time.Duration
	for b.Loop() {
		took = took[:0]
		for _, m := range wideMachines(b) {
			for _, w := range wideWants() {
				times, _ := timesOf(m, w)
				took = append(took, times...)
			}
		}
	}
	if median, worst := reportTimes(b, took); median > 20*time.Microsecond || worst > time.Millisecond {
		b.Errorf("a question takes %v at the median and %v at worst, want 20 us and 1 ms", median, worst)
	}
}
