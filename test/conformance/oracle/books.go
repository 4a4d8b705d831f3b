package oracle

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

// holdings reads the resources of each container of a pod.
func (m *managers) holdings(pod *corev1.Pod) []cases.ContainerResult {
	var out []cases.ContainerResult
	for _, c := range containers(pod) {
		r := cases.ContainerResult{Name: c.Name}
		hint := m.affinity(string(pod.UID), c.Name)
		r.Hint.Preferred = hint.Preferred
		if hint.NUMANodeAffinity != nil {
			r.Hint.NUMA = numaIDs(hint.NUMANodeAffinity.GetBits())
		}
		r.CPUs = m.cpu.GetExclusiveCPUs(string(pod.UID), c.Name).String()
		for _, b := range m.memory.State().GetMemoryBlocks(string(pod.UID), c.Name) {
			r.Memory = append(r.Memory, cases.MemoryBlock{Type: string(b.Type), NUMA: numaIDs(b.NUMAAffinity), Size: b.Size})
		}
		slices.SortFunc(r.Memory, func(a, b cases.MemoryBlock) int { return strings.Compare(a.Type, b.Type) })
		r.Devices = m.devices(string(pod.UID), c.Name)
		out = append(out, r)
	}
	return out
}

func (m *managers) devices(uid, name string) map[string][]cases.DeviceOnNodes {
	held := m.device.GetDevices(uid, name)
	if len(held) == 0 {
		return nil
	}
	out := map[string][]cases.DeviceOnNodes{}
	for resource, devices := range held {
		for id, d := range devices {
			on := cases.DeviceOnNodes{ID: id}
			if d.Topology != nil {
				for _, n := range d.Topology.Nodes {
					on.NUMA = append(on.NUMA, topology.NUMAID(n.ID))
				}
				slices.Sort(on.NUMA)
			}
			out[resource] = append(out[resource], on)
		}
		slices.SortFunc(out[resource], func(a, b cases.DeviceOnNodes) int { return strings.Compare(a.ID, b.ID) })
	}
	return out
}

// state reads the managers' state.
func (m *managers) state() *cases.State {
	s := &cases.State{DefaultCPUs: m.cpu.State().GetDefaultCPUSet().String()}
	for id, node := range m.memory.State().GetMachineState() {
		if s.Memory == nil {
			s.Memory = map[topology.NUMAID]cases.NodeMemory{}
		}
		n := cases.NodeMemory{Assignments: node.NumberOfAssignments, Cells: numaIDs(node.Cells), Table: map[string]cases.Amounts{}}
		for name, t := range node.MemoryMap {
			n.Table[string(name)] = cases.Amounts{Allocatable: t.Allocatable, Reserved: t.Reserved, Free: t.Free}
		}
		s.Memory[topology.NUMAID(id)] = n
	}
	return s
}

func numaIDs(ids []int) []topology.NUMAID {
	out := make([]topology.NUMAID, 0, len(ids))
	for _, id := range ids {
		out = append(out, topology.NUMAID(id))
	}
	slices.Sort(out)
	return out
}
