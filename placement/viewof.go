package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/topology"
)

// ViewOf returns the KubeletView of a machine, as read by cAdvisor v0.56.2
// (utils/sysinfo.GetNodesInfo, machine.GetSockets), from which kubelet v1.36 builds its topology.
// Nodes, cores and threads are in cAdvisor's order, the lexical order of the folders in /sys (cpu10
// before cpu2).
//
// A machine without NUMA nodes gets one ViewNode for each package, without memory, as in
// getCPUTopology. cAdvisor lists these nodes in random order, ViewOf in ascending order.
//
// The error names the field of the machine. NUMA ids must be unique and from 0 to 63, because the
// kubelet uses 64-bit masks.
func ViewOf(m *topology.Machine) (*KubeletView, error) {
	view := &KubeletView{NumSockets: sockets(m)}
	if len(m.NUMANodes) == 0 {
		return view.ofPackages(m)
	}
	seen := topology.NUMASet(0)
	for i := range m.NUMANodes {
		id := m.NUMANodes[i].ID
		if id >= topology.MaxNUMANodes || seen.Has(id) {
			return nil, fmt.Errorf(`NUMANodes[%d].ID: "%d": want a unique NUMA id from 0 to %d, because the kubelet supports no other ids`,
				i, id, topology.MaxNUMANodes-1)
		}
		seen = seen.With(id)
		node := viewNode(m, &m.NUMANodes[i])
		node.HasDevices = slices.ContainsFunc(m.Devices, func(d topology.Device) bool { return d.HasNUMA && d.NUMA == id })
		view.NumCores += countThreads(node.Cores)
		view.Nodes = append(view.Nodes, node)
	}
	slices.SortFunc(view.Nodes, func(a, b ViewNode) int { return lexical(int(a.ID), int(b.ID)) })
	return view, nil
}

// lexical compares two numbers as text, which is the order of folder names.
func lexical(a, b int) int { return cmp.Compare(strconv.Itoa(a), strconv.Itoa(b)) }

func countThreads(cores []ViewCore) (n int) {
	for i := range cores {
		n += len(cores[i].Threads)
	}
	return n
}

// sockets returns the number of sockets as cAdvisor counts them (machine.GetSockets). If the
// platform has no package numbers, the result is 1: all CPUs then have the id -1, or no id, which
// cAdvisor reads as 0.
func sockets(m *topology.Machine) int {
	if m.UnnumberedPackages {
		return 1
	}
	return max(1, len(m.Packages))
}

// socketOf returns physical_package_id. It is -1 if the platform has no package numbers.
func socketOf(m *topology.Machine, core *topology.Core) int {
	if m.UnnumberedPackages {
		return int(topology.NoPackage)
	}
	return int(core.Package)
}

// ofPackages implements getCPUTopology: it adds a ViewNode for each package. NumCores counts all
// CPUs that have a folder in sysfs, including offline CPUs.
func (view *KubeletView) ofPackages(m *topology.Machine) (*KubeletView, error) {
	view.NumCores = m.Online.Len() + m.Offline.Len()
	if m.UnnumberedPackages {
		return nil, errors.New(`UnnumberedPackages: "true": want NUMA nodes, or packages with ids, because without NUMA nodes the kubelet uses the package's id, here -1, as a NUMA id`)
	}
	for _, p := range m.Packages {
		if p.ID >= topology.MaxNUMANodes {
			return nil, fmt.Errorf(`Packages.ID: "%d": want a package id from 0 to %d on a machine without NUMA nodes, because the kubelet uses it as a NUMA id`,
				p.ID, topology.MaxNUMANodes-1)
		}
		node := ViewNode{ID: topology.NUMAID(p.ID), Cores: viewCores(m, &p.CPUs)}
		addUncore(m, &node)
		view.Nodes = append(view.Nodes, node)
	}
	return view, nil
}

func viewNode(m *topology.Machine, n *topology.NUMANode) ViewNode {
	node := ViewNode{ID: n.ID, MemoryBytes: n.MemoryBytes, HugePages: slices.Clone(n.HugePages), Cores: viewCores(m, &n.CPUs)}
	slices.SortFunc(node.HugePages, func(a, b topology.HugePages) int {
		return cmp.Compare(fmt.Sprintf("hugepages-%dkB", a.PageBytes>>10), fmt.Sprintf("hugepages-%dkB", b.PageBytes>>10))
	})
	for _, d := range n.Distances {
		node.Distances = append(node.Distances, uint64(d))
	}
	if len(m.NUMANodes) == 1 && len(n.Distances) == 0 {
		node.Distances = []uint64{10} // the kernel's LOCAL_DISTANCE; a described machine may omit it
	}
	addUncore(m, &node)
	return node
}

// viewCores groups the threads of a NUMA node by core and package id, as getCoresInfo does. Two
// cores with equal core and package ids count as one core.
func viewCores(m *topology.Machine, cpus *topology.CPUSet) []ViewCore {
	var cores []ViewCore
	for _, thread := range inFolderOrder(cpus) {
		core := coreOf(m, thread)
		if core == nil {
			continue // no core_id: cAdvisor skips the CPU
		}
		id, socket := int(core.ID), socketOf(m, core)
		i := slices.IndexFunc(cores, func(c ViewCore) bool { return c.ID == id && c.Socket == socket })
		if i < 0 {
			i = len(cores)
			cores = append(cores, ViewCore{ID: id, Socket: socket})
		}
		cores[i].Threads = append(cores[i].Threads, thread)
	}
	return cores
}

func inFolderOrder(cpus *topology.CPUSet) []topology.CPUID {
	ids := slices.Collect(cpus.All())
	slices.SortFunc(ids, func(a, b topology.CPUID) int { return lexical(int(a), int(b)) })
	return ids
}

func coreOf(m *topology.Machine, cpu topology.CPUID) *topology.Core {
	for i := range m.Cores {
		if m.Cores[i].CPUs.Has(cpu) {
			return &m.Cores[i]
		}
	}
	return nil
}

// addUncore implements addCacheInfo. A level-3 cache is an uncore cache, unless its number of CPUs
// is the NUMA node's number of cores times the core's number of threads. Without cache ids,
// cAdvisor finds no uncore caches.
func addUncore(m *topology.Machine, node *ViewNode) {
	if m.UnnumberedCaches {
		return
	}
	for i := range node.Cores {
		core := &node.Cores[i]
		for j := range m.L3s {
			l3 := &m.L3s[j]
			if l3.CPUs.Has(core.Threads[0]) && l3.CPUs.Len() != len(node.Cores)*len(core.Threads) {
				core.Uncore = append(core.Uncore, int(l3.ID))
			}
		}
	}
}
