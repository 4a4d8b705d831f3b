package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// machine describes a regular machine: sockets x NUMA nodes per socket x cores x threads. CPUs are
// numbered as Linux does on x86: the first threads of all cores, then the second ones.
type machine struct {
	sockets, nodes, cores, threads int
	bytes                          uint64 // per NUMA node
	gigapages                      uint64 // per NUMA node
}

var (
	m2 = machine{2, 1, 64, 2, 512 << 30, 64}
	m8 = machine{2, 4, 16, 2, 128 << 30, 16}
)

func (d machine) view() *placement.KubeletView {
	v := &placement.KubeletView{NumCores: d.sockets * d.nodes * d.cores * d.threads, NumSockets: d.sockets}
	all := d.sockets * d.nodes
	for n := range all {
		node := placement.ViewNode{ID: topology.NUMAID(n), MemoryBytes: d.bytes,
			HugePages: []topology.HugePages{{PageBytes: 1 << 30, Count: d.gigapages}}}
		for o := range all {
			distance := uint64(32)
			switch {
			case o == n:
				distance = 10
			case o/d.nodes == n/d.nodes:
				distance = 12
			}
			node.Distances = append(node.Distances, distance)
		}
		for c := range d.cores {
			core := placement.ViewCore{ID: c, Socket: n / d.nodes, Uncore: []int{n}}
			for t := range d.threads {
				core.Threads = append(core.Threads, topology.CPUID(t*all*d.cores+n*d.cores+c))
			}
			node.Cores = append(node.Cores, core)
		}
		v.Nodes = append(v.Nodes, node)
	}
	return v
}

func (d machine) config(policy string) placement.Config {
	return placement.Config{
		CPUManagerPolicy: "static", ReservedSystemCPUs: "0",
		MemoryManagerPolicy:   "Static",
		ReservedMemory:        []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 1 << 30}}},
		TopologyManagerPolicy: policy,
	}
}

// gpus spreads eight devices evenly over the nodes.
func (d machine) gpus() placement.DevicePool {
	p := placement.DevicePool{Resource: "example.com/gpu", Preference: placement.SortedPreference}
	for i := range 8 {
		node := topology.NUMAID(i * d.sockets * d.nodes / 8)
		p.Devices = append(p.Devices, placement.Device{ID: fmt.Sprint("gpu", i), NUMA: topology.NewNUMASet(node), HasTopology: true})
	}
	return p
}

// load returns a model and a state. If taken is true, half of the CPUs of every NUMA node, chosen
// at random, and a quarter of its memory are taken.
func (d machine) load(t testing.TB, policy string, taken bool) (*placement.Model, *placement.State) {
	t.Helper()
	view := d.view()
	m := made.ModelOf(t, view, d.config(policy))
	s := m.NewState()
	s.SetPool(d.gpus())
	if !taken {
		return m, s
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range view.Nodes {
		var cpus topology.CPUSet
		var ids []topology.CPUID
		for _, c := range view.Nodes[i].Cores {
			ids = append(ids, c.Threads...)
		}
		r.Shuffle(len(ids), func(a, b int) { ids[a], ids[b] = ids[b], ids[a] })
		for _, id := range ids {
			if id != 0 && cpus.Len() < len(ids)/2 {
				cpus.Add(id)
			}
		}
		name, numa := fmt.Sprint("load", i), topology.NewNUMASet(view.Nodes[i].ID)
		req := placement.Request{UID: name, Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "c", MilliCPU: int64(cpus.Len()) * 1000,
			Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: d.bytes / 4}}}}}
		s.Commit(&req, &placement.Decision{UID: name, Containers: []placement.ContainerDecision{{Name: "c", CPUs: cpus,
			Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: numa, Bytes: d.bytes / 4}}}}})
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return m, s
}

func pod1() placement.Request {
	return placement.Request{UID: "p", Guaranteed: true, Containers: []placement.ContainerRequest{{
		Name: "main", MilliCPU: 8000, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 16 << 30}},
	}}}
}

func pod2() placement.Request {
	p := pod1()
	p.Containers[0].Memory = []placement.MemoryRequest{{Resource: "hugepages-1Gi", Bytes: 4 << 30}, {Resource: "memory", Bytes: 16 << 30}}
	p.Containers[0].Devices = []placement.DeviceRequest{{Resource: "example.com/gpu", Count: 1}}
	return p
}

// eachLoad runs f with the machines, pods and policies of the comparison with other systems.
func eachLoad[T testing.TB](t T, run func(name string, f func(T)), f func(T, *placement.State, *placement.Request)) {
	for _, machine := range []struct {
		name string
		machine
	}{{"M2", m2}, {"M8", m8}} {
		for _, pod := range []struct {
			name string
			placement.Request
		}{{"P1", pod1()}, {"P2", pod2()}} {
			for _, policy := range []string{"restricted", "single-numa-node", "best-effort"} {
				for _, load := range []string{"half", "empty"} {
					run(machine.name+"/"+pod.name+"/"+policy+"/"+load, func(t T) {
						_, s := machine.load(t, policy, load == "half")
						f(t, s, &pod.Request)
					})
				}
			}
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	eachLoad(b, func(name string, f func(*testing.B)) { b.Run(name, f) }, func(b *testing.B, s *placement.State, r *placement.Request) {
		if v := placement.Admit(s, r); !v.OK() {
			b.Fatal(v)
		}
		b.ReportAllocs()
		for b.Loop() {
			placement.Admit(s, r)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	eachLoad(b, func(name string, f func(*testing.B)) { b.Run(name, f) }, func(b *testing.B, s *placement.State, r *placement.Request) {
		var d placement.Decision
		b.ReportAllocs()
		for b.Loop() {
			placement.Decide(s, r, &d)
		}
	})
}

// BenchmarkVolcano measures one evaluation of a node in Volcano's dialect: whether it has the
// requested policy, whether it admits the pod, the number of NUMA nodes, and the formula's score.
func BenchmarkVolcano(b *testing.B) {
	for name, d := range map[string]machine{"M2": m2, "M8": m8} {
		b.Run(name, func(b *testing.B) {
			m, s := d.load(b, "restricted", true)
			r := pod1()
			r.Rules = placement.Rules{Policy: placement.PolicyRestricted, Match: placement.Exactly, OwnCPUs: true}
			evaluate := func() int64 {
				if !m.Keeps(r.Rules) {
					return 0
				}
				v := placement.Admit(s, &r)
				if !v.OK() {
					return 0
				}
				return rank.VolcanoScore(int64(m.Reach(&r, &v).Len()), 4)
			}
			if evaluate() != 75 {
				b.Fatal(evaluate())
			}
			b.ReportAllocs()
			for b.Loop() {
				evaluate()
			}
		})
	}
}

// BenchmarkRefuse requests more CPUs on one NUMA node than any NUMA node has free.
func BenchmarkRefuse(b *testing.B) {
	for name, d := range map[string]machine{"M2": m2, "M8": m8} {
		b.Run(name, func(b *testing.B) {
			_, s := d.load(b, "single-numa-node", true)
			r := pod2()
			r.Containers[0].MilliCPU = int64(d.cores*d.threads-2) * 1000
			if v := placement.Admit(s, &r); v.Reason != placement.TopologyAffinityError {
				b.Fatal(v)
			}
			b.ReportAllocs()
			for b.Loop() {
				placement.Admit(s, &r)
			}
		})
	}
}

// BenchmarkGuarded also counts the combinations of hints that the kubelet would have to try.
func BenchmarkGuarded(b *testing.B) {
	c := m8.config("restricted")
	c.GuardDefects = true
	m := made.ModelOf(b, m8.view(), c)
	_, loaded := m8.load(b, "restricted", true)
	snap := loaded.Snapshot()
	s, err := m.StateOf(&snap)
	if err != nil {
		b.Fatal(err)
	}
	for name, r := range map[string]placement.Request{"P1": pod1(), "P2": pod2()} {
		b.Run("M8/"+name, func(b *testing.B) {
			if v := placement.Admit(s, &r); !v.OK() {
				b.Fatal(v)
			}
			b.ReportAllocs()
			for b.Loop() {
				placement.Admit(s, &r)
			}
		})
	}
}

func BenchmarkCopyFrom(b *testing.B) {
	_, s := m8.load(b, "restricted", true)
	c := s.Clone()
	b.ReportAllocs()
	for b.Loop() {
		c.CopyFrom(s)
	}
}
