package joint

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// configOf returns the configuration for a machine string, with its memory and its pages of 2 MiB.
func configOf(text string, reserved topology.CPUSet) Config {
	m := shapes.Machine(text)
	c := Config{Reserved: reserved, Amounts: []AmountKind{{Name: "memory"}, {Name: "hugepages-2Mi", Unit: 2 << 20}}}
	for i := range m.NUMANodes {
		n := &m.NUMANodes[i]
		node := Node{ID: n.ID, Amounts: []uint64{n.MemoryBytes, 0}}
		for _, h := range n.HugePages {
			if h.PageBytes == 2<<20 {
				node.Amounts[1] = h.Count * h.PageBytes
			}
		}
		for _, d := range n.Distances {
			node.Distances = append(node.Distances, uint64(d))
		}
		for _, k := range m.Cores {
			if k.CPUs.IsSubsetOf(&n.CPUs) {
				node.Cores = append(node.Cores, coreOf(m, &k.CPUs))
			}
		}
		c.Nodes = append(c.Nodes, node)
	}
	return c
}

func coreOf(m *topology.Machine, cpus *topology.CPUSet) Core {
	var k Core
	for id := range cpus.All() {
		k.CPUs = append(k.CPUs, id)
	}
	for _, l := range m.L3s {
		if l.CPUs.Intersects(cpus) {
			k.L3 = int(l.ID)
		}
	}
	return k
}

func modelOf(t testing.TB, text, reserved string, strategy Strategy) *Model {
	t.Helper()
	set := shapes.CPUs(reserved)
	c := configOf(text, set)
	c.Strategy = strategy
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var outcomeNames = [...]string{"placed", "odd CPUs", "unequal cores", "no CPUs", "no cores", "no amount", "no devices", "not together", "too wide", "not offered", "out of reach", "withholds", "not exactly"}

// String is for tests.
func (o PlaceResult) String() string { return outcomeNames[o] }

const (
	two32   = "package:2 numa:1 l3:1 core:32 pu:1 mem:64Gi dist:10,21"          // NUMA nodes of 32 CPUs
	four8   = "package:2 numa:2 l3:1 core:8 pu:1 mem:16Gi dist:10,12,32"        // NUMA nodes of 8 CPUs
	pair8   = "package:1 numa:2 l3:1 core:8 pu:1 mem:16Gi dist:10,12"           // two such NUMA nodes on one socket
	smt     = "package:2 numa:1 l3:2 core:4 pu:2 number:packed dist:10,21"      // 2 nodes of 2 caches of 4 cores of 2 threads
	quarter = "package:1 numa:1 l3:1 core:4 pu:2 number:packed mem:8Gi"         // 1 node of 4 cores
	huge    = "package:2 numa:1 l3:1 core:4 pu:1 mem:8Gi huge:2Mi=8 dist:10,21" // 16 MiB of huge pages a node
)

// The rules of the examples.
var (
	full      = Rules{Bind: FullCores, BindHow: Required}
	likeFull  = Rules{Bind: FullCores, BindHow: Preferred}
	spread    = Rules{Bind: Spread, BindHow: Required}
	coreAlone = Rules{Exclusive: ExclusiveCore, ExclusiveHow: Required}
	nodeAlone = Rules{Exclusive: ExclusiveNUMA, ExclusiveHow: Required}
	oneCache  = Rules{L3: Required}
)

func TestPlace(t *testing.T) {
	mem := func(n uint64) []Amount { return []Amount{{Kind: 1, N: n << 30}} }
	for _, c := range []struct {
		name     string
		machine  string
		reserved string
		taken    string // CPUs that others have
		want     Want
		outcome  PlaceResult
		nodes    hint.Mask
		cpus     string
	}{
		// The seed's examples.
		{name: "33 CPUs on nodes of 32, restricted", machine: two32, want: Want{CPUs: 33, Width: Fewest}, nodes: 3, cpus: "0-32"},
		{name: "33 CPUs on nodes of 32, single", machine: two32, want: Want{CPUs: 33, Width: One}, outcome: TooWide},
		{name: "8 CPUs on four nodes of 8: each is narrowest", machine: four8, want: Want{CPUs: 8, Width: One}, nodes: 1, cpus: "0-7"},
		{name: "16 CPUs on two nodes of 8, restricted", machine: pair8, want: Want{CPUs: 16, Width: Fewest}, nodes: 3, cpus: "0-15"},
		{name: "16 CPUs on two nodes of 8, single", machine: pair8, want: Want{CPUs: 16, Width: One}, outcome: TooWide},

		// Width.
		{name: "restricted refuses what only fragmentation widens", machine: pair8, taken: "0-3,8-11", want: Want{CPUs: 8, Width: Fewest}, outcome: TooWide},
		{name: "best effort takes it", machine: pair8, taken: "0-3,8-11", want: Want{CPUs: 8}, nodes: 3, cpus: "4-7,12-15"},
		{name: "memory alone widens an empty machine too", machine: pair8, want: Want{CPUs: 2, Width: Fewest, Amounts: mem(20)}, nodes: 3, cpus: "0-1"},
		{name: "the closer pair", machine: four8, taken: "0-7", want: Want{CPUs: 16}, nodes: 0b1100, cpus: "16-31"},
		{name: "the fuller node", machine: four8, taken: "8-9", want: Want{CPUs: 4}, nodes: 2, cpus: "10-13"},

		// An exact number of NUMA nodes.
		{name: "two nodes where one would do", machine: pair8, want: Want{CPUs: 4, Nodes: 2}, nodes: 3, cpus: "0-1,8-9"},
		{name: "the tight node gives less", machine: pair8, taken: "0-6", want: Want{CPUs: 6, Nodes: 2}, nodes: 3, cpus: "7-12"},
		{name: "whole cores while there are enough", machine: smt, want: Want{CPUs: 6, Nodes: 2}, nodes: 3, cpus: "0-1,16-19"},
		{name: "half a core each", machine: smt, want: Want{CPUs: 2, Nodes: 2}, nodes: 3, cpus: "0,16"},
		{name: "one thread a core on each", machine: smt, want: Want{CPUs: 4, Nodes: 2, Rules: spread}, nodes: 3, cpus: "0,2,16,18"},
		{name: "rather one thread a core on each", machine: smt, want: Want{CPUs: 4, Nodes: 2, Rules: Rules{Bind: Spread, BindHow: Preferred}}, nodes: 3, cpus: "0,2,16,18"},
		{name: "the nearest two that have room", machine: four8, taken: "0-7", want: Want{CPUs: 2, Nodes: 2}, nodes: 0b1100, cpus: "16,24"},
		{name: "two of which one is full", machine: pair8, taken: "0-7", want: Want{CPUs: 2, Nodes: 2}, outcome: NotExactly},
		{name: "two nodes for what needs three", machine: four8, want: Want{CPUs: 20, Nodes: 2}, outcome: NotExactly},
		{name: "more nodes than there are", machine: pair8, want: Want{CPUs: 4, Nodes: 3}, outcome: NotExactly},
		{name: "one CPU on two nodes", machine: pair8, want: Want{CPUs: 1, Nodes: 2, Amounts: mem(4)}, outcome: NotExactly},
		{name: "two whole nodes", machine: pair8, want: Want{CPUs: 16, Nodes: 2, Pays: true, Rules: nodeAlone}, nodes: 3, cpus: "0-15"},
		{name: "one cache of each", machine: smt, taken: "0", want: Want{CPUs: 16, Nodes: 2, Rules: oneCache}, nodes: 3, cpus: "8-15,16-23"},
		{name: "no cache whole on one of them", machine: smt, taken: "0,8", want: Want{CPUs: 16, Nodes: 2, Rules: oneCache}, outcome: NoCores},
		{name: "memory of two nodes", machine: pair8, want: Want{Nodes: 2, Amounts: mem(4)}, nodes: 3},
		{name: "nothing that could lie on two", machine: pair8, want: Want{Nodes: 2}, outcome: NotExactly},

		// Cores.
		{name: "an odd number is no whole number of cores", machine: smt, want: Want{CPUs: 3, Rules: full}, outcome: OddCPUs},
		{name: "whole cores beside begun ones", machine: smt, taken: "0,3", want: Want{CPUs: 4, Rules: full}, nodes: 1, cpus: "4-7"},
		{name: "too few whole cores", machine: smt, taken: "0-30:2/4", want: Want{CPUs: 2, Rules: full}, nodes: 1, cpus: "2-3"},
		{name: "no whole core", machine: smt, taken: "0-30:1/2", want: Want{CPUs: 2, Rules: full}, outcome: NoCores},
		{name: "whole cores given up", machine: smt, taken: "0-30:1/2", want: Want{CPUs: 2, Rules: likeFull}, nodes: 1, cpus: "1,3"},
		{name: "one thread a core", machine: smt, want: Want{CPUs: 4, Rules: spread}, nodes: 1, cpus: "0,2,4,6"},
		{name: "more than there are cores", machine: smt, want: Want{CPUs: 17, Rules: spread}, outcome: NoCores},
		{name: "spread over two nodes", machine: smt, want: Want{CPUs: 9, Width: Fewest, Rules: spread}, nodes: 3, cpus: "0,2,4,6,8,10,12,14,16"},
		{name: "begun cores are used up first", machine: smt, taken: "0", want: Want{CPUs: 1}, nodes: 1, cpus: "1"},
		{name: "reserved CPUs are no part of a core", machine: quarter, reserved: "0", want: Want{CPUs: 6, Rules: full}, nodes: 1, cpus: "2-7"},

		// Exclusive.
		{name: "a core alone", machine: quarter, taken: "0", want: Want{CPUs: 1, Rules: coreAlone}, nodes: 1, cpus: "2"},
		{name: "no core alone", machine: quarter, taken: "0-6:1/2", want: Want{CPUs: 1, Rules: coreAlone}, outcome: NoCores},
		{name: "a node alone", machine: smt, taken: "0", want: Want{CPUs: 2, Rules: nodeAlone}, nodes: 2, cpus: "16-17"},
		{name: "no node alone", machine: smt, taken: "0,16", want: Want{CPUs: 2, Rules: nodeAlone}, outcome: NoCores},

		// A container that keeps CPUs from others must request them.
		{name: "a core that is asked for", machine: quarter, taken: "0", want: Want{CPUs: 2, Pays: true, Rules: coreAlone}, nodes: 1, cpus: "2-3"},
		{name: "half a core", machine: quarter, want: Want{CPUs: 1, Pays: true, Rules: coreAlone}, outcome: Withholds},
		{name: "half a core at the end", machine: quarter, want: Want{CPUs: 3, Pays: true, Rules: coreAlone}, outcome: Withholds},
		{name: "half a core, preferred", machine: quarter, taken: "0", want: Want{CPUs: 1, Pays: true, Rules: Rules{Exclusive: ExclusiveCore, ExclusiveHow: Preferred}}, nodes: 1, cpus: "1"},
		{name: "one thread of each core", machine: quarter, want: Want{CPUs: 2, Pays: true, Rules: Rules{Bind: Spread, BindHow: Required, Exclusive: ExclusiveCore, ExclusiveHow: Required}}, outcome: Withholds},
		{name: "a node that is asked for", machine: smt, taken: "0", want: Want{CPUs: 16 / 2, Pays: true, Rules: nodeAlone}, outcome: Withholds},
		{name: "all of a node", machine: smt, taken: "0", want: Want{CPUs: 16, Pays: true, Rules: nodeAlone}, nodes: 2, cpus: "16-31"},
		{name: "one CPU of a node", machine: pair8, want: Want{CPUs: 1, Pays: true, Rules: nodeAlone}, outcome: Withholds},
		{name: "one CPU of a node, preferred", machine: pair8, taken: "0", want: Want{CPUs: 1, Pays: true, Rules: Rules{Exclusive: ExclusiveNUMA, ExclusiveHow: Preferred}}, nodes: 1, cpus: "1"},
		{name: "a node and a part of the next", machine: pair8, want: Want{CPUs: 12, Pays: true, Rules: nodeAlone}, outcome: Withholds},
		{name: "the rest of a node as time", machine: pair8, want: Want{CPUs: 6, Pays: true, Rules: nodeAlone, Amounts: []Amount{{N: 2000}}}, nodes: 1, cpus: "0-5"},
		{name: "less than the rest as time", machine: pair8, want: Want{CPUs: 6, Pays: true, Rules: nodeAlone, Amounts: []Amount{{N: 1999}}}, outcome: Withholds},
		{name: "memory of the next node keeps nobody off its CPUs", machine: pair8, want: Want{CPUs: 8, Pays: true, Rules: nodeAlone, Amounts: mem(20)}, nodes: 3, cpus: "0-7"},
		{name: "reserved CPUs are nobody's to ask for", machine: pair8, reserved: "0", want: Want{CPUs: 7, Pays: true, Rules: nodeAlone}, nodes: 1, cpus: "1-7"},

		// Caches.
		{name: "one cache", machine: smt, taken: "0", want: Want{CPUs: 8, Rules: oneCache}, nodes: 1, cpus: "8-15"},
		{name: "no cache whole on the first node", machine: smt, taken: "0,8", want: Want{CPUs: 8, Rules: oneCache}, nodes: 2, cpus: "16-23"},
		{name: "no cache whole", machine: smt, taken: "0,8,16,24", want: Want{CPUs: 8, Rules: oneCache}, outcome: NoCores},
		{name: "the fitter cache", machine: smt, taken: "0-5", want: Want{CPUs: 2, Rules: oneCache}, nodes: 1, cpus: "6-7"},

		// Amounts.
		{name: "memory where it is", machine: pair8, want: Want{CPUs: 2, Width: One, Amounts: mem(16)}, nodes: 1, cpus: "0-1"},
		{name: "too much memory", machine: pair8, want: Want{CPUs: 2, Amounts: mem(33)}, outcome: NoAmount},
		{name: "shares keep pinned CPUs off", machine: pair8, want: Want{CPUs: 8, Width: One, Amounts: []Amount{{N: 1}}}, outcome: TooWide},
		{name: "no CPUs", machine: pair8, taken: "0-9", want: Want{CPUs: 8}, outcome: NoCPUs},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := modelOf(t, c.machine, c.reserved, MostAllocated)
			b := m.NewBook()
			m.Take(b, &Held{CPUs: shapes.CPUs(c.taken)})
			var g Grant
			try := m.NewTry()
			try.Begin(b)
			if got := try.Place(&c.want, &g); got != c.outcome {
				t.Fatalf("%v, want %v (nodes %b, CPUs %v)", got, c.outcome, g.Nodes, g.CPUs)
			}
			if g.Nodes != c.nodes || g.CPUs != shapes.CPUs(c.cpus) {
				t.Errorf("nodes %b, CPUs %v; want %b, %s", g.Nodes, g.CPUs, c.nodes, c.cpus)
			}
		})
	}
}

// TestAmountsAreSplitEvenly: each NUMA node gives an equal part, NUMA nodes with less room give
// less, and huge pages are not divided.
func TestAmountsAreSplitEvenly(t *testing.T) {
	m := modelOf(t, huge, "", MostAllocated)
	b := m.NewBook()
	m.Take(b, &Held{Amounts: []NodeAmount{{Kind: 2, Node: 0, N: 10 << 20}}})
	try := m.NewTry()
	try.Begin(b)
	var g Grant
	if got := try.Place(&Want{Amounts: []Amount{{Kind: 0, N: 5001}, {Kind: 2, N: 19 << 20}}}, &g); got != Placed {
		t.Fatal(got)
	}
	want := []NodeAmount{{0, 0, 2500}, {0, 1, 2501}, {2, 0, 6 << 20}, {2, 1, 14 << 20}}
	if fmt.Sprint(g.Amounts) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", g.Amounts, want)
	}
}

// TestIdleThreadsStayIdle: other pods get no CPUs of cores and NUMA nodes that a container has
// alone. After its release the CPUs are free again.
func TestIdleThreadsStayIdle(t *testing.T) {
	m := modelOf(t, smt, "", MostAllocated)
	b := m.NewBook()
	core := Held{CPUs: shapes.CPUs("0"), Alone: shapes.CPUs("0"), Exclusive: ExclusiveCore}
	node := Held{CPUs: shapes.CPUs("16"), Alone: shapes.CPUs("16"), Exclusive: ExclusiveNUMA}
	m.Take(b, &core)
	m.Take(b, &node)
	if got := m.Cores.Free(b); got != shapes.CPUs("2-15") {
		t.Errorf("free: %v, want 2-15", got)
	}
	if used(m, b) != 2 || m.Amounts.Room(b, CPU, 0) != 14000 || m.Amounts.Room(b, CPU, 1) != 0 {
		t.Errorf("used %d nodes, room %d and %d", used(m, b), m.Amounts.Room(b, CPU, 0), m.Amounts.Room(b, CPU, 1))
	}
	m.Give(b, &node)
	m.Give(b, &core)
	if !b.Equal(m.NewBook()) {
		t.Error("something is left after all was given back")
	}
}

func TestProblem(t *testing.T) {
	m := modelOf(t, smt, "0", MostAllocated)
	b := m.NewBook()
	m.Take(b, &Held{CPUs: shapes.CPUs("2-3")})
	for _, c := range []struct {
		cpus string
		excl Exclusive
		want string
	}{
		{"4-5", 0, ""}, {"1", 0, ""}, {"99", 0, "the machine has no CPUs 99"}, {"0-1", 0, "CPUs 0 are reserved"},
		{"3-4", 0, "another pod has CPUs 3"}, {"4", ExclusiveNUMA, "another pod has CPUs 2-3"},
	} {
		if got := m.Problem(b, &Held{CPUs: shapes.CPUs(c.cpus), Alone: shapes.CPUs(c.cpus), Exclusive: c.excl}); got != c.want {
			t.Errorf("%s: %q, want %q", c.cpus, got, c.want)
		}
	}
}

func TestScore(t *testing.T) {
	for _, c := range []struct {
		strategy          Strategy
		used, total, want int
	}{
		{MostAllocated, 2, 4, 50}, {LeastAllocated, 2, 4, 50}, {MostAllocated, 1, 4, 25}, {LeastAllocated, 1, 4, 75},
		{MostAllocated, 4, 4, 100}, {LeastAllocated, 4, 4, 0}, {MostAllocated, 9, 4, 100}, {MostAllocated, 1, 0, 0},
	} {
		if got := c.strategy.Score(c.used, c.total); got != c.want {
			t.Errorf("%v.Score(%d, %d) = %d, want %d", c.strategy, c.used, c.total, got, c.want)
		}
	}
}

func TestLeastAllocatedTakesTheEmptiest(t *testing.T) {
	m := modelOf(t, four8, "", LeastAllocated)
	b := m.NewBook()
	m.Take(b, &Held{CPUs: shapes.CPUs("0-1,8")})
	try := m.NewTry()
	try.Begin(b)
	var g Grant
	if try.Place(&Want{CPUs: 2, Width: One}, &g) != Placed || g.Nodes != 0b100 {
		t.Errorf("nodes %b, want the third", g.Nodes)
	}
}

func TestSane(t *testing.T) {
	for _, r := range []Rules{{}, full, spread, coreAlone, nodeAlone, oneCache} {
		if !r.Sane() {
			t.Errorf("%+v is not sane", r)
		}
	}
	for _, r := range []Rules{{Bind: 3, BindHow: Required}, {Bind: Spread}, {BindHow: Preferred}, {L3: 3}, {Exclusive: ExclusiveCore}, {ExclusiveHow: Required},
		{Exclusive: 9, ExclusiveHow: Required}, {Bind: FullCores, BindHow: 7}} {
		if r.Sane() {
			t.Errorf("%+v is sane", r)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	cpus := func(ids ...topology.CPUID) []Core { return []Core{{CPUs: ids}} }
	for want, c := range map[string]Config{
		"0 NUMA nodes: want 1 to 16":                      {},
		"the machine has no CPUs":                         {Nodes: []Node{{ID: 0}}},
		"NUMA node 0: want ascending ids below 64":        {Nodes: []Node{{ID: 0, Cores: cpus(0)}, {ID: 0, Cores: cpus(1)}}},
		"NUMA node 64: want ascending ids below 64":       {Nodes: []Node{{ID: 64, Cores: cpus(0)}}},
		"CPU 1: want each CPU on one core":                {Nodes: []Node{{ID: 0, Cores: cpus(1)}, {ID: 1, Cores: cpus(1)}}},
		"CPU 1024: want ids below 1024":                   {Nodes: []Node{{ID: 0, Cores: cpus(1024)}}},
		"NUMA node 0: a core with 0 threads: want 1 to 8": {Nodes: []Node{{ID: 0, Cores: cpus()}}},
		"NUMA node 0: a core with 9 threads: want 1 to 8": {Nodes: []Node{{ID: 0, Cores: cpus(0, 1, 2, 3, 4, 5, 6, 7, 8)}}},
	} {
		if _, err := New(c); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, c := range []struct {
		name    string
		machine string
		want    Want
	}{
		{"one-node", shapes.EPYCNPS4, Want{CPUs: 8, Width: One, Amounts: []Amount{{Kind: 1, N: 8 << 30}}}},
		{"full-cores-one-cache", shapes.EPYCNPS4, Want{CPUs: 16, Width: One, Rules: Rules{Bind: FullCores, BindHow: Required, L3: Required}}},
		{"shares", shapes.EPYCNPS4, Want{Width: Fewest, Amounts: []Amount{{Kind: 0, N: 1500}, {Kind: 1, N: 1 << 30}}}},
		{"four-of-eight", shapes.EPYCNPS4, Want{CPUs: 110, Width: Fewest}},
		{"preferences", shapes.XeonSNC2, Want{CPUs: 8, Rules: Rules{Bind: Spread, BindHow: Preferred, Exclusive: ExclusiveCore, ExclusiveHow: Preferred, L3: Preferred}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := modelOf(b, c.machine, "", MostAllocated)
			book, try := m.NewBook(), m.NewTry()
			m.Take(book, &Held{CPUs: shapes.CPUs("0-3,20-21")})
			var g Grant
			b.ReportAllocs()
			for b.Loop() {
				try.Begin(book)
				if try.Place(&c.want, &g) != Placed {
					b.Fatal("refused")
				}
			}
		})
	}
}

// TestWhatIsGivenUp: preferences are given up in a fixed order: exclusiveness, caches, binding.
func TestWhatIsGivenUp(t *testing.T) {
	all := Rules{Bind: Spread, BindHow: Preferred, Exclusive: ExclusiveCore, ExclusiveHow: Preferred, L3: Preferred}
	for level, want := range []terms{
		{bind: Spread, like: Spread, excl: ExclusiveCore, byL3: true, l3: true},
		{bind: Spread, like: Spread, byL3: true, l3: true},
		{bind: Spread, like: Spread, byL3: true},
		{like: Spread, byL3: true},
	} {
		if got := all.at(level); got != want {
			t.Errorf("level %d: %+v, want %+v", level, got, want)
		}
	}
	must := Rules{Bind: FullCores, BindHow: Required, Exclusive: ExclusiveNUMA, ExclusiveHow: Required, L3: Required}
	if must.at(0) != must.at(maxLevels-1) {
		t.Error("what is required is given up")
	}
}

// used returns how many NUMA nodes have taken resources.
func used(m *Model, b *Book) (n int) {
	for v := range m.Cores.nodes {
		some := false
		for k := range m.Amounts.Kinds() {
			some = some || b.used[m.Amounts.at(k, v)] > 0
		}
		n += b2i(some)
	}
	return n
}
