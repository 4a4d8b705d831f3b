package placement

import "github.com/berth-dev/berth/topology"

// KubeletView is the machine as the kubelet sees it: the info/v1.MachineInfo that cAdvisor read
// from sysfs when the kubelet started. It can differ from topology.Machine. The engine uses the
// KubeletView and not the Machine.
type KubeletView struct {
	// NumCores is MachineInfo.NumCores: the number of online hardware threads, or of all threads if
	// the machine has no NUMA nodes. The kubelet computes the CPUs per core and per socket from it.
	NumCores int
	// NumSockets is MachineInfo.NumSockets, which cAdvisor computes (machine.GetSockets).
	NumSockets int
	// Nodes is MachineInfo.Topology, in cAdvisor's order.
	Nodes []ViewNode
}

// ViewNode is info/v1.Node: a NUMA node.
type ViewNode struct {
	ID          topology.NUMAID
	MemoryBytes uint64
	HugePages   []topology.HugePages
	// Distances is the line in the NUMA node's file "distance" in sysfs: one distance for each
	// online NUMA node, ascending by id.
	Distances []uint64
	Cores     []ViewCore
	// HasDevices means that the NUMA node has PCI devices, so device plugins may name it. The
	// kubelet itself does not have this value. The engine uses HasDevices only on machines with
	// more than 16 NUMA nodes.
	HasDevices bool
}

// ViewCore is info/v1.Core: a physical core with its threads on one NUMA node.
type ViewCore struct {
	ID      int // core_id: not unique across sockets
	Socket  int
	Threads []topology.CPUID // in cAdvisor's order
	// Uncore lists the ids of the level-3 caches that cAdvisor reports as uncore caches. The
	// kubelet uses the first.
	Uncore []int
}
