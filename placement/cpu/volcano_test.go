package cpu

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// The machine in the tables of Volcano's own tests of its CPU provider: two NUMA nodes of two cores
// with two CPUs each. No CPU is reserved.
var volcanoMachine = grid{sockets: 2, nodes: 1, cores: 2, threads: 2}

// TestVolcanoHints has Volcano's table of hints.
func TestVolcanoHints(t *testing.T) {
	const first, second, all = 0b01, 0b10, 0b11
	topo, err := New(volcanoMachine.node(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	space, err := hint.NewSpace(topology.NewNUMASet(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHinter(topo, space)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		free               string
		n                  int
		offered, preferred []hint.Mask
	}{
		{"0-7", 4, []hint.Mask{first, second, all}, []hint.Mask{first, second}},
		{"1-7", 4, []hint.Mask{second, all}, []hint.Mask{second}},
		{"0-7", 5, []hint.Mask{all}, []hint.Mask{all}},
		{"0-7", 8, []hint.Mask{all}, []hint.Mask{all}},
		{"0-7", 9, nil, nil},
		{"2-5", 4, []hint.Mask{all}, nil},
	} {
		free, l := shapes.CPUs(c.free), space.NewList()
		h.Hints(&HintInput{N: c.n, Available: &free, Want: hint.Offered}, &l)
		for m := range hint.Mask(all + 1) {
			if l.Offered.Has(m) != slices.Contains(c.offered, m) || l.Preferred.Has(m) != slices.Contains(c.preferred, m) {
				t.Errorf("%d of %s on %b: offered %v, preferred %v", c.n, c.free, m, l.Offered.Has(m), l.Preferred.Has(m))
			}
		}
	}
}

// TestVolcanoAllocations has Volcano's table of allocations. If there are too few CPUs, Volcano
// allocates none, and the kubelet refuses.
func TestVolcanoAllocations(t *testing.T) {
	topo, err := New(volcanoMachine.node(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		free string
		n    int
		on   topology.NUMASet
		want string
		err  error
	}{
		{"0-7", 4, topology.NewNUMASet(0), "0-3", nil},
		{"1-7", 4, topology.NewNUMASet(1), "4-7", nil},
		{"0-7", 5, topology.NewNUMASet(0, 1), "0-4", nil},
		{"1-7", 5, topology.NewNUMASet(0, 1), "1,4-7", nil},
		{"1-7", 8, topology.NewNUMASet(0, 1), "", ErrNotEnough},
	} {
		free, none, got := shapes.CPUs(c.free), topology.CPUSet{}, topology.CPUSet{}
		err := topo.Allocate(&AllocateInput{N: c.n, Shared: &free, Reserved: &none, Siblings: &none, Aligned: true, NUMA: c.on}, &got)
		if !errors.Is(err, c.err) || got != shapes.CPUs(c.want) {
			t.Errorf("%d of %s on %s: %s, %v; want %s, %v", c.n, c.free, c.on, got, err, c.want, c.err)
		}
	}
}
