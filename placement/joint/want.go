package joint

import (
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// Want is the request of a container, or of a pod as a whole.
type Want struct {
	CPUs    int          // the number of CPUs to pin
	Amounts []Amount     // each kind once
	Devices []DeviceWant // each kind once
	// Same tells at which places the devices must be together, and SameHow if this is a requirement
	// or a preference. Place drops the preference after all preferences of Rules, and never uses
	// more NUMA nodes to keep it.
	Same    Same
	SameHow Strength // not Unset if Same is set
	Width   Width
	// Nodes requests exactly this number of NUMA nodes. Each of them provides some of the CPUs.
	// Without CPUs, each provides a part of the first amount; without amounts, each provides
	// PerNode devices. 0 leaves the number to Width. If Nodes is set, Width has only one effect:
	// devices with an unknown NUMA node count only with AnyWidth.
	Nodes int
	// PerNode requests exactly this number of devices of each kind on each NUMA node. 0 means that
	// there is no such request. PerNode requires Nodes, and cannot be combined with Same.
	PerNode int
	Rules   Rules
	// Pays means that a request with Rules.Exclusive must request all CPUs that it keeps from other
	// pods, as CPUs or as CPU time.
	Pays bool
	// Within has the allowed sets of NUMA nodes, and WithinEmpty the sets that would be allowed on
	// an empty node. Callers use these for resources that the Model does not have, such as those of
	// providers. Nil allows all sets.
	Within, WithinEmpty hint.Set
	// CPUsWithin has the allowed sets of NUMA nodes for the CPUs, and CPUsWithinEmpty the sets that
	// would be allowed on an empty node. Callers use these to place CPUs near resources that the
	// Model does not have. If a set is allowed, every set that contains it must be allowed too. If
	// the request has no CPUs, CPUsWithin limits the whole set of NUMA nodes. Nil allows all sets.
	CPUsWithin, CPUsWithinEmpty hint.Set
}

// Grant has the resources that Place assigned.
type Grant struct {
	CPUs topology.CPUSet
	// Nodes is the set of NUMA nodes that was chosen.
	Nodes   hint.Mask
	Amounts []NodeAmount // by kind as in Want.Amounts, then by NUMA node
	// Exclusive is Rules.Exclusive of the Want, or Shareable if Place dropped this preference.
	Exclusive Exclusive
	Devices   []DeviceRef // by kind as in Want.Devices
	// Together means that the devices are together as Want.Same requests.
	Together bool
	// Cut means that a search ran out of steps, so a better choice may exist.
	Cut bool
}

// PlaceResult is Placed, or the reason why Place found no place.
type PlaceResult uint8

// The results of Place.
const (
	Placed PlaceResult = iota
	// OddCPUs: FullCores is required, and the number of CPUs is not a multiple of the threads per
	// core.
	OddCPUs
	// UnequalCores: the rules need cores with equal numbers of threads, which the machine does not
	// have.
	UnequalCores
	// NoCPUs: the machine has too few free CPUs in total.
	NoCPUs
	// NoCores: the machine has enough free CPUs, but not on the cores, caches or NUMA nodes that
	// the rules require.
	NoCores
	// NoAmount: the machine has too little free CPU time or memory.
	NoAmount
	// NoDevices: the machine has too few free devices of a kind in total.
	NoDevices
	// NotTogether: the machine has enough free devices, but not below the same PCI switch or root
	// complex, as required.
	NotTogether
	// TooWide: the machine has room, but only on more NUMA nodes than the width allows.
	TooWide
	// NotOffered: Want.Within or Want.CPUsWithin is empty.
	NotOffered
	// OutOfReach: the machine has room, but not on a set of NUMA nodes that Want.Within or
	// Want.CPUsWithin allows.
	OutOfReach
	// Withholds: the pod would keep more CPUs from other pods than it requests.
	Withholds
	// NotExactly: no set of exactly Want.Nodes NUMA nodes has room.
	NotExactly
)

type asking struct {
	m     *Model
	b     *Book
	w     *Want
	steps *Budget
}
