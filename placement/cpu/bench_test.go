package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// m8 is a machine with 2 sockets of 4 NUMA nodes of 16 cores of 2 threads. CPU numbers of siblings
// are far apart, and four cores share an L3.
func m8() Node {
	n := Node{NumCPUs: 256, NumCores: 128, NumSockets: 2}
	for i := range 256 {
		core := i % 128
		n.Threads = append(n.Threads, Thread{
			CPU: topology.CPUID(i), NUMA: topology.NUMAID(core / 16), Socket: core / 64, Core: core, Uncore: core / 4,
		})
	}
	return n
}

// halfTaken returns the free CPUs of n if each core is taken with a probability of one half.
func halfTaken(n Node) (left topology.CPUSet) {
	r := rand.New(rand.NewPCG(1, 2))
	taken := map[int]bool{}
	for _, th := range n.Threads {
		if _, ok := taken[th.Core]; !ok {
			taken[th.Core] = r.IntN(2) == 0
		}
		if !taken[th.Core] {
			left.Add(th.CPU)
		}
	}
	return left
}

// halfThreads returns the free CPUs of n if each CPU is taken with a probability of one half.
func halfThreads(n Node) (left topology.CPUSet) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, th := range n.Threads {
		if r.IntN(2) == 0 {
			left.Add(th.CPU)
		}
	}
	return left
}

type takeCase struct {
	name  string
	o     Options
	avail topology.CPUSet
	n     int
}

func takeCases() []takeCase {
	cores, threads, all := halfTaken(m8()), halfThreads(m8()), mustNew(m8(), Options{}).CPUs()
	return []takeCase{
		{"packed/cores/8", Options{}, cores, 8},
		{"packed/threads/8", Options{}, threads, 8},
		{"packed/threads/48", Options{}, threads, 48},
		{"packed/empty/8", Options{}, all, 8},
		{"packed/empty/40", Options{}, all, 40},
		{"full/cores/8", Options{FullPhysicalCPUsOnly: true}, cores, 8},
		{"uncore/cores/8", Options{PreferAlignByUncore: true}, cores, 8},
		{"uncore/empty/8", Options{PreferAlignByUncore: true}, all, 8},
		{"spread/cores/8", Options{DistributeAcrossCores: true}, cores, 8},
		{"distribute/cores/8", Options{DistributeAcrossNUMA: true}, cores, 8},
		{"distribute/cores/41", Options{DistributeAcrossNUMA: true}, cores, 41},
		{"distribute/empty/131", Options{DistributeAcrossNUMA: true}, all, 131},
	}
}

func mustNew(n Node, o Options) *Topology {
	t, err := New(n, o)
	if err != nil {
		panic(err)
	}
	return t
}

func BenchmarkTake(b *testing.B) {
	for _, tc := range takeCases() {
		b.Run(tc.name, func(b *testing.B) {
			t := mustNew(m8(), tc.o)
			var out topology.CPUSet
			b.ReportAllocs()
			for b.Loop() {
				if err := t.Take(&tc.avail, tc.n, &out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAllocate(b *testing.B) {
	t := mustNew(m8(), Options{})
	reserved := topology.NewCPUSet(0, 128)
	siblings, err := t.Siblings(reserved)
	if err != nil {
		b.Fatal(err)
	}
	shared := halfTaken(m8()).Or(&reserved)
	in := AllocateInput{N: 8, Shared: &shared, Reserved: &reserved, Siblings: &siblings, Aligned: true, NUMA: topology.NewNUMASet(2)}
	var out topology.CPUSet
	b.ReportAllocs()
	for b.Loop() {
		if err := t.Allocate(&in, &out); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHints(b *testing.B) {
	for _, want := range []hint.Want{hint.Preferred, hint.Offered} {
		b.Run([]string{"preferred", "offered"}[want], func(b *testing.B) {
			space, err := hint.NewSpace(255)
			if err != nil {
				b.Fatal(err)
			}
			h, err := NewHinter(mustNew(m8(), Options{}), space)
			if err != nil {
				b.Fatal(err)
			}
			avail, list := halfTaken(m8()), space.NewList()
			in := HintInput{N: 8, Available: &avail, Want: want}
			b.ReportAllocs()
			for b.Loop() {
				h.Hints(&in, &list)
			}
		})
	}
}

func TestNoAllocation(t *testing.T) {
	for _, tc := range takeCases() {
		topo := mustNew(m8(), tc.o)
		var out topology.CPUSet
		if n := testing.AllocsPerRun(100, func() {
			if err := topo.Take(&tc.avail, tc.n, &out); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", tc.name, n)
		}
	}
}
