package placement

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/placement/memory"
	"github.com/berth-dev/berth/topology"
)

// obeying compiles a node on which Berth decides. The kubelet's managers must have the policy
// none, so that only one program decides.
func (in *compiling) obeying() error {
	m, view, cfg := in.m, in.view, in.cfg
	switch {
	case m.authority == AuthorityKubelet:
		return nil
	case m.set.static:
		return bad("cpuManagerPolicy", cfg.CPUManagerPolicy, "none on a node with authority berth: otherwise Berth and the kubelet would both assign CPUs")
	case m.set.memory:
		return bad("memoryManagerPolicy", cfg.MemoryManagerPolicy, "None on a node with authority berth: otherwise Berth and the kubelet would both assign memory")
	}
	reserved, err := reserveOwn(view, cfg)
	if err != nil {
		return err
	}
	c := joint.Config{Reserved: reserved, Strategy: cfg.Strategy}
	rows := make([]*ViewNode, 0, len(view.Nodes))
	for i := range view.Nodes {
		rows = append(rows, &view.Nodes[i])
	}
	slices.SortFunc(rows, func(a, b *ViewNode) int { return cmp.Compare(a.ID, b.ID) })
	names := kindsOf(rows)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c.Amounts = append(c.Amounts, joint.AmountKind{Name: name, Unit: names[name]})
	}
	for _, v := range rows {
		c.Nodes = append(c.Nodes, joint.Node{ID: v.ID, Cores: coresOf(v), Amounts: amountsOf(v, c.Amounts), Distances: distancesOf(v, len(rows))})
	}
	reserveMemory(c.Nodes, c.Amounts, cfg)
	if c.Devices, err = in.devices(); err != nil {
		return err
	}
	compiled, err := joint.New(c)
	if err != nil {
		return unsupported("machine", err.Error(), "a machine whose resources Berth can assign")
	}
	m.obey = &obeyModel{node: m, joint: compiled, kinds: cfg.Devices}
	m.cpus.reserved = reserved
	return nil
}

// reserveOwn returns the CPUs that are never pinned: ReservedSystemCPUs or, if it is empty, as many
// CPUs as ReservedMilliCPU needs, on the lowest cores. At least one CPU must be reserved, so that
// containers without exclusive CPUs always have a CPU.
func reserveOwn(view *KubeletView, cfg *Config) (topology.CPUSet, error) {
	var all topology.CPUSet
	var cores [][]topology.CPUID
	for i := range view.Nodes {
		for j := range view.Nodes[i].Cores {
			threads := view.Nodes[i].Cores[j].Threads
			cores = append(cores, threads)
			for _, id := range threads {
				if id < topology.MaxCPUs {
					all.Add(id)
				}
			}
		}
	}
	if cfg.ReservedSystemCPUs != "" {
		set, err := topology.ParseCPUList(cfg.ReservedSystemCPUs)
		if err != nil || !set.IsSubsetOf(&all) {
			return set, bad("reservedSystemCPUs", cfg.ReservedSystemCPUs, "CPUs that the machine has: "+all.String())
		}
		return set, nil
	}
	if cfg.ReservedMilliCPU <= 0 || cfg.ReservedMilliCPU > int64(all.Len())*1000 {
		return topology.CPUSet{}, bad("kubeReserved[cpu]", strconv.FormatInt(cfg.ReservedMilliCPU, 10)+"m",
			"more than 0 and no more than the machine has, or reservedSystemCPUs: shared containers need CPUs that are never pinned")
	}
	slices.SortFunc(cores, func(a, b []topology.CPUID) int { return cmp.Compare(slices.Min(a), slices.Min(b)) })
	var set topology.CPUSet
	left := (cfg.ReservedMilliCPU + 999) / 1000
	for _, threads := range cores {
		for _, id := range slices.Sorted(slices.Values(threads)) {
			if left > 0 && id < topology.MaxCPUs {
				set.Add(id)
				left--
			}
		}
	}
	return set, nil
}

// kindsOf returns the unit in bytes of each kind of memory that the machine has.
func kindsOf(rows []*ViewNode) map[string]uint64 {
	names := map[string]uint64{memory.Regular: 1}
	for _, v := range rows {
		for _, h := range v.HugePages {
			names[memory.HugePages(h.PageBytes)] = h.PageBytes
		}
	}
	return names
}

// coresOf returns the NUMA node's cores. If caches are unknown, all cores have the same cache.
func coresOf(v *ViewNode) []joint.Core {
	out := make([]joint.Core, 0, len(v.Cores))
	for i := range v.Cores {
		c := joint.Core{CPUs: v.Cores[i].Threads}
		if len(v.Cores[i].Uncore) > 0 {
			c.L3 = v.Cores[i].Uncore[0]
		}
		out = append(out, c)
	}
	return out
}

// amountsOf returns the NUMA node's amount of each kind, before reservations.
func amountsOf(v *ViewNode, kinds []joint.AmountKind) []uint64 {
	out := make([]uint64, len(kinds))
	regular := v.MemoryBytes
	for i := range kinds {
		for _, h := range v.HugePages {
			if memory.HugePages(h.PageBytes) == kinds[i].Name {
				out[i] = h.PageBytes * h.Count
				regular -= min(regular, out[i])
			}
		}
	}
	for i := range kinds {
		if kinds[i].Name == memory.Regular {
			out[i] = regular
		}
	}
	return out
}

func distancesOf(v *ViewNode, n int) []uint64 {
	if len(v.Distances) != n {
		return nil
	}
	return v.Distances
}

// reserveMemory subtracts the memory that is reserved for the system. If the configuration has no
// ReservedMemory, each NUMA node gives an equal part of NodeReserved. If one has less than its
// part, the NUMA nodes with lower ids give more.
func reserveMemory(nodes []joint.Node, kinds []joint.AmountKind, cfg *Config) {
	for k := range kinds {
		if len(cfg.ReservedMemory) == 0 {
			reserveEvenly(nodes, k, cfg.NodeReserved[kinds[k].Name])
			continue
		}
		for _, r := range cfg.ReservedMemory {
			for i := range nodes {
				if nodes[i].ID == r.NUMA {
					nodes[i].Amounts[k] -= min(nodes[i].Amounts[k], r.Limits[kinds[k].Name])
				}
			}
		}
	}
}

func reserveEvenly(nodes []joint.Node, kind int, bytes uint64) {
	for left := len(nodes); left > 0 && bytes > 0; left-- {
		n := &nodes[left-1]
		part := min((bytes+uint64(left)-1)/uint64(left), n.Amounts[kind])
		n.Amounts[kind] -= part
		bytes -= part
	}
}
