package cases

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// View returns the machine as the kubelet sees it. Its errors are those of Case.Check.
func (m *Machine) View() (*placement.KubeletView, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	v := &placement.KubeletView{NumCores: m.Threads(), NumSockets: m.Sockets()}
	for i := range m.Nodes {
		v.Nodes = append(v.Nodes, m.Nodes[i].view())
	}
	return v, nil
}

// Threads returns MachineInfo.NumCores: NumCores if it is set, otherwise the number of threads.
func (m *Machine) Threads() int {
	n := m.NumCores
	if n != 0 {
		return n
	}
	for i := range m.Nodes {
		for j := range m.Nodes[i].Cores {
			n += len(m.Nodes[i].Cores[j].Threads)
		}
	}
	return n
}

// Sockets returns MachineInfo.NumSockets: NumSockets if it is set, otherwise the number of
// different sockets of the cores.
func (m *Machine) Sockets() int {
	if m.NumSockets != 0 {
		return m.NumSockets
	}
	seen := map[int]bool{}
	for i := range m.Nodes {
		for j := range m.Nodes[i].Cores {
			seen[m.Nodes[i].Cores[j].Socket] = true
		}
	}
	return len(seen)
}

func (n *Node) view() placement.ViewNode {
	v := placement.ViewNode{ID: n.ID, MemoryBytes: n.Memory, Distances: slices.Clone(n.Distances)}
	for _, h := range n.HugePages {
		v.HugePages = append(v.HugePages, topology.HugePages{PageBytes: h.SizeKB * 1024, Count: h.Count})
	}
	for i := range n.Cores {
		c := &n.Cores[i]
		core := placement.ViewCore{ID: c.ID, Socket: c.Socket, Threads: slices.Clone(c.Threads)}
		if c.L3 != nil {
			core.Uncore = []int{*c.L3}
		}
		v.Cores = append(v.Cores, core)
	}
	return v
}

// Placement returns the configuration in the engine's type for the given kubelet release (0: V136).
func (c *Config) Placement(version placement.Version) (placement.Config, error) {
	if err := c.check(); err != nil {
		return placement.Config{}, err
	}
	out := placement.Config{
		Version:                      version,
		CPUManagerPolicy:             c.CPUManagerPolicy,
		CPUManagerPolicyOptions:      c.CPUManagerPolicyOptions,
		ReservedSystemCPUs:           c.ReservedSystemCPUs,
		MemoryManagerPolicy:          c.MemoryManagerPolicy,
		TopologyManagerPolicy:        c.TopologyManagerPolicy,
		TopologyManagerScope:         c.TopologyManagerScope,
		TopologyManagerPolicyOptions: c.TopologyManagerPolicyOptions,
		FeatureGates:                 c.gates(),
	}
	if c.ReservedCPU != nil {
		out.ReservedMilliCPU = c.ReservedCPU.MilliValue()
	}
	for _, r := range c.ReservedMemory {
		limits := make(map[string]uint64, len(r.Limits))
		for name, q := range r.Limits {
			limits[string(name)] = uint64(q.Value())
		}
		out.ReservedMemory = append(out.ReservedMemory, placement.ReservedMemory{NUMA: r.NUMANode, Limits: limits})
	}
	return out, nil
}

// gates returns the feature gates of the kubelet: the gates that allow every policy option,
// overridden by the case's. The recorded cases were made with these gates.
func (c *Config) gates() map[string]bool {
	all := map[string]bool{"CPUManagerPolicyAlphaOptions": true, "CPUManagerPolicyBetaOptions": true,
		"TopologyManagerPolicyAlphaOptions": true, "TopologyManagerPolicyBetaOptions": true}
	maps.Copy(all, c.FeatureGates)
	return all
}

// Placement returns the pool in the engine's type, ascending by device id.
func (p *Pool) Placement() (placement.DevicePool, error) {
	if err := p.check("pool"); err != nil {
		return placement.DevicePool{}, err
	}
	out := placement.DevicePool{Resource: p.Resource, Preference: placement.NoPreference}
	switch p.Preferred {
	case PreferSorted:
		out.Preference = placement.SortedPreference
	case PreferNVIDIA:
		out.Preference, out.Points = placement.NVIDIAPreference, p.sortedPoints()
	}
	for i := range p.Devices {
		d := &p.Devices[i]
		out.Devices = append(out.Devices, placement.Device{
			ID: d.ID, NUMA: topology.NewNUMASet(d.NUMA...), HasTopology: d.NUMA != nil, Unhealthy: d.Unhealthy,
		})
	}
	slices.SortFunc(out.Devices, func(a, b placement.Device) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// sortedPoints returns Points in the order of the ids.
func (p *Pool) sortedPoints() []uint32 {
	n := len(p.Devices)
	if len(p.Points) != n*n {
		return nil
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(p.Devices[a].ID, p.Devices[b].ID) })
	out := make([]uint32, 0, n*n)
	for _, i := range order {
		for _, j := range order {
			out = append(out, p.Points[i*n+j])
		}
	}
	return out
}

// NUMAIDs returns the ids of a set in the form of results: ascending.
func NUMAIDs(s topology.NUMASet) []topology.NUMAID {
	return slices.Collect(s.All())
}

// HintOf returns a hint in the form of results.
func HintOf(h placement.Hint) Hint {
	if h.Any {
		return Hint{Preferred: h.Preferred}
	}
	return Hint{NUMA: NUMAIDs(h.NUMA), Preferred: h.Preferred}
}
