package cpu

import (
	"math/bits"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/placement/hint"
	"github.com/berth-dev/berth/topology"
)

// Hinter computes the CPU manager's topology hints for the NUMA nodes of one machine. It is
// immutable.
type Hinter struct {
	t     *Topology
	place []uint8 // by index of NUMA node, its position in the space
	// cover[k-1] is the number of CPUs on the k largest NUMA nodes.
	cover []int
	// preferred[k] are the masks that are preferred if the smallest mask with enough CPUs has k
	// NUMA nodes.
	preferred    [][]hint.Mask
	preferredSet []hint.Set
	masks        hint.Set // the masks that contain only NUMA nodes with CPUs
}

// HintInput is the input of Hints.
type HintInput struct {
	// N is the requested number of CPUs, at least 1.
	N int
	// Available has the shared CPUs that are not reserved, or the CPUs of a container that already
	// has N CPUs.
	Available *topology.CPUSet
	// Reusable has the CPUs of earlier init containers. With pod scope, it also has the CPUs that
	// containers of the pod already have. Reusable may be nil.
	Reusable *topology.CPUSet
	// Want decides whether Hints must fill List.Offered.
	Want hint.Want
}

// NewHinter returns a Hinter for the topology with hints over the space. If the space lacks a NUMA
// node with CPUs, the error is a *NodeError.
func NewHinter(t *Topology, space *hint.Space) (*Hinter, error) {
	h := &Hinter{t: t, masks: space.NewSet()}
	var withCPUs hint.Mask
	var sizes []int
	for i := range t.numa.groups {
		node := &t.numa.groups[i]
		p, ok := space.Position(topology.NUMAID(node.id))
		if !ok {
			return nil, &NodeError{"NUMA", node.id, "one of the " + strconv.Itoa(space.Len()) + " nodes that hints are made for"}
		}
		h.place = append(h.place, uint8(p))
		withCPUs |= 1 << p
		sizes = append(sizes, node.size)
	}
	slices.Sort(sizes)
	slices.Reverse(sizes)
	sum := 0
	for _, n := range sizes {
		sum += n
		h.cover = append(h.cover, sum)
	}
	h.prefer(space, withCPUs)
	return h, nil
}

func (h *Hinter) prefer(space *hint.Space, withCPUs hint.Mask) {
	h.preferred = make([][]hint.Mask, len(h.t.numa.groups)+1)
	h.preferredSet = make([]hint.Set, len(h.t.numa.groups)+1)
	for k := range h.preferredSet {
		h.preferredSet[k] = space.NewSet()
	}
	for _, m := range space.BySize() {
		if m&^withCPUs != 0 {
			continue
		}
		h.masks.Add(m)
		for k := 1; k < len(h.preferred); k++ {
			if m.Len() == k || h.socketAligned(m, k) {
				h.preferred[k] = append(h.preferred[k], m)
				h.preferredSet[k].Add(m)
			}
		}
	}
}

// socketAligned reproduces the kubelet's isHintSocketAligned.
func (h *Hinter) socketAligned(m hint.Mask, smallest int) bool {
	perSocket := len(h.t.numa.groups) / h.t.numSockets
	if !h.t.opts.AlignBySocket || perSocket == 0 {
		return false
	}
	var nodes []uint8
	for i, p := range h.place {
		if m.Has(int(p)) {
			nodes = append(nodes, uint8(i))
		}
	}
	return h.t.socketCount(nodes) == ceilDiv(smallest, perSocket)
}

// free has the number of available CPUs by position (at), and the conditions for offering a mask.
type free struct {
	at [hint.MaxNodes]int
	// need is the number of available CPUs that a mask must have, in addition to the reusable CPUs.
	need int
	// must has the NUMA nodes of the reusable CPUs.
	must hint.Mask
}

// Hints fills l as generateCPUTopologyHints does. l must be from NewList of the Hinter's space.
func (h *Hinter) Hints(in *HintInput, l *hint.List) {
	l.Reset(hint.Masks)
	f := h.free(in)
	k := h.smallest(in.N)
	if in.Want == hint.Preferred {
		for _, m := range h.preferred[k] {
			if f.offers(m) {
				l.Preferred.Add(m)
			}
		}
		return
	}
	var some uint64
	f.offered(l.Offered)
	for i := range l.Offered {
		l.Offered[i] &= h.masks[i]
		l.Preferred[i] = l.Offered[i] & h.preferredSet[k][i]
		some |= l.Offered[i]
	}
	if some == 0 {
		l.Kind = hint.Impossible
	}
}

// smallest returns the kubelet's minAffinitySize: the size of the smallest mask that has n CPUs,
// free or not. If no mask has n CPUs, it returns the number of NUMA nodes with CPUs.
func (h *Hinter) smallest(n int) int {
	for k, cpus := range h.cover {
		if cpus >= n {
			return k + 1
		}
	}
	return len(h.cover)
}

func (h *Hinter) free(in *HintInput) (f free) {
	f.need = in.N
	avail := in.Available.Words()
	for i, p := range h.place {
		f.at[p] = count(h.t.numa.groups[i].pieces, avail)
	}
	if in.Reusable == nil {
		return f
	}
	reusable := in.Reusable.Words()
	for i, p := range h.place {
		if n := count(h.t.numa.groups[i].pieces, reusable); n > 0 {
			f.must |= 1 << p
			f.need -= n
		}
	}
	return f
}

// offers reports whether the mask m of NUMA nodes with CPUs contains every NUMA node of f.must, and
// has enough available CPUs.
func (f *free) offers(m hint.Mask) bool {
	if f.must&^m != 0 {
		return false
	}
	sum := 0
	for w := uint16(m); w != 0; w &= w - 1 {
		sum += f.at[bits.TrailingZeros16(w)&(hint.MaxNodes-1)]
	}
	return sum >= f.need
}

// atLeast compares four sums at a time, each in 16 bits of a word. The highest of the 16 bits holds
// the result.
const (
	lanes   = 0x0001000100010001
	answers = 0x8000800080008000
	// gather brings bits 0, 16, 32 and 48 together at bit 48.
	gather = 1<<48 | 1<<33 | 1<<18 | 1<<3
)

// lowMasks[i] has the masks over the six lowest positions that contain position i.
var lowMasks = [6]uint64{
	0xaaaaaaaaaaaaaaaa, 0xcccccccccccccccc, 0xf0f0f0f0f0f0f0f0,
	0xff00ff00ff00ff00, 0xffff0000ffff0000, 0xffffffff00000000,
}

// offered fills set with all masks that have enough CPUs and all NUMA nodes in must. The 64 masks
// in one word of a Set differ only in the six lowest positions.
func (f *free) offered(set hint.Set) {
	var sums [16]uint64
	for i := range sums {
		sums[i] = f.lowSums(i)
	}
	keep := ^uint64(0)
	for i, m := range lowMasks {
		if f.must.Has(i) {
			keep &= m
		}
	}
	mustHigh := int(f.must >> 6)
	for i := range set {
		if mustHigh&^i != 0 {
			continue
		}
		need := f.need
		for w := uint16(i); w != 0; w &= w - 1 {
			need -= f.at[(6+bits.TrailingZeros16(w))&(hint.MaxNodes-1)]
		}
		set[i] = atLeast(&sums, need) & keep
	}
}

// lowSums returns the sums of the four masks from 4i to 4i+3, over the six lowest positions, in 16
// bits each.
func (f *free) lowSums(i int) uint64 {
	base := 0
	for p := 2; p < 6; p++ {
		base += f.at[p] * (i >> (p - 2) & 1)
	}
	return uint64(base)*lanes + uint64(f.at[0])*(1<<16|1<<48) + uint64(f.at[1])*(1<<32|1<<48)
}

// atLeast returns a bit for each of the 64 sums that is at least need.
func atLeast(sums *[16]uint64, need int) (set uint64) {
	if need <= 0 {
		return ^uint64(0)
	}
	if need > topology.MaxCPUs {
		return 0
	}
	for i, s := range sums {
		yes := (s + answers - uint64(need)*lanes) & answers >> 15
		set |= yes * gather >> 48 & 15 << (4 * i)
	}
	return set
}
