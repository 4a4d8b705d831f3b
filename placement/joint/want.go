package joint

import (
	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// Want is the request of a container, or of a pod as a whole.
type Want struct {
	CPUs    int          // pinned
	Amounts []Amount     // each kind once
	Devices []DeviceWant // each kind once
	// Same is the kind of place at which devices must be together. SameHow tells if this is
	// required or preferred. As a preference it is dropped last, but it never makes the set of NUMA
	// nodes larger.
	Same    Same
	SameHow Strength // set if Same is
	Width   Width
	// Nodes requests exactly that many NUMA nodes, each of which provides some of the CPUs. Without
	// CPUs, each provides some of the first amount. Without amounts, each provides PerNode devices.
	// 0 leaves the number to Width. If Nodes is set, Width only determines whether devices with an
	// unknown NUMA node count.
	Nodes int
	// PerNode requests exactly that many devices of each kind on each NUMA node; 0 leaves it open.
	// It requires Nodes, and excludes Same.
	PerNode int
	Rules   Rules
	// Pays means that an exclusive request must include the CPUs that stay idle for it. It then
	// keeps no more CPUs from other pods than the CPUs and CPU time that it requests.
	Pays bool
	// Within are the only allowed sets of NUMA nodes, and WithinEmpty the sets that would be
	// allowed if nothing were assigned. They are for resources that the model does not know. Nil
	// means all.
	Within, WithinEmpty hint.Set
	// CPUsWithin are the only allowed sets of NUMA nodes for the CPUs, and CPUsWithinEmpty the sets
	// that would be allowed on an empty node. They are for CPUs that must be near resources that
	// the model does not know. If a set is allowed, each larger set is allowed too. Without CPUs,
	// they limit the set of NUMA nodes. Nil means all.
	CPUsWithin, CPUsWithinEmpty hint.Set
}

// Grant is the assignment of a Try.
type Grant struct {
	CPUs topology.CPUSet
	// Nodes is the set of NUMA nodes that was chosen.
	Nodes   hint.Mask
	Amounts []NodeAmount // by kind as in Want.Amounts, then by node
	// Exclusive is the resulting level: the level of the rules, or Shareable if the preference was
	// dropped.
	Exclusive Exclusive
	Devices   []DeviceRef // by kind as in Want.Devices
	// Together means that devices are together as Want.Same requests.
	Together bool
	// Cut means that a search for devices ran out of steps, so a better choice may exist.
	Cut bool
}

// PlaceResult is the answer of Place.
type PlaceResult uint8

// The outcomes.
const (
	Placed PlaceResult = iota
	// OddCPUs: full cores are required, and the CPUs are not a whole number of cores.
	OddCPUs
	// UnequalCores: the rules need cores with equally many threads.
	UnequalCores
	// NoCPUs: the machine has too few free CPUs in total.
	NoCPUs
	// NoCores: the machine has enough free CPUs, but not on the cores or caches that the rules
	// require.
	NoCores
	// NoAmount: the machine has too little free CPU time or memory.
	NoAmount
	// NoDevices: the machine has too few free devices of a kind in total.
	NoDevices
	// NotTogether: the machine has enough free devices, but not together.
	NotTogether
	// TooWide: the machine has room, but only on more NUMA nodes than the width allows.
	TooWide
	// NotOffered: no set of NUMA nodes may be chosen.
	NotOffered
	// OutOfReach: the machine has room, but not on a set of NUMA nodes that may be chosen.
	OutOfReach
	// Withholds: the pod would keep more CPUs from other pods than it requests.
	Withholds
	// NotExactly: the machine has no room on exactly the requested number of NUMA nodes.
	NotExactly
)

// asking has the request and the model.
type asking struct {
	m     *Model
	b     *Book
	w     *Want
	steps *Budget
}
