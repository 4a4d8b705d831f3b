package main

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/lab"
)

// most is a slow, obvious version of the solver. It tries to omit each pod, and to put it on each
// NUMA node.
func most(in *instance) int64 {
	zones := make([][2]int64, zonesOfNode*len(in.nodes))
	for z := range zones {
		n := &in.nodes[z/zonesOfNode]
		zones[z] = [2]int64{n.MilliCPU / trace.Thousandths / zonesOfNode, int64(n.GPUs / zonesOfNode)}
		if z%zonesOfNode == 0 {
			zones[z][0] -= reservedCPUs
		}
	}
	var from func(i int) int64
	from = func(i int) int64 {
		if i == len(in.pods) {
			return 0
		}
		best := from(i + 1)
		cpus, gpus := in.pods[i].MilliCPU/trace.Thousandths, int64(in.pods[i].GPUs)
		value := cpus
		if in.byGPU() {
			value = gpus
		}
		for z := range zones {
			if zones[z][0] >= cpus && zones[z][1] >= gpus {
				zones[z][0], zones[z][1] = zones[z][0]-cpus, zones[z][1]-gpus
				best = max(best, value+from(i+1))
				zones[z][0], zones[z][1] = zones[z][0]+cpus, zones[z][1]+gpus
			}
		}
		return best
	}
	return from(0)
}

// TestOptimum: the solver finds the same optimum as most, and no strategy serves more.
func TestOptimum(t *testing.T) {
	strategies, err := lab.StrategiesOf("Berth", "Berths", "FirstFit")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(1))
	for round := range 12 {
		in := &instance{seed: int64(round)}
		gpus := 4 * rng.Intn(2)
		in.nodes = append(in.nodes, trace.Node{Name: "n", MilliCPU: 32_000, MiB: 1 << 20, GPUs: gpus})
		for i := range 7 {
			p := trace.Pod{Name: fmt.Sprint("p", i), MilliCPU: 1000 * int64(2+rng.Intn(9)), MiB: 1024}
			if p.GPUs = rng.Intn(1 + gpus/2); p.GPUs > 0 {
				p.MilliGPU = trace.Thousandths
			}
			in.pods = append(in.pods, p)
		}
		best, err := in.optimum(t.Context())
		if errors.Is(err, errNoSolver) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := most(in); best != want {
			t.Errorf("round %d: %d, trying everything %d\n%s", round, best, want, in.program())
		}
		for _, s := range strategies {
			if served, err := in.served(t.Context(), s); err != nil || served > best {
				t.Errorf("round %d: %s serves %d of at most %d: %v", round, s.Name, served, best, err)
			}
		}
	}
}

// TestShort: the error names exactly the figures that miss their goals.
func TestShort(t *testing.T) {
	good := result{Published: 72, Within: 66, Near: 100, Gap: 3}
	if err := good.short(); err != nil {
		t.Error(err)
	}
	for _, r := range []result{{Published: 72, Within: 65, Near: 100}, {Near: 99.9}, {Near: 100, Gap: 3.1}} {
		if r.short() == nil {
			t.Errorf("%+v does not fall short", r)
		}
	}
}

// TestResumed: a full measurement reads the results of an earlier one with the same strategies. Any
// other measurement starts anew.
func TestResumed(t *testing.T) {
	all, err := lab.StrategiesOf("Berth", "FirstFit")
	if err != nil {
		t.Fatal(err)
	}
	q, played := &quality{full: true, results: t.TempDir()}, 0
	ask := func(name string, want int, of []simulate.Strategy) {
		t.Helper()
		sums, err := q.resumed(name, of, func() (sums []simulate.Summary, err error) {
			played++
			for i := range of {
				sums = append(sums, simulate.Summary{Strategy: of[i].Name, Runs: 7})
			}
			return sums, nil
		})
		if err != nil || played != want || len(sums) != len(of) || sums[0].Strategy != of[0].Name || sums[0].Runs != 7 {
			t.Errorf("%s: %+v, %v; played %d times, want %d", name, sums, err, played, want)
		}
	}
	ask("synthetic:a-x/y-1", 1, all)
	ask("synthetic:a-x/y-1", 1, all)
	ask("synthetic:a-x/y-2", 2, all)
	ask("synthetic:a-x/y-1", 3, all[:1])
	ask("synthetic:a-x/y-1", 3, all[:1])
	q.full = false
	ask("synthetic:a-x/y-1", 4, all[:1])
	if _, err := q.resumed("failed", all, func() ([]simulate.Summary, error) { return nil, errors.New("cut off") }); err == nil {
		t.Error("an interrupted measurement counts")
	}
	q.full = true
	ask("failed", 5, all)
}

// TestOverlaysStay: the held-out overlays follow from the order of overlays, so no overlay may be
// inserted.
func TestOverlaysStay(t *testing.T) {
	want := []string{"sockets/restricted", "sockets/single-numa-node", "quarters/restricted", "quarters/single-numa-node"}
	if got := overlays(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
