package placement

import (
	"testing"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// hintsOf returns a provider's list: the offered masks, and the preferred masks among them.
func hintsOf(space *hint.Space, offered, preferred []hint.Mask) hint.List {
	l := space.NewList()
	l.Reset(hint.Masks)
	for _, m := range offered {
		l.Offered.Add(m)
	}
	for _, m := range preferred {
		l.Preferred.Add(m)
	}
	return l
}

// TestVolcanoHintTable has the table in section 6.3 of the document on Volcano's plugin: a CPU
// provider and a GPU provider on two NUMA nodes. The rows after the first omit hints, so that each
// of the table's other combinations becomes the best.
func TestVolcanoHintTable(t *testing.T) {
	const first, second, all = 0b01, 0b10, 0b11
	space, err := hint.NewSpace(topology.NewNUMASet(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	type masks = []hint.Mask
	for _, c := range []struct {
		name                 string
		cpus, cpusBest, gpus masks
		want                 hint.Mask
		preferred            bool
	}{
		{name: "P1: all on NUMA node 0", cpus: masks{first, all}, cpusBest: masks{first}, gpus: masks{first, second}, want: first, preferred: true},
		{name: "P2: nothing in common", cpus: masks{first}, cpusBest: masks{first}, gpus: masks{second}, want: all},
		{name: "P3: the CPUs not as preferred", cpus: masks{all}, gpus: masks{first}, want: first},
		{name: "P4: the same on NUMA node 1", cpus: masks{all}, gpus: masks{second}, want: second},
	} {
		lists := []hint.List{hintsOf(space, c.cpus, c.cpusBest), hintsOf(space, c.gpus, c.gpus)}
		var g merger
		g.init(space)
		got, ok := g.preferred(lists, mergeRules{})
		if !ok {
			got = g.unpreferred(lists, mergeRules{})
		}
		slow := slowMerge{space: space}
		if twin := slow.run(slowLists(space, lists)); got.Mask != c.want || got.Preferred != c.preferred || twin.mask != c.want {
			t.Errorf("%s: %b, preferred %v (slowly %b); want %b, %v", c.name, got.Mask, got.Preferred, twin.mask, c.want, c.preferred)
		}
		if _, admitted := g.preferred(lists, mergeRules{single: true}); admitted != c.preferred {
			t.Errorf("%s under single-numa-node: admitted %v", c.name, admitted)
		}
	}
}

// TestVolcanoPolicyTables has the tables of Volcano's own tests of its policies, on two NUMA nodes:
// the results of best-effort and restricted, and whether single-numa-node admits.
func TestVolcanoPolicyTables(t *testing.T) {
	const first, second, all = 0b01, 0b10, 0b11
	space, err := hint.NewSpace(topology.NewNUMASet(0, 1))
	if err != nil {
		t.Fatal(err)
	}
	type masks = []hint.Mask
	for i, c := range []struct {
		cpus, cpusBest, gpus, gpusBest masks
		want                           hint.Mask
		preferred, single              bool
	}{
		{masks{all, first}, masks{first}, masks{all, first}, masks{first}, first, true, true},
		{masks{all, second}, masks{second}, masks{all, second}, masks{second}, second, true, true},
		{masks{all, first, second}, masks{first, second}, masks{all, first, second}, masks{first, second}, first, true, true},
		{masks{all, first}, masks{first}, masks{all, second}, masks{second}, first, false, false},
		// Volcano's result is first, preferred. A kubelet prefers only masks that all providers
		// prefer. Its result is as near as possible to the provider that needs most NUMA nodes.
		{masks{all, first}, masks{first}, masks{all}, masks{all}, all, false, false},
		{masks{all}, masks{all}, masks{all}, masks{all}, all, true, false},
	} {
		lists := []hint.List{hintsOf(space, c.cpus, c.cpusBest), hintsOf(space, c.gpus, c.gpusBest)}
		var g merger
		g.init(space)
		got, ok := g.preferred(lists, mergeRules{})
		if !ok {
			got = g.unpreferred(lists, mergeRules{})
		}
		if got.Mask != c.want || got.Preferred != c.preferred {
			t.Errorf("row %d: %b, preferred %v; want %b, %v", i+1, got.Mask, got.Preferred, c.want, c.preferred)
		}
		if one, admitted := g.preferred(lists, mergeRules{single: true}); admitted != c.single || admitted && one.Mask != c.want {
			t.Errorf("row %d under single-numa-node: %b, admitted %v; want %v", i+1, one.Mask, admitted, c.single)
		}
	}
}
