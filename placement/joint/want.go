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
	// Same is where devices lie together, and SameHow whether that may be given up. It is given up
	// after all else that is preferred, but never for a wider set of NUMA nodes.
	Same    Same
	SameHow Strength // set if Same is
	Width   Width
	// Nodes asks for exactly so many NUMA nodes, each of which gives some of the CPUs; if no CPUs
	// are wanted, of the first amount, and if there is none, devices by PerNode. 0 leaves it to the
	// width. With a number the width only says whether devices count whose NUMA node nobody knows.
	Nodes int
	// PerNode asks for exactly so many devices of each kind on each NUMA node; 0 leaves it open. It
	// comes with Nodes, and not with Same.
	PerNode int
	Rules   Rules
	// Pays means that CPUs which stay idle for an exclusive one have to be asked for as well: no
	// more are kept from others than CPUs and amounts of CPU time are wanted.
	Pays bool
	// Within are the only sets of NUMA nodes that may be chosen, and WithinEmpty the ones that
	// might be if nothing were handed out: if resources are that the model does not know. Nil means
	// all.
	Within, WithinEmpty hint.Set
	// CPUsWithin are the only sets of NUMA nodes that the CPUs may lie on, and CPUsWithinEmpty the
	// same for Within: if they have to lie near resources that the model does not know. With a set,
	// each larger one is in it. Without CPUs, it is about the set of NUMA nodes. Nil means all.
	CPUsWithin, CPUsWithinEmpty hint.Set
}

// Grant is what a Try assigned.
type Grant struct {
	CPUs topology.CPUSet
	// Nodes is the set of NUMA nodes that was chosen.
	Nodes   hint.Mask
	Amounts []NodeAmount // by kind as in Want.Amounts, then by node
	// Exclusive is the level that is kept: that of the rules, or Shareable if it was given up.
	Exclusive Exclusive
	Devices   []DeviceRef // by kind as in Want.Devices
	// Together means that devices lie as Want.Same asks.
	Together bool
	// Cut means that a search for devices ended because it ran out of steps: others might lie
	// better.
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
	// NoCPUs: the machine has too few free CPUs, on whatever NUMA nodes.
	NoCPUs
	// NoCores: it has enough free CPUs, but not as the rules require them.
	NoCores
	// NoAmount: it has too little left of some amount.
	NoAmount
	// NoDevices: it has too few free devices of a kind, on whatever NUMA nodes.
	NoDevices
	// NotTogether: it has enough free devices, but not together.
	NotTogether
	// TooWide: it has room, but only on more NUMA nodes than the width allows.
	TooWide
	// NotOffered: no set of NUMA nodes may be chosen.
	NotOffered
	// OutOfReach: it has room, but not on sets of NUMA nodes that may be chosen.
	OutOfReach
	// Withholds: the pod would keep CPUs from others that it does not request.
	Withholds
	// NotExactly: it has no room on exactly the requested number of NUMA nodes.
	NotExactly
)

// asking is what is asked, and of what.
type asking struct {
	m     *Model
	b     *Book
	w     *Want
	steps *Budget
}
