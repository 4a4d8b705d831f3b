package simulate

import (
	"fmt"
	"math/bits"
	"math/rand"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// Machines and kubelets that tests give to the nodes of a list, as SHAPE/POLICY, or
// SHAPE/POLICY/obey if Berth decides there. The first core and some memory of NUMA node 0 are
// reserved.
const (
	threads     = 2
	reservedMiB = 1024
)

func overlayNames() (names []string) {
	for _, shape := range []string{"sockets", "quarters"} {
		for _, policy := range []string{"restricted", "single-numa-node", "best-effort"} {
			names = append(names, shape+"/"+policy, shape+"/"+policy+"/obey")
		}
	}
	return names
}

// laidNode returns an empty node with the machine and the kubelet of an overlay.
func laidNode(t testing.TB, n *trace.Node, overlay string) StartNode {
	t.Helper()
	shape, policy, _ := strings.Cut(overlay, "/")
	policy, obeys := strings.CutSuffix(policy, "/obey")
	cpus, per := int(n.MilliCPU/trace.Thousandths), 1
	packages := min(2, cpus/32+1)
	if shape == "quarters" && cpus >= 64 {
		per = 2
	}
	m, err := topology.Parse(fmt.Sprintf("package:%d numa:%d core:%d pu:%d mem:%dMi", packages, per, cpus/threads/packages/per, threads, n.MiB/int64(packages*per)))
	if err != nil {
		t.Fatal(err)
	}
	pool := placement.DevicePool{Resource: gpuResource, Preference: placement.SortedPreference, Decided: obeys}
	for gpu := range n.GPUs {
		at := m.NUMANodes[gpu*len(m.NUMANodes)/n.GPUs].ID
		pool.Devices = append(pool.Devices, placement.Device{ID: fmt.Sprintf("%02d", gpu), HasTopology: true, NUMA: topology.NewNUMASet(at)})
	}
	cfg := placement.Config{ReservedSystemCPUs: m.Cores[0].CPUs.String(), TopologyManagerPolicy: policy, GuardDefects: true}
	if obeys {
		cfg.Authority, cfg.Devices = placement.AuthorityBerth, placement.DevicesOf(m, []placement.DevicePool{pool})
	} else {
		cfg.CPUManagerPolicy, cfg.MemoryManagerPolicy = "static", "Static"
		cfg.ReservedMemory = []placement.ReservedMemory{{NUMA: m.NUMANodes[0].ID, Limits: map[string]uint64{"memory": reservedMiB << 20}}}
	}
	view := made.View(t, m)
	model := made.ModelOf(t, view, cfg)
	out := StartNode{Node: *n, Machine: m, Model: model, State: model.NewState()}
	out.State.SetPool(pool)
	out.MilliCPU, out.MiB = n.MilliCPU-threads*trace.Thousandths, n.MiB-reservedMiB
	return out
}

// laid returns a function that makes empty clusters of nodes with an overlay.
func laid(t testing.TB, nodes []trace.Node, overlay string) func([]trace.Node, bool) Cluster {
	t.Helper()
	known, all := map[string]StartNode{}, []StartNode(nil)
	for i := range nodes {
		key := fmt.Sprint(nodes[i].MilliCPU, nodes[i].MiB, nodes[i].GPUs)
		k, ok := known[key]
		if !ok {
			k = laidNode(t, &nodes[i], overlay)
			known[key] = k
		}
		k.Name, k.GPUModel = nodes[i].Name, nodes[i].GPUModel
		all = append(all, k)
	}
	s, err := NewStart(all)
	if err != nil {
		t.Fatal(err)
	}
	return func(_ []trace.Node, blind bool) Cluster { return s.Ground(s.Nodes(), blind) }
}

// anyGPU is a strategy that prefers no node and no GPU.
type anyGPU struct{}

func (anyGPU) Score(*Look) int64 { return 0 }

func (anyGPU) GPU(l *Look, r *rand.Rand) int {
	best, seen := -1, 0
	for i, free := range l.FreeGPU {
		if free >= l.Shape.MilliGPU {
			if seen++; r.Intn(seen) == 0 {
				best = i
			}
		}
	}
	return best
}

// learning is a strategy whose scores depend on the pods that have arrived.
type learning struct {
	Scoring
	count, cpu int64
}

func (f *learning) Learn(s *Shape) bool {
	f.count++
	if bits.OnesCount64(uint64(f.count)) > 1 {
		return false
	}
	f.cpu = s.MilliCPU
	return true
}

// strategies returns those of the simulator, and others with different scores, learning and ties.
func strategies() []Strategy {
	by := func(name string, blind bool, ties Ties, f Scoring) Strategy {
		return Strategy{Name: name, Blind: blind, NUMA: !blind, Ties: ties, New: func([]Typical) Scorer { return f }}
	}
	return append(Strategies(),
		Strategy{Name: "AnyGPU", Blind: true, Ties: ByChance, New: func([]Typical) Scorer { return anyGPU{} }},
		by("Fullest", true, FirstOfOrder, func(l *Look) int64 { return -l.FreeCPU - 16*l.FreeGPUs() }),
		by("FirstFit", false, FirstOfOrder, func(*Look) int64 { return 0 }),
		by("Spread", false, ByChance, func(l *Look) int64 {
			free, all := 0, 1
			for i := range l.Zones {
				if z := &l.Zones[i]; z.Mine {
					free, all = free+z.FreeCPU, all+z.AllCPU
				}
			}
			return int64(100 * free / all)
		}),
		Strategy{Name: "Learning", NUMA: true, New: func([]Typical) Scorer {
			f := &learning{}
			f.Scoring = func(l *Look) int64 { return l.FreeCPU % (1 + f.cpu) }
			return f
		}})
}

// onAmounts returns the strategies that do not know NUMA nodes.
func onAmounts() (out []Strategy) {
	for _, s := range strategies() {
		if s.Blind {
			out = append(out, s)
		}
	}
	return out
}
